#include "applies.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "longspan/base/error.h"

namespace longspan::cli {

std::string flag_of(const CLI::Option& option) { return "--" + option.get_lnames().front(); }

std::string either(const std::vector<std::string_view>& names) {
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i) {
    list += i == 0 ? "" : i + 1 == names.size() ? " or " : ", ";
    list += names[i];
  }
  return list;
}

Meaning only_where(std::function<bool(const RunConfig&)> holds, std::string otherwise) {
  return {[holds = std::move(holds), otherwise = std::move(otherwise)](const RunConfig& run) {
    return holds(run) ? std::string() : otherwise;
  }};
}

Meaning only_families(const std::vector<Family>& families) {
  const auto has = [families](Family family) {
    return std::ranges::find(families, family) != families.end();
  };
  Meaning meaning = only_kinds<Family>(
      "model", [](const RunConfig& run) -> Family { return run.model.family; }, has);
  meaning.may = [has](const TaskEntry& task) {
    return std::ranges::any_of(task.make({})->families(), has);
  };
  return meaning;
}

void Applies::only(CLI::App& command, std::initializer_list<std::string> flags,
                   const Meaning& meaning) {
  for (const std::string& flag : flags) {
    CLI::Option* const option = command.get_option(flag);
    all_.push_back({option, option->get_group(), meaning});
  }
}

void Applies::check(std::string_view who, const RunConfig& run) const {
  for (const Limited& limited : all_) {
    if (limited.option->count() == 0) continue;
    const std::string idle = limited.meaning.idle(run);
    require(idle.empty(), "[{}] {} with {}", who, flag_of(*limited.option), idle);
  }
}

void Applies::show(const TaskEntry* task) const {
  for (const Limited& limited : all_) limited.option->group(limited.group);
  for (const Limited& limited : all_) {
    const auto& may = limited.meaning.may;
    const bool shows = task != nullptr ? may(*task) : std::ranges::all_of(tasks(), may);
    if (!shows) limited.option->group("");  // hidden
  }
}

}  // namespace longspan::cli
