// From which length on is one cost dearer than another?
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "longspan/cost/polynomial.h"

namespace longspan {

// When a > b, for symbols that are all positive. Common factors are divided out:
//   2·n²·d > 4·n·d²  ⇔  n > 2·d           (closed: the symbol stands alone)
//   L·N² + N > d·v                        (not closed: positive terms left, negative ones right)
struct Condition {
  enum class Kind { kAlways, kNever, kClosed, kOpen };

  Kind kind = Kind::kNever;
  Polynomial left, right;  // a > b ⇔ left > right; neither has a negative coefficient
  std::string text;        // "n > 2·d", "N > v/(2·L)", "always", "never"
  std::string latex;       // "n > 2d", "N > \frac{v}{2L}", "\text{always}"
};
Condition when_greater(const Polynomial& a, const Polynomial& b, Symbol symbol);

struct Interval {
  Integer first = 1;
  std::optional<Integer> last;  // nothing: without end
  bool operator==(const Interval&) const = default;
};

struct Crossover {
  std::optional<Integer> from;  // the least n ≥ 1 such that a > b there and everywhere above
  std::vector<Interval> where;  // all n ≥ 1 with a > b
  Condition condition;
};
// `values` gives every symbol but `symbol`, all of them positive. Lengths up to 2^62 are looked at.
Crossover crossover(const Polynomial& a, const Polynomial& b, Symbol symbol,
                    const SymbolValues& values);

}  // namespace longspan
