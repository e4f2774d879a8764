#include "task_flags.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "longspan/base/error.h"

namespace longspan::cli {

namespace {

// "the task copy; need text or images"
std::string of_others(std::string_view task, std::string_view option) {
  std::vector<std::string_view> having;
  for (const TaskEntry& other : tasks()) {
    if (other.has_option(option)) having.push_back(other.name);
  }
  return fmt::format("the task {}; need {}", task, either(having));
}

// What any of the tasks takes that have the option; each checks its own.
Bounds widest_bounds(std::string_view option) {
  std::optional<Bounds> widest;
  for (const TaskEntry& task : tasks()) {
    for (const TaskOption& o : task.options()) {
      if (o.name != option) continue;
      if (!widest) widest = o.bounds;
      widest->least = std::min(widest->least, o.bounds.least);
      widest->most = std::max(widest->most, o.bounds.most);
    }
  }
  return *widest;
}

CLI::Option* add_task_number(CLI::App& command, const std::string& flag, std::string& given,
                             const TaskOption& option, const std::string& group) {
  const Bounds bounds = widest_bounds(option.name);
  return add_read(
      command, flag, option.purpose, ends_in_words(bounds), group,
      [&command, &given, flag, bounds, whole = option.is_whole](const std::string& written) {
        if (whole) {
          read_number<std::uint64_t>(command.get_name(), flag, written, bounds);
        } else {
          read_number<double>(command.get_name(), flag, written, bounds);
        }
        given = written;
      });
}

}  // namespace

Meaning only_tasks_with(const std::string& option) {
  const auto idle = [option](const RunConfig& run) {
    const TaskEntry& task = find_task(run.data.task);
    if (!task.has_option(option)) return of_others(task.name, option);
    return std::string(run.make_task()->idle(option));
  };
  return {idle, [option](const TaskEntry& task) { return task.has_option(option); }};
}

Meaning only_tasks(std::function<bool(const Task&)> are) {
  const auto may = [are = std::move(are)](const TaskEntry& task) { return are(*task.make({})); };
  const auto idle = [may](const RunConfig& run) {
    if (may(find_task(run.data.task))) return std::string();
    std::vector<std::string_view> right;
    for (const TaskEntry& task : tasks()) {
      if (may(task)) right.push_back(task.name);
    }
    return fmt::format("the task {}; need {}", run.data.task, either(right));
  };
  return {idle, may};
}

void TaskFlags::add(CLI::App& command, Applies& applies, const std::string& group) {
  for (const TaskEntry& task : tasks()) {
    for (const TaskOption& option : task.options()) {
      if (given_.contains(option.name)) continue;
      std::string flag = "--" + option.name;
      std::ranges::replace(flag, '_', '-');
      std::string& given = given_[option.name];
      CLI::Option* const added = option.is_text
                                     ? command.add_option(flag, given, option.purpose)->group(group)
                                     : add_task_number(command, flag, given, option, group);
      options_[option.name] = added;
      applies.only(command, {flag}, only_tasks_with(option.name));
    }
  }
}

void TaskFlags::show(const TaskEntry& task) const {
  for (const TaskOption& option : task.options()) {
    options_.at(option.name)->description(option.purpose)->default_str(option.standard);
  }
}

TaskOptions TaskFlags::of(const TaskEntry& task) const {
  TaskOptions options;
  for (const auto& [name, option] : options_) {
    if (option->count() == 0) continue;
    require(task.has_option(name), "[train] {} with {}", flag_of(*option),
            of_others(task.name, name));
    require(!given_.at(name).empty(), "[train] {} is empty; need a value", flag_of(*option));
    options[name] = given_.at(name);
  }
  return options;
}

}  // namespace longspan::cli
