// Polynomials over named symbols with exact integer coefficients: formulas as values.
//
//   const Polynomial maccs = 2 * M * d * d + 2 * M * N * d + 2 * N * d * d;
//   maccs.text()                                   "2·M·d² + 2·M·N·d + 2·N·d²"
//   maccs.latex()                                  "2Md^{2} + 2MNd + 2Nd^{2}"
//   maccs.evaluate({{M, 128}, {N, 128}, {d, 64}})  4194304
//
// Two polynomials are equal when they are the same function; there is one form and one printed
// order for each. Where a coefficient or a value needs more than 128 bits, Error is thrown.
#pragma once

#include <array>
#include <compare>
#include <concepts>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/cost/integer.h"

namespace longspan {

// A name of at most 15 characters: a letter, then letters, digits or underscores.
class Symbol {
 public:
  static constexpr std::size_t kLongest = 15;

  constexpr explicit Symbol(std::string_view name) : size_(name.size()) {
    bool good = !name.empty() && name.size() <= kLongest && is_letter(name[0]);
    for (std::size_t i = 0; good && i < name.size(); ++i) {
      const char c = name[i];
      good = is_letter(c) || (c >= '0' && c <= '9') || c == '_';
      name_[i] = c;
    }
    if (!good) refuse(name);
  }

  constexpr std::string_view name() const { return {name_.data(), size_}; }
  // n_enc → n_{\mathrm{enc}}; a name of several letters is set upright.
  std::string latex() const;

  constexpr bool operator==(const Symbol& other) const { return name() == other.name(); }
  constexpr std::strong_ordering operator<=>(const Symbol& other) const {
    return name() <=> other.name();
  }

 private:
  static constexpr bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  }
  [[noreturn]] static void refuse(std::string_view name);

  std::array<char, kLongest> name_{};
  std::size_t size_;
};

// The letters of the cost formulas.
// NOLINTBEGIN(readability-identifier-naming): they are the letters of the equations.
namespace symbols {
inline constexpr Symbol B{"B"};          // sequences in a batch
inline constexpr Symbol L{"L"};          // blocks of the only stack
inline constexpr Symbol n_enc{"n_enc"};  // blocks of the encoder
inline constexpr Symbol n_dec{"n_dec"};  // blocks of the decoder
inline constexpr Symbol M{"M"};          // queries; length of the decoder's sequence
inline constexpr Symbol N{"N"};          // keys; length of the encoder's or only sequence
inline constexpr Symbol n{"n"};          // a length, where M = N
inline constexpr Symbol p{"p"};          // pairs of query and key that are computed
inline constexpr Symbol d{"d"};          // d_model
inline constexpr Symbol h{"h"};          // heads
inline constexpr Symbol f{"f"};          // d_ff
inline constexpr Symbol v{"v"};          // vocabulary
inline constexpr Symbol c{"c"};          // classes
inline constexpr Symbol k{"k"};          // projected length, features, window: the mechanism says
}  // namespace symbols
// NOLINTEND(readability-identifier-naming)

// A product of powers of symbols, such as M·d². Powers are positive.
class Monomial {
 public:
  struct Power {
    Symbol symbol;
    int exponent = 0;
    bool operator==(const Power&) const = default;
  };

  Monomial() = default;  // 1
  explicit Monomial(Symbol symbol);

  // In the order of printing.
  const std::vector<Power>& powers() const { return powers_; }
  int exponent(Symbol symbol) const;
  int degree() const;
  bool operator==(const Monomial&) const = default;

  friend Monomial operator*(const Monomial& a, const Monomial& b);
  // a / b, where b divides a.
  friend Monomial operator/(const Monomial& a, const Monomial& b);
  // The greatest monomial that divides both.
  friend Monomial common_factor(const Monomial& a, const Monomial& b);

 private:
  void set(Symbol symbol, int exponent);

  std::vector<Power> powers_;
};

// Higher degree first; among equals, terms without heads first (they are the matrix products), then
// higher powers of L, B, M, d, N and so on.
struct PrintedBefore {
  bool operator()(const Monomial& a, const Monomial& b) const;
};

using SymbolValues = std::map<Symbol, Integer>;

class Polynomial {
 public:
  using Terms = std::map<Monomial, Integer, PrintedBefore>;  // no coefficient is zero

  Polynomial() = default;  // 0
  // Integers and symbols are polynomials: 2 * M * d. A double is none.
  template <class T>
  requires(std::integral<T> || std::same_as<T, Integer>)
      Polynomial(T constant) {  // NOLINT(google-explicit-constructor)
    add(Monomial{}, static_cast<Integer>(constant));
  }
  Polynomial(Symbol symbol) { add(Monomial(symbol), 1); }  // NOLINT(google-explicit-constructor)
  Polynomial(const Monomial& monomial, Integer coefficient) { add(monomial, coefficient); }

  Polynomial& operator+=(const Polynomial& other);
  Polynomial& operator-=(const Polynomial& other);
  Polynomial& operator*=(const Polynomial& other);
  bool operator==(const Polynomial& other) const { return terms_ == other.terms_; }

  const Terms& terms() const { return terms_; }
  bool is_zero() const { return terms_.empty(); }
  int degree(Symbol symbol) const;
  // What symbol^power is multiplied by: of 2·n²·d + 4·n·d² the coefficient of n² is 2·d.
  Polynomial coefficient(Symbol symbol, int power) const;

  Polynomial substitute(Symbol symbol, const Polynomial& replacement) const;
  // Symbols without a value stay.
  Polynomial substitute(const SymbolValues& values) const;
  // Every symbol needs a value.
  Integer evaluate(const SymbolValues& values) const;

  std::string text() const;
  std::string latex() const;

 private:
  void add(const Monomial& monomial, Integer coefficient);

  Terms terms_;
};

// Not hidden friends: 2 * M, with M a Symbol, must find them.
Polynomial operator+(Polynomial a, const Polynomial& b);
Polynomial operator-(Polynomial a, const Polynomial& b);
Polynomial operator*(Polynomial a, const Polynomial& b);
Polynomial operator-(const Polynomial& a);

// c·m with the greatest c > 0 and m that divide every term; 1 for zero.
Polynomial content(const Polynomial& polynomial);
// The content of both, taken together.
Polynomial common_content(const Polynomial& a, const Polynomial& b);
// a / b for a b of one term that divides every term of a.
Polynomial divide_exactly(const Polynomial& a, const Polynomial& b);

}  // namespace longspan
