// The tasks, one line each. The command line and the documentation walk this list.
#pragma once

#include <span>
#include <string_view>

#include "longspan/tasks/task.h"

namespace longspan {

std::span<const Task> tasks();

// Throws Error with the nearest name when there is none.
const Task& find_task(std::string_view name);

}  // namespace longspan
