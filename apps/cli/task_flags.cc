#include "task_flags.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace longspan::cli {

namespace {

// An option as the tasks that have it describe it.
struct Shared {
  std::string purpose;
  std::string standard;
  bool is_text = false;
  Bounds bounds;  // of a number, what any of the tasks takes
};

// "text: …; images: …" where tasks differ, else what all of them say.
std::string joined(const std::vector<std::pair<std::string_view, std::string>>& said) {
  std::set<std::string> different;
  for (const auto& [task, text] : said) different.insert(text);
  if (different.size() == 1) return *different.begin();
  std::string all;
  for (const auto& [task, text] : said) {
    all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", task, text);
  }
  return all;
}

Shared shared(const std::string& name) {
  std::vector<std::pair<std::string_view, std::string>> purposes;
  std::vector<std::pair<std::string_view, std::string>> standards;
  Shared option;
  for (const TaskEntry& task : tasks()) {
    for (const TaskOption& o : task.options()) {
      if (o.name != name) continue;
      purposes.emplace_back(task.name, o.purpose);
      standards.emplace_back(task.name, o.standard);
      option.is_text = o.is_text;
      const bool first = purposes.size() == 1;
      option.bounds.least = first ? o.bounds.least : std::min(option.bounds.least, o.bounds.least);
      option.bounds.most = first ? o.bounds.most : std::max(option.bounds.most, o.bounds.most);
    }
  }
  // An option of one task alone says whose it is.
  option.purpose = purposes.size() == 1
                       ? fmt::format("{}: {}", purposes.front().first, purposes.front().second)
                       : joined(purposes);
  option.standard = joined(standards);
  return option;
}

}  // namespace

void TaskFlags::add(CLI::App& command, const std::string& group) {
  for (const TaskEntry& task : tasks()) {
    for (const TaskOption& option : task.options()) {
      if (given_.contains(option.name)) continue;
      const Shared all = shared(option.name);
      std::string flag = "--" + option.name;
      std::ranges::replace(flag, '_', '-');
      std::string& given = given_[option.name];
      CLI::Option* const added =
          all.is_text
              ? command.add_option(flag, given, all.purpose)->group(group)
              : add_read(command, flag, all.purpose, ends_in_words(all.bounds), group,
                         [&command, &given, flag, bounds = all.bounds](const std::string& written) {
                           read_number<std::uint64_t>(command.get_name(), flag, written, bounds);
                           given = written;
                         });
      if (!all.standard.empty()) added->default_str(all.standard);
    }
  }
}

TaskOptions TaskFlags::of(const TaskEntry& task) const {
  TaskOptions options;
  for (const auto& [name, text] : given_) {
    if (!text.empty() && task.has_option(name)) options[name] = text;
  }
  return options;
}

}  // namespace longspan::cli
