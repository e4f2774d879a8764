// Where in its sequence an answer begins and ends: two scores for every token, each of which is a
// cross-entropy over the places of the sequence (kernels/rows/span.h).
//
//   o_c = softmax over the rows i of scores[i, c]      L = −log o_c[target_c],  c = start, end
//
// targets is [2·batch], start and end of each sequence, and the mean over them is the mean of the
// two cross-entropies. All rows are places, padding too, as those who published it have it; with
// masked=true only real ones, and then a target must be one.
//
// 5 FLOPs per score of a place forward, one per counted target backward.
#pragma once

#include "longspan/layers/loss.h"

namespace longspan {

struct SpanConfig {
  bool masked = false;

  template <class See>
  void visit(See see) {
    see("masked", masked, "padding is no place");
  }
};

class SpanLoss final : public Loss {
 public:
  static constexpr std::string_view kName = "span";
  static constexpr std::size_t kEnds = 2;
  using Config = SpanConfig;

  explicit SpanLoss(const SpanConfig& config = {}) : config_(config) {}

  std::string_view name() const override { return kName; }
  // Its error is of places, not of the classes of a row.
  bool without_backward() const override { return false; }
  bool reads_padding() const override { return !config_.masked; }
  bool places() const override { return true; }
  std::size_t outputs() const override { return kEnds; }
  std::size_t count(const Batch& batch) const override;
  void check(const Batch& batch, std::size_t rows, std::size_t outputs) const override;
  Goal goal(const Batch& batch, std::size_t rows, std::size_t outputs) const override;
  LossSum measure(ConstMatrix scores, const Goal& goal) const override;
  LossSum predict(Matrix scores, const Goal& goal, float scale) const override;
  void error(Matrix outputs, const Goal& goal, float scale) const override;

 private:
  SpanConfig config_;
};

}  // namespace longspan
