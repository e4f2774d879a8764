// A mechanism at a length, within the settings of a comparison: what is predicted of it, and the
// run that is measured.
#pragma once

#include <memory>
#include <string>

#include "longspan/compare/attention_run.h"
#include "longspan/compare/compare_point.h"
#include "longspan/predict/calibration.h"
#include "longspan/predict/model_run.h"

namespace longspan {

struct CompareCase {
  CompareSettings settings;
  std::string attention;
  std::uint64_t length = 0;

  bool trains() const { return settings.phase == ComparePhase::kTrain; }
  ModelConfig model() const;
  RunShape shape() const { return {settings.batch, length, 0}; }
  // Attention alone; with `heads` of the heads, all where it is 0.
  AttentionCase alone(std::size_t heads = 0) const;
};

struct CasePrediction {
  std::string refused;  // the reason, where the mechanism cannot do it
  CompareTime time;
  CompareMemory memory;
  CompareWork work;
  std::uint64_t parameters = 0;  // that are learned
  std::optional<double> state;   // bytes kept of a sequence while it is decoded
  double building = 0.0;         // seconds until the first pass
};

CasePrediction predict_case(const Calibration& calibration, const CompareCase& c);

// Weights that the mechanism adds to the same model or layer with flash.
std::uint64_t parameters_added(const CompareCase& c);

// Error against exact attention is measured on this many heads: it is an average over them.
inline constexpr std::size_t kErrorHeads = 2;
// The seconds that takes, forward and backward, exact attention included.
double predict_error_seconds(const Calibration& calibration, const CompareCase& c);

class CaseRun {
 public:
  explicit CaseRun(const CompareCase& c);
  // Model::evaluate or a training step; or the mechanism alone, forward or with backward.
  void pass();
  // Weights, gradients, optimiser's state, tensors and what the arena reached so far.
  std::size_t held_bytes() const;

 private:
  CompareCase case_;
  std::unique_ptr<ModelRun> model_;
  AttentionTensors tensors_;
  std::unique_ptr<AttentionRun> attention_;
};

}  // namespace longspan
