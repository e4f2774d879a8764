// The options of the tasks as flags: those that their configs name, whatever tasks there are.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "applies.h"
#include "command.h"
#include "longspan/tasks/registry.h"

namespace longspan::cli {

// To runs of a task that has the option, and reads it beside the others.
Meaning only_tasks_with(const std::string& option);
// To runs of the tasks that are so, whatever their options.
Meaning only_tasks(std::function<bool(const Task&)> are);

class TaskFlags {
 public:
  // A flag of every option that any task has. The object must outlive the command line.
  void add(CLI::App& command, Applies& applies, const std::string& group = "Task");
  // Help has what the task says of its options.
  void show(const TaskEntry& task) const;
  // What was given of the options that the task has. Throws Error for others.
  TaskOptions of(const TaskEntry& task) const;

 private:
  std::map<std::string, std::string> given_;     // by the option's name; empty: not given
  std::map<std::string, CLI::Option*> options_;  // likewise
};

}  // namespace longspan::cli
