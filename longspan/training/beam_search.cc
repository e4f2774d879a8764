#include "longspan/training/beam_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "longspan/base/error.h"

namespace longspan {

namespace {

double log_sum_exp(std::span<const float> logits) {
  const double top = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float v : logits) sum += std::exp(static_cast<double>(v) - top);
  const double all = top + std::log(sum);
  require(std::isfinite(all),
          "[generate] the model's scores are not finite; need a model whose training did not "
          "diverge");
  return all;
}

// The first `count` in order, and nothing else.
template <class Item, class Before>
void keep_first(std::vector<Item>& items, std::size_t count, Before before) {
  count = std::min(count, items.size());
  std::partial_sort(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(count), items.end(),
                    before);
  items.resize(count);
}

}  // namespace

BeamSearch::BeamSearch(Model& model, const BeamConfig& config) : model_(model), config_(config) {
  check_numbers("generate", config_);
}

double BeamSearch::score(double log_probability, std::size_t length) const {
  const double n = static_cast<double>(length);
  return log_probability / std::pow((5.0 + n) / 6.0, config_.length_penalty);
}

FoundText BeamSearch::find(std::vector<std::int32_t> prompt, std::int32_t boundary,
                           std::size_t limit) {
  Writer writer(model_, std::move(prompt), boundary, config_.beams);
  limit = std::min(limit, writer.room());
  ended_ = 0;
  best_.reset();
  open_.assign(1, {});
  for (std::size_t length = 0; length < limit && !open_.empty() && !decided(limit); ++length) {
    rank(writer.scores(), config_.beams - ended_);
    close(writer, boundary);
    go_on(writer);
  }
  for (const Open& text : open_) {
    const auto tokens = writer.written(text.place);
    offer({.tokens = {tokens.begin(), tokens.end()},
           .log_probability = text.log_probability,
           .score = score(text.log_probability, tokens.size())});
  }
  return std::move(*best_);
}

bool BeamSearch::decided(std::size_t limit) const {
  return best_ && best_->score >= score(open_.front().log_probability, limit);
}

void BeamSearch::offer(FoundText text) {
  if (!best_ || text.score > best_->score) best_ = std::move(text);
}

void BeamSearch::rank(ConstMatrix scores, std::size_t count) {
  // Within a text the logits decide where its log P is too large to tell them apart.
  const auto likelier = [](const Continuation& a, const Continuation& b) {
    if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
    if (a.parent != b.parent) return a.parent < b.parent;
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  };
  next_.clear();
  for (std::size_t parent = 0; parent < open_.size(); ++parent) {
    const std::span<const float> logits = scores.row(open_[parent].place);
    const double all = log_sum_exp(logits);
    own_.clear();
    for (std::size_t token = 0; token < logits.size(); ++token) {
      own_.push_back({open_[parent].log_probability + (logits[token] - all), parent, logits[token],
                      static_cast<std::int32_t>(token)});
    }
    keep_first(own_, count, likelier);
    next_.insert(next_.end(), own_.begin(), own_.end());
  }
  keep_first(next_, count, likelier);
}

void BeamSearch::close(const Writer& writer, std::int32_t boundary) {
  for (const Continuation& c : next_) {
    if (c.token != boundary) continue;
    const auto tokens = writer.written(open_[c.parent].place);
    ++ended_;
    offer({.tokens = {tokens.begin(), tokens.end()},
           .ended = true,
           .log_probability = c.log_probability,
           .score = score(c.log_probability, tokens.size() + 1)});
  }
  std::erase_if(next_, [&](const Continuation& c) { return c.token == boundary; });
}

// A text's first continuation stays in its place, the others move to places that nothing goes on
// in: what is copied from is never overwritten.
void BeamSearch::go_on(Writer& writer) {
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  held_.assign(config_.beams, false);
  after_.clear();
  for (const Continuation& c : next_) {
    const std::size_t place = open_[c.parent].place;
    after_.push_back({held_[place] ? kNone : place, c.log_probability});
    held_[place] = true;
  }
  // Places without a text go on with anything.
  tokens_.assign(config_.beams, next_.empty() ? 0 : next_.front().token);
  std::size_t free = 0;
  for (std::size_t i = 0; i < next_.size(); ++i) {
    if (after_[i].place == kNone) {
      while (held_[free]) ++free;
      held_[free] = true;
      after_[i].place = free;
      writer.copy(open_[next_[i].parent].place, free);
    }
    tokens_[after_[i].place] = next_[i].token;
  }
  open_.swap(after_);
  if (!open_.empty()) writer.append(tokens_);
}

}  // namespace longspan
