// The tasks, one line each. The command line and the documentation walk this list.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "longspan/tasks/task.h"
#include "longspan/tasks/task_options.h"

namespace longspan {

struct TaskEntry {
  std::string_view name;
  std::string_view summary;  // one line
  std::vector<TaskOption> (*options)();
  // Options that are not given keep their defaults; nothing is read before Task::open.
  std::unique_ptr<Task> (*make)(const TaskOptions& options);

  bool has_option(std::string_view option) const;
};

std::span<const TaskEntry> tasks();

// Throws Error with the nearest name when there is none.
const TaskEntry& find_task(std::string_view name);

}  // namespace longspan
