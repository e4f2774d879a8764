#include "tests/vectors/golden_recall.h"

#include <algorithm>

#include "longspan/base/error.h"
#include "longspan/tasks/recall.h"
#include "longspan/testing/recall_rule.h"

namespace longspan::golden {

namespace {

constexpr std::int32_t kNoLabel = -100;  // of the reference

// The value behind each key that has a label.
std::vector<std::int32_t> labels_of(std::span<const std::int32_t> tokens,
                                    std::span<const std::int32_t> labels, std::size_t length,
                                    std::size_t pairs) {
  std::vector<std::int32_t> ours;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto row = tokens.subspan(i / length * length, 2 * pairs);
    std::int32_t label = kNoLabel;
    for (std::size_t p = 0; p < pairs && labels[i] != kNoLabel; ++p) {
      if (row[2 * p] == tokens[i]) label = row[2 * p + 1];
    }
    ours.push_back(label);
  }
  return ours;
}

void require_rule(std::string_view whose, const Batch& batch, const testing::RecallSizes& sizes) {
  const std::string fault = testing::recall_fault(batch, sizes);
  require(fault.empty(), "[golden] a batch of {}: {}", whose, fault);
}

}  // namespace

// The random numbers are the reference's own: its batch and one of ours with the same sizes are held
// against one rule, and its labels against those that its tokens ask for.
void run_recall(const Case& golden, Comparison& comparison) {
  const nlohmann::json& c = golden.config();
  const auto length = c.at("input_seq_len").get<std::size_t>();
  const testing::RecallSizes sizes{c.at("num_kv_pairs").get<std::size_t>(),
                                   c.at("vocab_size").get<std::int32_t>()};
  const std::vector<std::int32_t> tokens = golden.integers("tokens");
  std::vector<std::int32_t> labels = golden.integers("labels");
  require(tokens.size() == labels.size() && !tokens.empty() && tokens.size() % length == 0 &&
              2 * sizes.pairs <= length,
          "[golden] {} tokens and {} labels of sequences of {}", tokens.size(), labels.size(),
          length);
  comparison.begin(RecallTask::kName);
  comparison.integers("labels", labels_of(tokens, labels, length, sizes.pairs));
  std::ranges::replace(labels, kNoLabel, kIgnoredTarget);
  require_rule(
      "the reference",
      {.batch = tokens.size() / length, .length = length, .tokens = tokens, .targets = labels},
      sizes);
  RecallTask task(
      {.length = length, .pairs = sizes.pairs, .symbols = static_cast<std::size_t>(sizes.symbols)});
  BatchMemory memory;
  require_rule("ours", task.training_batch(1, 0, tokens.size() / length, memory), sizes);
  comparison.finish();
}

}  // namespace longspan::golden
