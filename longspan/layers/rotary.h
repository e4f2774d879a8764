// The angles of rotary positions: which channels of a head turn, and how fast.
//
//   f_i = base^(−2i/r), i < r/2, for the first r channels                      (Su et al., 2021)
//
//   linear    f_i/s                                                      (Chen et al., 2023)
//   dynamic   base·((s·n/n₀) − (s − 1))^(r/(r−2)) for base where n > n₀ positions
//   yarn      (1 − ρ_i)·f_i + ρ_i·f_i/s, ρ_i = (i − low)/(high − low) within 0 and 1,
//             low = c(fast), high = c(slow), c(t) = r·ln(n₀/2πt)/(2·ln base), rounded outwards if
//             `truncate`; cos and sin times m = 0.1·ln s + 1             (Peng et al., 2023)
//   llama3    with λ = 2π/f_i: f_i where λ < n₀/high, f_i/s where λ > n₀/low, else
//             (1 − t)·f_i/s + t·f_i, t = (n₀/λ − low)/(high − low)
//   longrope  f_i/e_i, e of `short` where no position exceeds n₀, else of `long`; cos and sin times
//             m = √(1 + ln s/ln n₀)                                      (Ding et al., 2024)
//
// n₀ is `original`, s `factor`; `attention` stands for m where it is given.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "longspan/base/choice.h"
#include "longspan/base/number.h"

namespace longspan {

enum class RotaryScaling : std::uint8_t { kNone, kLinear, kDynamic, kYarn, kLlama3, kLongRope };
constexpr Names<6> names_of(RotaryScaling /*kind*/) {
  return {"rotary", "scaling", {"none", "linear", "dynamic", "yarn", "llama3", "longrope"}};
}

struct RotaryConfig {
  double base = 10000.0;
  bool interleaved = true;
  std::size_t width = 0;  // r; 0: the whole head
  Choice<RotaryScaling> scaling = RotaryScaling::kNone;
  double factor = 1.0;
  std::size_t original = 0;
  double low = 1.0;
  double high = 4.0;
  double fast = 32.0;
  double slow = 1.0;
  bool truncate = true;
  double attention = 0.0;
  std::string short_factors;  // "e₀;e₁;…"
  std::string long_factors;

  bool operator==(const RotaryConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("base", base, "of the frequencies", above_to(0, 1e12));
    see("interleaved", interleaved, "pairs are neighbours, else half a width apart");
    see("width", width, "channels of a head that turn; 0: all", from_to(0, 1e6));
    see("scaling", scaling, "how frequencies change for longer sequences");
    see("factor", factor, "by how much longer", from_to(1, 1e6));
    see("original", original, "positions that the frequencies were made for", from_to(0, 1e9));
    see("low", low, "llama3: turns in `original` below which all is scaled", above_to(0, 1e6));
    see("high", high, "llama3: turns above which nothing is", above_to(0, 1e6));
    see("fast", fast, "yarn: turns above which nothing is scaled", above_to(0, 1e6));
    see("slow", slow, "yarn: turns below which all is", above_to(0, 1e6));
    see("truncate", truncate, "yarn: bounds are whole channels");
    see("attention", attention, "factor of cosines and sines; 0: as the scaling says",
        from_to(0, 1e6));
    see("short", short_factors);
    see("long", long_factors);
  }
};

// Of "key=value,…", beside what `config` says already. Throws Error for what makes no sense.
RotaryConfig rotary_of(const std::string& options, RotaryConfig config);

// One set of angles.
struct RotaryAngles {
  std::vector<double> frequencies;  // r/2
  double amplitude = 1.0;           // m
};
// For heads of this width and up to so many positions; `extended`: longrope's second set.
RotaryAngles rotary_angles(const RotaryConfig& config, std::size_t d_head, std::size_t positions,
                           bool extended);

}  // namespace longspan
