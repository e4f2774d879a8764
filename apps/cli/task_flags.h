// The options of the tasks as flags: those that their configs name, whatever tasks there are.
#pragma once

#include <map>
#include <string>

#include "command.h"
#include "longspan/tasks/registry.h"

namespace longspan::cli {

class TaskFlags {
 public:
  // A flag of every option that any task has. The object must outlive the command line.
  void add(CLI::App& command, const std::string& group = "Task");
  // What was given of the options that the task has.
  TaskOptions of(const TaskEntry& task) const;

 private:
  std::map<std::string, std::string> given_;  // by the option's name; empty: not given
};

}  // namespace longspan::cli
