#include "longspan/training/event_writer.h"

#include <algorithm>

#include "longspan/base/error.h"

namespace longspan {

TimedTokens write_events(Model& model, const Task& task, TimedTokens begin, std::size_t count,
                         RandomKey seed) {
  require(!begin.tokens.empty(), "[generate] no event to begin with; need one at least");
  const std::size_t longest = model.config().max_length;
  TimedTokens all = std::move(begin);
  std::size_t first = 0;  // of what the model reads
  std::vector<float> times;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t known = all.tokens.size();
    if (known - first > longest) first = known - std::max<std::size_t>(1, longest / 2);
    times.clear();
    for (std::size_t at = first; at < known; ++at) {
      times.push_back(static_cast<float>(all.times[at] - all.times[first]));
    }
    const ConstMatrix scores = model.logits({.batch = 1,
                                             .length = known - first,
                                             .tokens = std::span(all.tokens).subspan(first),
                                             .times = times});
    const auto next =
        task.draw_next(scores.row(scores.rows - 1), all.times.back(), derive(seed, i));
    if (!next) break;
    all.tokens.push_back(next->token);
    all.times.push_back(next->time);
  }
  return all;
}

}  // namespace longspan
