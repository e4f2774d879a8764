#include "longspan/tasks/task.h"

#include <algorithm>

#include "longspan/base/error.h"

namespace longspan {

double Judgement::at(std::string_view metric) const {
  const auto found = std::ranges::find(metrics, metric, &Metric::name);
  require(found != metrics.end(), "[task] a judgement has no {}; need one of its metrics", metric);
  return found->value;
}

std::vector<std::int32_t> Task::encode(std::string_view /*prompt*/) const {
  throw Error(fmt::format("[{}] its models read no text; need a task of tokens", name()));
}

std::string Task::decode(std::span<const std::int32_t> /*tokens*/) const {
  throw Error(fmt::format("[{}] its models write no text; need a task of tokens", name()));
}

TimedTokens Task::begin(std::string_view /*prompt*/) const {
  throw Error(fmt::format("[{}] its tokens have no times; need a task of events", name()));
}

std::optional<TimedToken> Task::draw_next(std::span<const float> /*scores*/, double /*last*/,
                                          RandomKey /*key*/) const {
  return std::nullopt;
}

std::string Task::tell(const TimedTokens& /*all*/) const { return {}; }

}  // namespace longspan
