#include "longspan/tasks/task.h"

#include <array>

#include "longspan/base/config.h"
#include "longspan/base/error.h"

namespace longspan {

namespace {

constexpr std::array<std::string_view, 4> kSplits = {"training", "validation", "test", "all"};

}  // namespace

std::string_view name_of(Split split) { return kSplits[static_cast<std::size_t>(split)]; }

Split split_from(std::string_view who, std::string_view name) {
  for (std::size_t i = 0; i < kSplits.size(); ++i) {
    if (kSplits[i] == name) return static_cast<Split>(i);
  }
  throw_unknown(who, "split", name, {kSplits.begin(), kSplits.end()});
}

std::vector<std::int32_t> Task::encode(std::string_view /*prompt*/) const {
  throw Error(fmt::format("[{}] its models read no text; need a task of tokens", name()));
}

std::string Task::decode(std::span<const std::int32_t> /*tokens*/) const {
  throw Error(fmt::format("[{}] its models write no text; need a task of tokens", name()));
}

}  // namespace longspan
