#include "longspan/cost/polynomial.h"

#include <algorithm>
#include <numeric>

namespace longspan {
namespace {

// The order of factors within a term: M·N·d. Other names follow, alphabetically.
constexpr std::array<std::string_view, 13> kFactorOrder = {
    "L", "n_enc", "n_dec", "B", "M", "N", "n", "p", "d", "h", "f", "v", "k"};
// The order in which powers decide between terms of one degree: 2·M·d² before 2·M·N·d.
constexpr std::array<std::string_view, 12> kTermOrder = {"L", "n_enc", "n_dec", "B", "M", "d",
                                                         "N", "n",     "p",     "f", "v", "k"};

template <class Order>
std::size_t rank(const Order& order, Symbol symbol) {
  return static_cast<std::size_t>(std::find(order.begin(), order.end(), symbol.name()) -
                                  order.begin());
}

bool factor_before(Symbol a, Symbol b) {
  const std::size_t ra = rank(kFactorOrder, a);
  const std::size_t rb = rank(kFactorOrder, b);
  return ra != rb ? ra < rb : a < b;
}

Integer power_or_throw(Integer base, int exponent) {
  Integer result = 1;
  for (int i = 0; i < exponent; ++i) result = multiply_exactly(result, base);
  return result;
}

Integer magnitude(Integer value) { return value < 0 ? multiply_exactly(value, -1) : value; }

Integer greatest_divisor(Integer a, Integer b) {
  a = magnitude(a);
  b = magnitude(b);
  while (b != 0) {
    const Integer rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

std::string superscript(int exponent) {
  static constexpr std::array<std::string_view, 10> kDigits = {"⁰", "¹", "²", "³", "⁴",
                                                               "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text;
  for (const char digit : fmt::format("{}", exponent)) text += kDigits[digit - '0'];
  return text;
}

std::string factor_text(const Monomial::Power& power) {
  std::string text(power.symbol.name());
  return power.exponent == 1 ? text : text + superscript(power.exponent);
}

std::string factor_latex(const Monomial::Power& power) {
  const std::string text = power.symbol.latex();
  return power.exponent == 1 ? text : fmt::format("{}^{{{}}}", text, power.exponent);
}

// The terms with their signs; `factor` prints a power, `times` joins the factors of a term.
template <class Factor>
std::string print(const Polynomial::Terms& terms, std::string_view times, Factor factor) {
  std::string out;
  for (const auto& [monomial, coefficient] : terms) {
    if (out.empty()) {
      if (coefficient < 0) out += "-";
    } else {
      out += coefficient < 0 ? " - " : " + ";
    }
    std::string term;
    if ((coefficient != 1 && coefficient != -1) || monomial.powers().empty()) {
      term = to_decimal(coefficient);
      if (coefficient < 0) term.erase(0, 1);
    }
    for (const Monomial::Power& power : monomial.powers()) {
      if (!term.empty()) term += times;
      term += factor(power);
    }
    out += term;
  }
  return out.empty() ? "0" : out;
}

}  // namespace

void Symbol::refuse(std::string_view name) {
  throw Error(fmt::format(
      "[symbol] '{}' is no name; need a letter, then up to 14 letters, digits or underscores",
      name));
}

std::string Symbol::latex() const {
  const std::string_view text = name();
  const std::size_t cut = text.find('_');
  const std::string_view stem = text.substr(0, cut);
  const std::string upright = fmt::format("\\mathrm{{{}}}", stem);
  std::string base = stem.size() == 1 ? std::string(stem) : upright;
  if (cut == std::string_view::npos) return base;
  std::string index;  // an underscore has to be escaped
  for (const char c : text.substr(cut + 1)) index += c == '_' ? std::string("\\_") : std::string{c};
  return fmt::format("{}_{{\\mathrm{{{}}}}}", base, index);
}

Monomial::Monomial(Symbol symbol) : powers_{{symbol, 1}} {}

int Monomial::exponent(Symbol symbol) const {
  for (const Power& power : powers_) {
    if (power.symbol == symbol) return power.exponent;
  }
  return 0;
}

int Monomial::degree() const {
  return std::accumulate(powers_.begin(), powers_.end(), 0,
                         [](int sum, const Power& power) { return sum + power.exponent; });
}

void Monomial::set(Symbol symbol, int exponent) {
  auto at = std::find_if(powers_.begin(), powers_.end(),
                         [&](const Power& power) { return !factor_before(power.symbol, symbol); });
  if (at == powers_.end() || at->symbol != symbol) at = powers_.insert(at, {symbol, 0});
  at->exponent = exponent;
  if (exponent == 0) powers_.erase(at);
}

Monomial operator*(const Monomial& a, const Monomial& b) {
  Monomial product = a;
  for (const auto& [symbol, exponent] : b.powers_) {
    product.set(symbol, product.exponent(symbol) + exponent);
  }
  return product;
}

Monomial operator/(const Monomial& a, const Monomial& b) {
  Monomial quotient = a;
  for (const auto& [symbol, exponent] : b.powers_) {
    const int left = quotient.exponent(symbol) - exponent;
    require(left >= 0, "[polynomial] {} does not divide the term; need a factor of it",
            symbol.name());
    quotient.set(symbol, left);
  }
  return quotient;
}

Monomial common_factor(const Monomial& a, const Monomial& b) {
  Monomial common;
  for (const auto& [symbol, exponent] : a.powers_) {
    common.set(symbol, std::min(exponent, b.exponent(symbol)));
  }
  return common;
}

bool PrintedBefore::operator()(const Monomial& a, const Monomial& b) const {
  if (a.degree() != b.degree()) return a.degree() > b.degree();
  const int heads_a = a.exponent(symbols::h);
  const int heads_b = b.exponent(symbols::h);
  if (heads_a != heads_b) return heads_a < heads_b;

  // The first symbol, in the order of terms, whose powers differ.
  std::vector<Symbol> all;
  for (const Monomial* monomial : {&a, &b}) {
    for (const Monomial::Power& power : monomial->powers()) all.push_back(power.symbol);
  }
  std::sort(all.begin(), all.end(), [](Symbol x, Symbol y) {
    const std::size_t rx = rank(kTermOrder, x);
    const std::size_t ry = rank(kTermOrder, y);
    return rx != ry ? rx < ry : x < y;
  });
  for (const Symbol symbol : all) {
    const int ea = a.exponent(symbol);
    const int eb = b.exponent(symbol);
    if (ea != eb) return ea > eb;
  }
  return false;
}

void Polynomial::add(const Monomial& monomial, Integer coefficient) {
  if (coefficient == 0) return;
  const auto [at, is_new] = terms_.try_emplace(monomial, coefficient);
  if (is_new) return;
  at->second = add_exactly(at->second, coefficient);
  if (at->second == 0) terms_.erase(at);
}

Polynomial& Polynomial::operator+=(const Polynomial& other) {
  for (const auto& [monomial, coefficient] : other.terms_) add(monomial, coefficient);
  return *this;
}

Polynomial& Polynomial::operator-=(const Polynomial& other) { return *this += -other; }

Polynomial& Polynomial::operator*=(const Polynomial& other) {
  Polynomial product;
  for (const auto& [m1, c1] : terms_) {
    for (const auto& [m2, c2] : other.terms_) product.add(m1 * m2, multiply_exactly(c1, c2));
  }
  return *this = std::move(product);
}

Polynomial operator+(Polynomial a, const Polynomial& b) {
  a += b;
  return a;
}
Polynomial operator-(Polynomial a, const Polynomial& b) {
  a -= b;
  return a;
}
Polynomial operator*(Polynomial a, const Polynomial& b) {
  a *= b;
  return a;
}
Polynomial operator-(const Polynomial& a) { return a * Polynomial(-1); }

int Polynomial::degree(Symbol symbol) const {
  int highest = 0;
  for (const auto& term : terms_) highest = std::max(highest, term.first.exponent(symbol));
  return highest;
}

Polynomial Polynomial::coefficient(Symbol symbol, int power) const {
  Monomial divisor;
  for (int i = 0; i < power; ++i) divisor = divisor * Monomial(symbol);
  Polynomial found;
  for (const auto& [monomial, coefficient] : terms_) {
    if (monomial.exponent(symbol) == power) found.add(monomial / divisor, coefficient);
  }
  return found;
}

Polynomial Polynomial::substitute(Symbol symbol, const Polynomial& replacement) const {
  Polynomial result;
  Polynomial power = 1;  // replacement^i
  const int last = degree(symbol);
  for (int i = 0; i <= last; ++i) {
    result += coefficient(symbol, i) * power;
    if (i < last) power *= replacement;
  }
  return result;
}

Polynomial Polynomial::substitute(const SymbolValues& values) const {
  Polynomial result;
  for (const auto& [monomial, coefficient] : terms_) {
    Integer number = coefficient;
    Monomial rest;
    for (const auto& [symbol, exponent] : monomial.powers()) {
      const auto value = values.find(symbol);
      if (value != values.end()) {
        number = multiply_exactly(number, power_or_throw(value->second, exponent));
      } else {
        for (int i = 0; i < exponent; ++i) rest = rest * Monomial(symbol);
      }
    }
    result.add(rest, number);
  }
  return result;
}

Integer Polynomial::evaluate(const SymbolValues& values) const {
  Integer sum = 0;
  for (const auto& [monomial, coefficient] : terms_) {
    Integer term = coefficient;
    for (const auto& [symbol, exponent] : monomial.powers()) {
      const auto value = values.find(symbol);
      require(value != values.end(), "[polynomial] {} has no value; need one for every symbol",
              symbol.name());
      term = multiply_exactly(term, power_or_throw(value->second, exponent));
    }
    sum = add_exactly(sum, term);
  }
  return sum;
}

std::string Polynomial::text() const { return print(terms_, "·", factor_text); }

std::string Polynomial::latex() const { return print(terms_, "", factor_latex); }

Polynomial content(const Polynomial& polynomial) { return common_content(polynomial, {}); }

Polynomial common_content(const Polynomial& a, const Polynomial& b) {
  Integer divisor = 0;
  Monomial factor;
  for (const Polynomial* polynomial : {&a, &b}) {
    for (const auto& [monomial, coefficient] : polynomial->terms()) {
      factor = divisor == 0 ? monomial : common_factor(factor, monomial);
      divisor = greatest_divisor(divisor, coefficient);
    }
  }
  return divisor == 0 ? Polynomial(1) : Polynomial(factor, divisor);
}

Polynomial divide_exactly(const Polynomial& a, const Polynomial& b) {
  require(b.terms().size() == 1, "[polynomial] the divisor {} has {} terms; need one", b.text(),
          b.terms().size());
  const auto& [divisor, number] = *b.terms().begin();
  Polynomial quotient;
  for (const auto& [monomial, coefficient] : a.terms()) {
    require(coefficient % number == 0, "[polynomial] {} does not divide {}; need a common factor",
            b.text(), a.text());
    quotient += Polynomial(monomial / divisor, coefficient / number);
  }
  return quotient;
}

}  // namespace longspan
