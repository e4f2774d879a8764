#include "modes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "longspan/base/error.h"

namespace longspan::cli {

namespace {

std::string spoken(const CLI::Option& option) {
  return option.get_lnames().empty() ? option.get_name() : "--" + option.get_lnames().front();
}

// An option by itself or by its group.
bool is_among(const CLI::Option& option, const Modes::Names& names) {
  return std::ranges::any_of(names, [&](const std::string& name) {
    return option.check_name(name) || option.get_group() == name;
  });
}

}  // namespace

Modes& Modes::only(std::string flag, Names reads) {
  all_.push_back({Kind::kOnly, {std::move(flag)}, std::move(reads)});
  return *this;
}

Modes& Modes::apart(std::string flag, Names others) {
  all_.push_back({Kind::kApart, {std::move(flag)}, std::move(others)});
  return *this;
}

Modes& Modes::needs(Names flags, Names others) {
  all_.push_back({Kind::kNeeds, std::move(flags), std::move(others)});
  return *this;
}

void Modes::check(const CLI::App& command) const {
  const std::vector<const CLI::Option*> typed =
      command.get_options([](const CLI::Option* each) { return each->count() > 0; });
  // What is given but empty would be read as not given.
  for (const CLI::Option* each : typed) {
    require(std::ranges::find(each->results(), "") == each->results().end(),
            "[{}] {} is empty; need a value", command.get_name(), spoken(*each));
  }
  for (const Statement& s : all_) {
    const auto first = std::ranges::find_if(
        typed, [&](const CLI::Option* each) { return is_among(*each, s.first); });
    if (first == typed.end()) continue;
    if (s.kind == Kind::kNeeds) {
      const bool there = std::ranges::any_of(
          typed, [&](const CLI::Option* each) { return is_among(*each, s.second); });
      require(there, "[{}] {} alone; need {}", command.get_name(), spoken(**first),
              fmt::join(s.second, " or "));
      continue;
    }
    for (const CLI::Option* other : typed) {
      if (other == *first || is_among(*other, s.second) == (s.kind == Kind::kOnly)) continue;
      require(false, "[{}] {} with {}; need one or the other", command.get_name(), spoken(*other),
              spoken(**first));
    }
  }
}

}  // namespace longspan::cli
