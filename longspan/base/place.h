// Place: where in a step the thread is. Meter, recorder and arena read it; whoever runs a part of a
// model sets it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "longspan/base/choice.h"

namespace longspan {

enum class Phase : std::uint8_t { kForward, kBackward, kUpdate, kOptimizer };
inline constexpr std::size_t kPhases = 4;
std::string_view name_of(Phase phase);

// kError: what a rule that compares two passes does to send the error to the input.
enum class ModelPart : std::uint8_t { kNone, kEncoder, kDecoder, kHead, kError };
constexpr Names<5> names_of(ModelPart /*kind*/) {
  return {"place", "part", {"", "encoder", "decoder", "head", "error"}};
}

// The texts are literals, or live as long as the model.
struct Place {
  ModelPart part = ModelPart::kNone;
  std::optional<std::size_t> block;  // of the stack, from 0
  std::string_view layer;            // "mha", "add & norm"
  Phase phase = Phase::kForward;
  std::string_view pass;  // of a rule with several: "standard pass"
  bool again = false;     // what forward did is done again on the way back

  bool operator==(const Place&) const = default;
  // "backward of block 12: mha", "standard pass: embedding"
  std::string text() const;

  static const Place& now() { return now_; }

  // While one of these lives, what it names is the place; the rest stays.
  struct Scope;  // layer and phase
  struct Part;
  struct Block;
  struct Pass;
  struct Again;

 private:
  class Restore;
  static thread_local Place now_;
};

class Place::Restore {
 public:
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 protected:
  Restore() : before_(now_) {}
  ~Restore() { now_ = before_; }
  static Place& here() { return now_; }

 private:
  Place before_;
};

struct Place::Scope : Restore {
  Scope(std::string_view layer_, Phase phase_) {
    here().layer = layer_;
    here().phase = here().again && phase_ == Phase::kForward ? Phase::kBackward : phase_;
  }
};
struct Place::Part : Restore {
  explicit Part(ModelPart part_) { here().part = part_; }
};
struct Place::Block : Restore {
  explicit Block(std::size_t block_) { here().block = block_; }
};
struct Place::Pass : Restore {
  explicit Pass(std::string_view pass_) { here().pass = pass_; }
};
// Forward, computed a second time, is work of backward.
struct Place::Again : Restore {
  Again() { here().again = true; }
};

}  // namespace longspan
