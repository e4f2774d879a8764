#include "longspan/tasks/registry.h"

#include <algorithm>
#include <array>
#include <vector>

#include "longspan/base/config.h"

namespace longspan {

namespace {

constexpr std::array kTasks{
    Task{"text", "next-token prediction on a text file, by bytes or characters"},
    Task{"images", "the class of a grey image: MNIST, or what has its format"},
};

}  // namespace

std::span<const Task> tasks() { return kTasks; }

const Task& find_task(std::string_view name) {
  const auto* const found = std::ranges::find(kTasks, name, &Task::name);
  if (found != kTasks.end()) return *found;
  std::vector<std::string_view> known;
  known.reserve(kTasks.size());
  for (const Task& task : kTasks) known.push_back(task.name);
  throw_unknown("task", "task", name, known);
}

}  // namespace longspan
