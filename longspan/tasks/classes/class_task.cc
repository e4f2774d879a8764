#include "longspan/tasks/classes/class_task.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "longspan/base/error.h"
#include "longspan/io/file.h"

namespace longspan {

Labelled& LabelledSplits::next(std::optional<Split> split) {
  if (!split) {
    const std::size_t turn = added_++ % 10;
    split = turn == 8 ? Split::kValidation : turn == 9 ? Split::kTest : Split::kTraining;
  }
  if (*split == Split::kTraining) return training;
  return *split == Split::kValidation ? validation : test;
}

void ClassTask::open() {
  splits_ = read();
  const bool trained = !names_.empty();  // what follows is then no more to be learned from
  names_ = splits_->classes;
  const TaskOptions given = options();
  const auto data = given.find("data");
  const bool drawn = data == given.end() || data->second.empty();
  const std::string source = drawn ? "what is drawn" : data->second;
  require(trained || splits_->training.size() > 0,
          "[{}] {}: no examples to train on; need at least one", name(), source);
  const std::span<const std::int32_t> labels = splits_->training.labels();
  require(
      trained || std::ranges::any_of(labels, [&](std::int32_t l) { return l != labels.front(); }),
      "[{}] {}: all {} examples are of class {}; need two classes", name(), source, labels.size(),
      labels.empty() ? "" : class_text(labels.front()));
  for (const Labelled* set : sets(Split::kAll)) {
    for (const std::int32_t label : set->labels()) {
      classes_ = std::max(classes_, static_cast<std::size_t>(label) + 1);
    }
  }
}

std::string ClassTask::class_text(std::int32_t label) const {
  const auto at = static_cast<std::size_t>(label);
  return at < names_.size() ? fmt::format("'{}'", printable(names_[at])) : std::to_string(label);
}

std::string ClassTask::checksum() const {
  std::optional<LabelledSplits> opened;
  const LabelledSplits& all = splits_ ? *splits_ : opened.emplace(read());
  Checksum checksum;
  for (const Labelled* set : {&all.training, &all.validation, &all.test}) set->add_to(checksum);
  return checksum.hex();
}

ModelNeeds ClassTask::needs() const {
  return {.family = Family::kEncoder,
          .head = parts() == 1 ? HeadKind::kClassifier : HeadKind::kPairs,
          .pool = Pool::kMean,
          .vocabulary = vocabulary_size(),
          .classes = class_count(),
          .length = longest()};
}

std::vector<const Labelled*> ClassTask::sets(Split split) const {
  switch (split) {
    case Split::kTraining:
      return {&splits_->training};
    case Split::kValidation:
      return {&splits_->validation};
    case Split::kTest:
      return {&splits_->test};
    case Split::kAll:
      return {&splits_->training, &splits_->validation, &splits_->test};
  }
  return {};
}

std::size_t ClassTask::examples(Split split) const {
  std::size_t count = 0;
  for (const Labelled* set : sets(split)) count += set->size();
  return count;
}

ClassTask::Example ClassTask::example(Split split, std::size_t at) const {
  for (const Labelled* set : sets(split)) {
    if (at < set->size()) return {set, at};
    at -= set->size();
  }
  throw Error(fmt::format("[{}] the split {} has no example {} more", name(), name_of(split), at));
}

Split ClassTask::held_out() const {
  return splits_->validation.size() > 0 ? Split::kValidation : Split::kTest;
}

std::string ClassTask::describe_splits() const {
  std::size_t shortest = splits_->training.longest();
  for (std::size_t i = 0; i < splits_->training.size(); ++i) {
    shortest = std::min(shortest, splits_->training.length(i));
  }
  return fmt::format("{} to {} tokens, {} to train, {} to validate, {} to test", shortest,
                     splits_->training.longest(), splits_->training.size(),
                     splits_->validation.size(), splits_->test.size());
}

Batch ClassTask::fill(BatchMemory& memory) {
  const std::size_t rows = drawn_.size() * parts();
  std::size_t length = 1;
  for (const Example& e : drawn_) length = std::max(length, e.length());
  memory.tokens.assign(rows * length, 0);
  memory.lengths.resize(rows);
  memory.targets.resize(drawn_.size());
  for (std::size_t row = 0; row < rows; ++row) {
    const Example& e = drawn_[row / parts()];
    e.set->read(e.at, row % parts(), tokens_);
    std::ranges::copy(tokens_, memory.tokens.begin() + static_cast<std::ptrdiff_t>(row * length));
    memory.lengths[row] = static_cast<std::int32_t>(tokens_.size());
    memory.targets[row / parts()] = e.set->label(e.at);
  }
  return {.batch = rows,
          .length = length,
          .tokens = memory.tokens,
          .targets = memory.targets,
          .lengths = memory.lengths};
}

Batch ClassTask::training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                                BatchMemory& memory) {
  const Labelled& from = splits_->training;
  const auto length = [&](std::size_t i) { return from.length(i); };
  drawn_.clear();
  for (const std::uint32_t i :
       bucketed_.batch(derive(seed, name()), step, rows, from.size(), length)) {
    drawn_.push_back({&from, i});
  }
  return fill(memory);
}

void ClassTask::arrange(Split split, std::size_t count) {
  arranged_split_ = split;
  arranged_.resize(count);
  std::iota(arranged_.begin(), arranged_.end(), 0U);
  std::ranges::stable_sort(arranged_, {},
                           [&](std::uint32_t i) { return example(split, i).length(); });
}

Batch ClassTask::batch(Split split, const Examples& which, BatchMemory& memory) {
  const bool arranged = split == arranged_split_ && !arranged_.empty();
  drawn_.clear();
  for (std::size_t i = 0; i < which.count; ++i) {
    const std::size_t at = which.first + i * which.stride;
    drawn_.push_back(example(split, arranged ? arranged_[at] : at));
  }
  return fill(memory);
}

std::size_t ClassTask::units(const Batch& batch) const {
  std::size_t tokens = 0;
  for (const std::int32_t n : batch.lengths) tokens += static_cast<std::size_t>(n);
  return tokens;
}

void ClassTask::add(const Batch& batch, ConstMatrix scores, Tally& tally) const {
  tally.by_class.resize(class_count());
  for (std::size_t b = 0; b < batch.targets.size(); ++b) {
    const auto values = scores.row(b);
    const auto likeliest = std::ranges::max_element(values) - values.begin();
    ClassTally& own = tally.by_class[static_cast<std::size_t>(batch.targets[b])];
    ++own.counted;
    own.correct += likeliest == batch.targets[b] ? 1 : 0;
  }
}

double ClassTask::majority(Split split) const {
  std::vector<std::size_t> count(class_count());
  for (const std::int32_t l : splits_->training.labels()) ++count[static_cast<std::size_t>(l)];
  const auto common = static_cast<std::int32_t>(std::ranges::max_element(count) - count.begin());
  std::size_t right = 0;
  for (const Labelled* set : sets(split)) {
    right += static_cast<std::size_t>(std::ranges::count(set->labels(), common));
  }
  return static_cast<double>(right) / static_cast<double>(examples(split));
}

Judgement ClassTask::judge(Split split, const Tally& tally) const {
  const double most = majority(split);
  const std::string_view what = parts() == 1 ? "sequences" : "pairs";
  const std::string accuracy = fmt::format("{:.2f} %", 100.0 * tally.accuracy());
  Judgement q{.split = split,
              .counted = std::string(what),
              .count = tally.counted,
              .metrics = {{"loss", tally.mean_loss(), fmt::format("{:.4f}", tally.mean_loss())},
                          {"accuracy", tally.accuracy(),
                           fmt::format("{} (the most common class of its training split: {:.2f} %)",
                                       accuracy, 100.0 * most)},
                          {"majority", most, ""}},
              .subject = fmt::format("{} {} {}", tally.counted, name_of(split), what),
              .line = fmt::format("loss {:.4f}, accuracy {}", tally.mean_loss(), accuracy)};
  for (std::size_t c = 0; c < tally.by_class.size(); ++c) {
    const ClassTally& own = tally.by_class[c];
    if (own.counted == 0) continue;
    const double right = static_cast<double>(own.correct) / static_cast<double>(own.counted);
    constexpr std::size_t kLongName = 80;
    const bool named = !names_.empty() && names_[c].size() <= kLongName;
    q.metrics.push_back(
        {fmt::format("accuracy_of_class_{}", named ? printable(names_[c]) : std::to_string(c)),
         right, fmt::format("{:.2f} % of {}", 100.0 * right, own.counted)});
  }
  return q;
}

}  // namespace longspan
