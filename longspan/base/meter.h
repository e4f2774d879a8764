// Meter: kernels say what they did; whoever asks sees it by layer and phase.
//
// 1 MACC = one multiply-accumulate = 2 FLOPs; every other mathematical operation = 1 FLOP, and is
// reported by kind. Off (no Meter is current), a report costs one comparison. Kernels report when
// they are done, so that the time since the report before is theirs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longspan {

enum class Phase : std::uint8_t { kForward, kBackward, kUpdate, kOptimizer };
inline constexpr std::size_t kPhases = 4;
std::string_view name_of(Phase phase);

// What kind of work the operations that are not MACCs belong to.
enum class Kind : std::uint8_t {
  kMatmul,      // bias additions, scaling of operands
  kSoftmax,     // maximum, subtraction, exponential, sum, division; and their derivative
  kNorm,        // LayerNorm, RMSNorm
  kActivation,  // ReLU, GELU, SiLU and their derivatives
  kAdd,         // residual and position additions, sums of gradients
  kDropout,     //
  kGather,      // table look-ups and scatters
  kRotary,      //
  kOptimizer,   //
  kFeature,     // feature maps: their exponentials, maxima and scaling; and their derivative
  kHash,        // comparisons and bit counts that decide a bucket or a cluster
  kSort,        // ordering by bucket, choosing the largest
};
inline constexpr std::size_t kKinds = 12;
std::string_view name_of(Kind kind);

struct Work {
  std::uint64_t maccs = 0;
  std::array<std::uint64_t, kKinds> other{};  // FLOPs that are not MACCs, by kind
  std::array<std::uint64_t, kKinds> bytes{};  // operands read and results written, by kind

  std::uint64_t other_flops() const;
  std::uint64_t flops() const { return 2 * maccs + other_flops(); }
  std::uint64_t total_bytes() const;
  std::uint64_t& operator[](Kind kind) { return other[static_cast<std::size_t>(kind)]; }
  std::uint64_t operator[](Kind kind) const { return other[static_cast<std::size_t>(kind)]; }
  Work& operator+=(const Work& more);
  friend Work operator+(Work a, const Work& b) { return a += b; }
  friend Work operator*(std::uint64_t count, Work work);
  bool operator==(const Work&) const = default;
};

class Meter {
 public:
  // While it lives, kernels called from this thread report to `meter`.
  class Use {
   public:
    explicit Use(Meter& meter);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Meter* previous_;
  };

  // While it lives, reports belong to this layer and phase.
  class Scope {
   public:
    Scope(std::string_view layer, Phase phase);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Meter* meter_;
    Work* previous_ = nullptr;
  };

  using Key = std::pair<std::string, Phase>;
  const std::map<Key, Work>& entries() const { return entries_; }
  Work at(std::string_view layer, Phase phase) const;
  Work total(Phase phase) const;
  void clear();

  // One report, and the seconds since the one before or since time_laps.
  struct Lap {
    Work work;
    double seconds = 0.0;
  };
  // From now on reports are kept with their times; those of before are forgotten.
  void time_laps();
  const std::vector<Lap>& laps() const { return laps_; }

  static bool on() { return current_ != nullptr; }
  // C += A·B with A m×k and B k×n, `times` times.
  static void matmul(std::uint64_t m, std::uint64_t n, std::uint64_t k, std::uint64_t times = 1);
  static void flops(Kind kind, std::uint64_t flops, std::uint64_t bytes);
  static void report(const Work& work);

 private:
  static thread_local Meter* current_;
  std::map<Key, Work> entries_;
  Work* target_ = nullptr;
  std::vector<Lap> laps_;
  double lap_start_ = 0.0;
  bool timed_ = false;
};

}  // namespace longspan
