// What is compared, and one mechanism at one length: what was predicted, what was measured, and
// where the time went. Plain data, seconds and bytes; nothing where it is not known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "longspan/base/choice.h"
#include "longspan/base/field_range.h"

namespace longspan {

// What the numbers of a comparison may be, wherever it comes from.
inline constexpr FieldRange kComparedCount{1.0, 0x1p40};
inline constexpr FieldRange kComparedSeconds{1e-12, 1e12};  // of something that was done
inline constexpr FieldRange kPartSeconds{0.0, 1e12};        // of a part, that may take none
inline constexpr FieldRange kComparedBytes{1.0, 0x1p60};
inline constexpr FieldRange kPartBytes{0.0, 0x1p60};
inline constexpr FieldRange kComparedError{0.0, 1e30};
inline constexpr FieldRange kComparedRate{0.0, 1e24};  // per second

enum class ComparePhase : std::uint8_t { kForward, kTrain };
constexpr Names<2> names_of(ComparePhase /*kind*/) {
  return {"compare", "phase", {"forward", "train"}};
}

enum class PointStatus : std::uint8_t {
  kOk,
  kRefused,  // the mechanism cannot do it
  kSkipped,  // it does not fit
  kFailed,   // while running
};
constexpr Names<4> names_of(PointStatus /*kind*/) {
  return {"compare", "status", {"ok", "refused", "skipped", "failed"}};
}

struct CompareSettings {
  Choice<ComparePhase> phase = ComparePhase::kForward;
  bool bare = false;  // attention alone, without the model around it
  std::uint64_t layers = 4;
  std::uint64_t d_model = 512;
  std::uint64_t heads = 8;
  std::uint64_t d_ff = 2048;
  std::uint64_t batch = 1;
  bool causal = false;
  std::uint64_t threads = 1;
  std::string inputs = "random";  // or the checkpoint that q, k and v come from
  bool random_tokens = false;     // that the checkpoint was given, for want of a tokenizer
  double budget_seconds = 0.0;
  std::uint64_t seed = 1;

  template <class Self, class See>
  static void visit(Self& self, See see) {
    see("phase", self.phase);
    see("bare", self.bare);
    see("layers", self.layers, kComparedCount);
    see("d_model", self.d_model, kComparedCount);
    see("heads", self.heads, kComparedCount);
    see("d_ff", self.d_ff);
    see("batch", self.batch, kComparedCount);
    see("causal", self.causal);
    see("threads", self.threads, kComparedCount);
    see("inputs", self.inputs);
    see("random_tokens", self.random_tokens);
    see("budget_seconds", self.budget_seconds, kPartSeconds);
    see("seed", self.seed);
  }
};

struct CompareRoofline {
  double peak_flops = 0.0;  // per second
  double bandwidth = 0.0;   // bytes per second

  template <class Self, class See>
  static void visit(Self& self, See see) {
    see("peak_flops", self.peak_flops, kComparedRate);
    see("bandwidth", self.bandwidth, kComparedRate);
  }
};

struct CompareTime {
  std::optional<double> predicted;
  std::optional<double> low;  // nine of ten runs are expected within
  std::optional<double> high;
  std::optional<double> measured;     // the median
  std::optional<double> spread_low;   // the quartiles
  std::optional<double> spread_high;  //
  std::uint64_t rounds = 0;

  template <class Self, class See>
  static void visit(Self& self, See see) {
    see("predicted", self.predicted, kComparedSeconds);
    see("low", self.low, kComparedSeconds);
    see("high", self.high, kComparedSeconds);
    see("measured", self.measured, kComparedSeconds);
    see("spread_low", self.spread_low, kComparedSeconds);
    see("spread_high", self.spread_high, kComparedSeconds);
    see("rounds", self.rounds);
  }
};

struct CompareMemory {
  std::optional<double> parameters;  // the weights alone
  std::optional<double> predicted;   // weights, gradients, arena; in training the optimiser's state
  std::optional<double> measured;    // the same with what the arena reached
  std::optional<double> resident;    // growth of a fresh process, as the operating system sees it

  template <class Self, class See>
  static void visit(Self& self, See see) {
    see("parameters", self.parameters, kPartBytes);
    see("predicted", self.predicted, kComparedBytes);
    see("measured", self.measured, kComparedBytes);
    see("resident", self.resident, kPartBytes);
  }
};

// ‖y − y_exact‖ / ‖y_exact‖ on the same q, k and v; the same of (∂q, ∂k, ∂v).
struct CompareError {
  std::optional<double> output;
  std::optional<double> gradient;

  template <class Self, class See>
  static void visit(Self& self, See see) {
    see("output", self.output, kComparedError);
    see("gradient", self.gradient, kComparedError);
  }
};

struct CompareWork {
  std::uint64_t maccs = 0;
  std::uint64_t flops = 0;
  std::uint64_t bytes = 0;

  template <class Self, class See>
  static void visit(Self& self, See see) {
    see("maccs", self.maccs);
    see("flops", self.flops);
    see("bytes", self.bytes);
  }
};

struct KindTime {
  std::string kind;  // as name_of(Kind), or "other"
  double seconds = 0.0;
  std::uint64_t flops = 0;
  std::uint64_t bytes = 0;
  std::string bound;  // compute or memory

  template <class Self, class See>
  static void visit(Self& self, See see) {
    see("kind", self.kind);
    see("seconds", self.seconds, kPartSeconds);
    see("flops", self.flops);
    see("bytes", self.bytes);
    see("bound", self.bound);
  }
};

struct ComparePoint {
  std::string mechanism;  // its name in the comparison
  std::uint64_t length = 0;
  Choice<PointStatus> status = PointStatus::kSkipped;
  std::string reason;  // unless ok
  std::optional<CompareTime> time;
  std::optional<CompareMemory> memory;
  std::optional<CompareError> error;
  std::optional<CompareWork> work;
  std::optional<std::vector<KindTime>> kinds;

  template <class Self, class See>
  static void visit(Self& self, See see) {
    see("mechanism", self.mechanism);
    see("length", self.length, kComparedCount);
    see("status", self.status);
    see("reason", self.reason);
    see("time", self.time);
    see("memory", self.memory);
    see("error", self.error);
    see("work", self.work);
    see("kinds", self.kinds);
  }
};

}  // namespace longspan
