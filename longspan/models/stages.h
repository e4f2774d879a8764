// Stages: an encoder whose sequence becomes shorter on the way (Dai et al., 2020, arXiv:2006.03236).
//
//   x ─ stage 0 ─┬─ pool ─ stage 1 ─ pool ─ … ─ stage S−1 ─ repeat ─(+)─ the layers behind ─ y
//                └───────────────────── skip ──────────────────────┘
//
// A pool halves the length (kernels/rows/pool.h); where keys stay unpooled, the first layer of the
// next stage reads them from before it, while its queries and its residual sum are pooled. Each
// pooled row is repeated 2^(S−1) times at the end, what stage 0 gave is added, and the layers behind
// run at full length. A pooled row is real where all that it was made of is.
//
// Counts, of pool and repeat, are those of the kernels; the skip's gradient is one sum per element.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "longspan/kernels/rows/pool.h"
#include "longspan/layers/branch.h"

namespace longspan {

struct StagesConfig {
  std::vector<std::size_t> layers;  // of each stage; empty: the stack is one
  bool maximum = false;             // pools by it, or by the mean
  bool cls = true;                  // the first row stands apart
  bool truncated = true;            // then the last one is left out where it pools
  bool unpooled_keys = true;
};

// What one pass has of its own in every stage. Reused from step to step.
struct StageRun {
  std::vector<Pass> passes;           // of each stage, and of the layers behind
  std::vector<std::int32_t> lengths;  // real rows, stage by stage
  std::vector<Matrix> unpooled;       // what each stage but the first was pooled from
};

class Stages {
 public:
  static constexpr std::string_view kMeter = "stages";
  // What happens before a layer.
  enum class Entry : std::uint8_t { kNone, kPool, kRepeat };

  Stages() = default;
  // Of a stack of so many layers.
  Stages(StagesConfig config, std::size_t layers);

  bool active() const { return count() > 0; }
  std::size_t count() const { return config_.layers.size(); }
  std::size_t stage(std::size_t layer) const { return stage_[layer]; }
  Entry entry(std::size_t layer) const;
  // Whether the layer's keys are those of the stage before.
  bool reads_unpooled(std::size_t layer) const {
    return config_.unpooled_keys && entry(layer) == Entry::kPool;
  }
  // Tokens of the input from one key of the layer to the next.
  std::size_t step(std::size_t layer) const;

  // Cuts a pass into those of its stages. Throws Error where a sequence is too short.
  void begin(const Pass& pass, Arena& arena, StageRun& run) const;
  // The pass of a layer; what it reads from before a pool must be there.
  Pass pass_of(const StageRun& run, std::size_t layer) const;

  // What the layer's first branch sees, in memory of the arena, given what the layer before gave.
  Matrix enter(std::size_t layer, Matrix x, StageRun& run, Arena& arena) const;
  // Before the layer's backward: where the gradient of what it was pooled from goes; empty where it
  // does not pool.
  Matrix take_gradient(std::size_t layer, const StageRun& run, std::size_t width,
                       Arena& arena) const;
  // After it: from the gradient of what the first branch saw to that of what the layer before gave.
  // `unpooled` is from take_gradient, `skip` the gradient of what skips the pools.
  Matrix leave(std::size_t layer, Matrix g, Matrix unpooled, Matrix& skip, const StageRun& run,
               Arena& arena) const;

 private:
  Pooling pooling(const Pass& longer) const;
  Repetition repetition(const StageRun& run) const;

  StagesConfig config_;
  std::vector<std::size_t> stage_;  // of each layer; count() for those behind
};

}  // namespace longspan
