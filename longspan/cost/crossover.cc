#include "longspan/cost/crossover.h"

#include <algorithm>

namespace longspan {
namespace {

constexpr Integer kLargestLength = Integer{1} << 62;
constexpr Integer kLargestCoefficient = Integer{1} << 100;
constexpr Integer kSaturated = Integer{1} << 124;

using Coefficients = std::vector<Integer>;  // c[i] belongs to n^i

// Whether Σ c[i]·n^i > 0, exactly: past 2^124 the coefficients, all below 2^100, cannot turn the
// sign any more, so Horner's scheme may stop growing there.
bool is_positive(const Coefficients& c, Integer n) {
  Integer sum = 0;
  for (std::size_t i = c.size(); i-- > 0;) {
    const auto product = checked_multiply(sum, n);
    const Integer huge = sum < 0 ? -kSaturated : kSaturated;
    sum = product ? std::clamp(*product, -kSaturated, kSaturated) : huge;
    sum += c[i];
  }
  return sum > 0;
}

// Δp(n) = p(n+1) − p(n), one degree lower: (n+1)^i − n^i = Σ_{j<i} C(i,j)·n^j.
Coefficients difference(const Coefficients& c) {
  Coefficients result(c.size() - 1, 0);
  for (std::size_t i = 1; i < c.size(); ++i) {
    Integer binomial = 1;  // C(i, 0)
    for (std::size_t j = 0; j < i; ++j) {
      const auto term = checked_multiply(c[i], binomial);
      const bool fits = term && (*term < kLargestCoefficient) && (-*term < kLargestCoefficient);
      require(fits, "[crossover] a coefficient exceeds 100 bits; need smaller dimensions");
      result[j] += *term;
      binomial = binomial * static_cast<Integer>(i - j) / static_cast<Integer>(j + 1);
    }
  }
  return result;
}

// Where the answer to p(n) > 0 changes: the least n ≥ 1 of each run of equal answers, first 1.
std::vector<Integer> runs(const Coefficients& c) {
  std::vector<Integer> starts = {1};
  if (c.size() <= 1) return starts;
  const std::vector<Integer> monotone = runs(difference(c));  // p rises or falls in each of these
  for (std::size_t i = 0; i < monotone.size(); ++i) {
    Integer low = monotone[i];
    const bool answer = is_positive(c, low);
    Integer high = i + 1 < monotone.size() ? monotone[i + 1] : kLargestLength;
    if (is_positive(c, high) == answer) continue;
    while (high - low > 1) {  // the answer is `answer` at low and not at high
      const Integer middle = low + (high - low) / 2;
      (is_positive(c, middle) == answer ? low : high) = middle;
    }
    starts.push_back(high);
  }
  return starts;
}

struct Parts {
  Polynomial positive, negative;  // p = positive − negative
};

Parts split(const Polynomial& polynomial) {
  Parts parts;
  for (const auto& [monomial, coefficient] : polynomial.terms()) {
    (coefficient > 0 ? parts.positive : parts.negative) +=
        Polynomial(monomial, coefficient > 0 ? coefficient : -coefficient);
  }
  return parts;
}

bool is_one(const Polynomial& polynomial) { return polynomial == Polynomial(1); }

// numerator / denominator in lowest terms, as far as common monomials go.
std::string ratio_text(const Polynomial& numerator, const Polynomial& denominator) {
  if (is_one(denominator)) return numerator.text();
  const bool sum = numerator.terms().size() > 1;
  const std::string below = denominator.text();
  const bool one_factor = denominator.terms().size() == 1 && below.find("·") == std::string::npos;
  return fmt::format("{}/{}", sum ? "(" + numerator.text() + ")" : numerator.text(),
                     one_factor ? below : "(" + below + ")");
}

std::string ratio_latex(const Polynomial& numerator, const Polynomial& denominator) {
  if (is_one(denominator)) return numerator.latex();
  return fmt::format("\\frac{{{}}}{{{}}}", numerator.latex(), denominator.latex());
}

// slope·symbol + constant > 0 with slope and constant of opposite signs.
void isolate(Symbol symbol, const Polynomial& slope, const Polynomial& constant, Condition& out) {
  const bool rising = split(slope).negative.is_zero();
  Polynomial numerator = rising ? -constant : constant;
  Polynomial denominator = rising ? slope : -slope;
  const Polynomial common = common_content(numerator, denominator);
  numerator = divide_exactly(numerator, common);
  denominator = divide_exactly(denominator, common);
  const char relation = rising ? '>' : '<';
  out.kind = Condition::Kind::kClosed;
  out.text = fmt::format("{} {} {}", symbol.name(), relation, ratio_text(numerator, denominator));
  out.latex =
      fmt::format("{} {} {}", symbol.latex(), relation, ratio_latex(numerator, denominator));
}

bool has_one_sign(const Polynomial& polynomial) {
  const Parts parts = split(polynomial);
  return parts.positive.is_zero() || parts.negative.is_zero();
}

}  // namespace

Condition when_greater(const Polynomial& a, const Polynomial& b, Symbol symbol) {
  Polynomial gap = a - b;
  gap = divide_exactly(gap, content(gap));
  Condition out;
  const Parts parts = split(gap);
  out.left = parts.positive;
  out.right = parts.negative;
  if (out.left.is_zero()) {
    out.kind = Condition::Kind::kNever;
    out.text = "never";
    out.latex = "\\text{never}";
  } else if (out.right.is_zero()) {
    out.kind = Condition::Kind::kAlways;
    out.text = "always";
    out.latex = "\\text{always}";
  } else {
    const Polynomial slope = gap.coefficient(symbol, 1);
    const Polynomial constant = gap.coefficient(symbol, 0);
    if (gap.degree(symbol) == 1 && has_one_sign(slope) && has_one_sign(constant)) {
      isolate(symbol, slope, constant, out);
    } else {
      out.kind = Condition::Kind::kOpen;
      out.text = fmt::format("{} > {}", out.left.text(), out.right.text());
      out.latex = fmt::format("{} > {}", out.left.latex(), out.right.latex());
    }
  }
  return out;
}

Crossover crossover(const Polynomial& a, const Polynomial& b, Symbol symbol,
                    const SymbolValues& values) {
  for (const auto& [other, value] : values) {
    require(value > 0, "[crossover] {} is {}; need a positive number", other.name(),
            to_decimal(value));
  }
  SymbolValues others = values;
  others.erase(symbol);
  Polynomial gap = (a - b).substitute(others);
  gap = divide_exactly(gap, content(gap));

  Coefficients c;
  for (int i = 0; i <= gap.degree(symbol); ++i) {
    c.push_back(gap.coefficient(symbol, i).evaluate({}));
    require(c.back() < kLargestCoefficient && c.back() > -kLargestCoefficient,
            "[crossover] a coefficient exceeds 100 bits; need smaller dimensions");
  }
  Crossover out;
  out.condition = when_greater(a, b, symbol);
  const std::vector<Integer> starts = runs(c);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (!is_positive(c, starts[i])) continue;
    const bool last = i + 1 == starts.size();
    out.where.push_back(
        {starts[i], last ? std::nullopt : std::optional<Integer>(starts[i + 1] - 1)});
    if (last) out.from = starts[i];
  }
  return out;
}

}  // namespace longspan
