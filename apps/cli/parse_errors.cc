#include "parse_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "longspan/base/config.h"
#include "longspan/base/error.h"

namespace longspan::cli {

namespace {

// The command that was being read, or the program.
const CLI::App& command_of(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : *chosen.back();
}

std::string help_of(const CLI::App& app) {
  const CLI::App& command = command_of(app);
  return &command == &app ? "longspan --help"
                          : fmt::format("longspan {} --help", command.get_name());
}

// What compare starts is nobody's to choose.
std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command :
       app.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* each : {&command_of(app), &app}) {
    for (const CLI::Option* option : each->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

// A word that nothing on the command line takes.
std::string unexpected(const CLI::App& app, const std::string& word) {
  const CLI::App& command = command_of(app);
  if (!word.starts_with('-') && &command == &app) {
    const std::vector<std::string> names = commands_of(app);
    throw_unknown(app.get_name(), "command", word, {names.begin(), names.end()});
  }
  // Names are compared without their dashes, which all of them have.
  const auto bare = [](std::string_view name) {
    return name.substr(std::min(name.find_first_not_of('-'), name.size()));
  };
  const std::string name = word.substr(0, word.find('='));
  const std::vector<std::string> names = options_of(app);
  std::vector<std::string_view> known;
  for (const std::string& each : names) known.push_back(bare(each));
  const bool taken = std::ranges::find(names, name) != names.end();  // but not here, behind --
  if (!word.starts_with('-') || taken) {
    return fmt::format("[{}] unexpected '{}'; see {}", command.get_name(), word, help_of(app));
  }
  const std::string_view meant = similar(bare(name), known);
  const std::string hint =
      meant.empty() ? "; see " : fmt::format("; did you mean '--{}'? See ", meant);
  return fmt::format("[{}] unknown option '{}'{}{}", command.get_name(), name, hint, help_of(app));
}

// CLI11 begins its messages with the option's name.
const CLI::Option* option_in(const CLI::App& app, const std::string& message) {
  std::string name = message.substr(0, message.find_first_of(": "));
  if (!name.starts_with('-')) name.insert(0, "--");
  const CLI::Option* own = command_of(app).get_option_no_throw(name);
  return own != nullptr ? own : app.get_option_no_throw(name);
}

std::string mismatch(const CLI::App& app, const std::string& message) {
  const CLI::Option* option = option_in(app, message);
  const std::string& who = command_of(app).get_name();
  if (option == nullptr) return fmt::format("[{}] {}; see {}", who, message, help_of(app));
  const std::string name = option->get_name();
  if (option->get_expected_max() == 0) {
    return fmt::format("[{}] {} has a value; need {} alone", who, name, name);
  }
  if (option->count() > 1) {
    return fmt::format("[{}] {} is given {} times; need it once", who, name, option->count());
  }
  return fmt::format("[{}] {} has no value; need {} {}, see {}", who, name, name,
                     option->get_type_name(), help_of(app));
}

std::string missing(const CLI::App& app, const std::string& message) {
  if (&command_of(app) == &app) {
    return fmt::format("[{}] no command; need one of {}", app.get_name(),
                       fmt::join(commands_of(app), ", "));
  }
  return fmt::format("[{}] no {}; need one, see {}", command_of(app).get_name(),
                     message.substr(0, message.find(' ')), help_of(app));
}

// Of the first character in UTF-8; 0 where it is none.
std::size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x80) return 1;
  const std::size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < bytes) return 0;
  const bool goes_on = std::ranges::all_of(text.substr(1, bytes - 1),
                                           [](unsigned char c) { return c >= 0x80 && c < 0xC0; });
  return goes_on ? bytes : 0;
}

}  // namespace

void refuse_values_of_flags(CLI::App& command) {
  for (CLI::Option* option :
       command.get_options([](const CLI::Option* each) { return each->get_expected_max() == 0; })) {
    option->disable_flag_override();
  }
}

void explain(const CLI::ParseError& error, const CLI::App& app) {
  const std::string message = error.what();
  const bool incomplete = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (incomplete || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    // What nobody takes explains why something else is missing.
    const std::vector<std::string> words = app.remaining(true);
    if (!words.empty()) throw Error(unexpected(app, words.front()));
  }
  throw Error(incomplete ? missing(app, message) : mismatch(app, message));
}

std::string visible(std::string_view sentence) {
  constexpr std::size_t kLongest = 2000;
  constexpr std::size_t kTail = 500;
  std::string shown;
  for (std::size_t i = 0; i < sentence.size(); ++i) {
    if (sentence.size() > kLongest && i == kLongest - kTail) {
      shown += " … ";
      i = sentence.size() - kTail;
    }
    const auto c = static_cast<unsigned char>(sentence[i]);
    const auto next = static_cast<unsigned char>(i + 1 < sentence.size() ? sentence[i + 1] : 0);
    const bool control = c < 0x20 || c == 0x7F;
    // The other control characters, of which 0x9B opens escape sequences as well.
    const bool second = c == 0xC2 && next >= 0x80 && next < 0xA0;
    if (control || second) {
      shown += fmt::format("\\x{:02x}", second ? next : c);
      if (second) ++i;
    } else if (const std::size_t bytes = character_bytes(sentence.substr(i)); bytes > 0) {
      shown += sentence.substr(i, bytes);
      i += bytes - 1;
    } else {  // which a terminal may take for anything
      shown += fmt::format("\\x{:02x}", c);
    }
  }
  return shown;
}

}  // namespace longspan::cli
