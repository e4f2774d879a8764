#include "longspan/cost/polynomial.h"

#include <gtest/gtest.h>

#include <random>
#include <type_traits>

namespace longspan {
namespace polynomial_test {

using symbols::B, symbols::d, symbols::f, symbols::h, symbols::L, symbols::M, symbols::N,
    symbols::n, symbols::n_enc, symbols::v;

template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Integer, PrintsAllOf128Bits) {
  EXPECT_EQ(to_decimal(0), "0");
  EXPECT_EQ(to_grouped_decimal(0), "0");
  EXPECT_EQ(to_grouped_decimal(999), "999");
  EXPECT_EQ(to_grouped_decimal(-1000), "-1,000");
  EXPECT_EQ(to_grouped_decimal(8781824), "8,781,824");
  EXPECT_EQ(to_grouped_decimal(1234567, ' '), "1 234 567");
  const Integer most = ~(Integer{1} << 127);
  EXPECT_EQ(to_decimal(most), "170141183460469231731687303715884105727");
  EXPECT_EQ(to_decimal(-most - 1), "-170141183460469231731687303715884105728");
  EXPECT_EQ(to_grouped_decimal(-most - 1), "-170,141,183,460,469,231,731,687,303,715,884,105,728");
}

TEST(Symbol, TakesNamesOnly) {
  EXPECT_EQ(Symbol("n_enc").name(), "n_enc");
  EXPECT_EQ(Symbol("abcdefghijklmno").name().size(), 15U);
  for (const char* bad : {"", "2d", "_x", "a b", "abcdefghijklmnop", "d²"}) {
    EXPECT_NE(error_of([&] { static_cast<void>(Symbol(bad)); }).find("is no name"),
              std::string::npos)
        << bad;
  }
}

TEST(Polynomial, PrintsAsText) {
  EXPECT_EQ((2 * M * d * d + 2 * M * N * d + 2 * N * d * d).text(), "2·M·d² + 2·M·N·d + 2·N·d²");
  EXPECT_EQ((6 * M * N * h + 4 * N * d * d + 4 * M * N * d + 4 * M * d * d).text(),
            "4·M·d² + 4·M·N·d + 4·N·d² + 6·M·N·h");
  EXPECT_EQ((4 * n * d * d + 2 * n * n * d).text(), "4·n·d² + 2·n²·d");
  EXPECT_EQ((M * d + 9 * M * f + 4 * M * d * f).text(), "4·M·d·f + M·d + 9·M·f");
  EXPECT_EQ(Polynomial().text(), "0");
  EXPECT_EQ(Polynomial(-7).text(), "-7");
  EXPECT_EQ((1 - M).text(), "-M + 1");
  EXPECT_EQ((-2 * M * N - d).text(), "-2·M·N - d");
  Polynomial power = 1;
  for (int i = 0; i < 12; ++i) power *= d;
  EXPECT_EQ((3 * power).text(), "3·d¹²");
}

TEST(Polynomial, PrintsAsLatex) {
  EXPECT_EQ((2 * M * d * d + 2 * M * N * d + 2 * N * d * d).latex(), "2Md^{2} + 2MNd + 2Nd^{2}");
  EXPECT_EQ((n_enc * n_enc * d - 12 * v).latex(), "n_{\\mathrm{enc}}^{2}d - 12v");
  EXPECT_EQ(Polynomial(Symbol("rank")).latex(), "\\mathrm{rank}");
  EXPECT_EQ(Polynomial(Symbol("n_a_b")).latex(), "n_{\\mathrm{a\\_b}}");
  EXPECT_EQ(Polynomial().latex(), "0");
}

TEST(Polynomial, HasOneFormForOneFunction) {
  EXPECT_EQ((M + N) * (M - N), M * M - N * N);
  EXPECT_EQ(M * N * d, d * M * N);
  EXPECT_EQ(M * d - d * M, 0);
  EXPECT_TRUE((M * d - d * M).is_zero());
  EXPECT_NE(M * d, M * d * d);
  EXPECT_NE(Polynomial(M), Polynomial(N));
  Polynomial twice = M + 3;
  twice += twice;
  EXPECT_EQ(twice, 2 * M + 6);
  twice -= twice;
  EXPECT_TRUE(twice.is_zero());
  Polynomial square = M + 1;
  square *= square;
  EXPECT_EQ(square, M * M + 2 * M + 1);
  static_assert(!std::is_convertible_v<double, Polynomial>);
}

// Every way to compute is compared with plain arithmetic at random points.
TEST(Polynomial, ArithmeticAgreesWithNumbers) {
  std::mt19937_64 random(7);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  const Symbol letters[] = {M, N, d, h, Symbol("zeta"), Symbol("alpha")};
  const auto draw = [&] {
    Polynomial sum;
    for (int terms = pick(0, 5); terms > 0; --terms) {
      Polynomial term = pick(-9, 9);
      for (int factors = pick(0, 4); factors > 0; --factors) term *= letters[pick(0, 5)];
      sum += term;
    }
    return sum;
  };
  for (int round = 0; round < 300; ++round) {
    const Polynomial a = draw();
    const Polynomial b = draw();
    SymbolValues at;
    for (const Symbol letter : letters) at[letter] = pick(-20, 20);
    const Integer x = a.evaluate(at);
    const Integer y = b.evaluate(at);
    EXPECT_EQ((a + b).evaluate(at), x + y);
    EXPECT_EQ((a - b).evaluate(at), x - y);
    EXPECT_EQ((a * b).evaluate(at), x * y);
    EXPECT_EQ(a + b - b, a);
    EXPECT_EQ(a * b, b * a);
    // The value of a at N = b is a's value at N = y.
    SymbolValues moved = at;
    moved[N] = y;
    EXPECT_EQ(a.substitute(N, b).evaluate(at), a.evaluate(moved));
    EXPECT_EQ(a.substitute({{M, at[M]}, {d, at[d]}}).evaluate(at), x);
    EXPECT_EQ(a.substitute(at), x);
    Polynomial rebuilt;
    Polynomial power = 1;
    for (int i = 0; i <= a.degree(N); ++i) {
      rebuilt += a.coefficient(N, i) * power;
      power *= N;
    }
    EXPECT_EQ(rebuilt, a);
    EXPECT_EQ(divide_exactly(a, content(a)) * content(a), a);
  }
}

TEST(Polynomial, KnowsItsParts) {
  const Polynomial p = 4 * n * d * d + 2 * n * n * d;
  EXPECT_EQ(p.degree(n), 2);
  EXPECT_EQ(p.degree(h), 0);
  EXPECT_EQ(p.coefficient(n, 2), 2 * d);
  EXPECT_EQ(p.coefficient(n, 1), 4 * d * d);
  EXPECT_EQ(p.coefficient(n, 0), 0);
  EXPECT_EQ(content(p), 2 * n * d);
  EXPECT_EQ(common_content(6 * M * d, 4 * d * d * v), 2 * d);
  EXPECT_EQ(divide_exactly(p, content(p)), 2 * d + n);
  EXPECT_EQ(p.substitute({{d, 8}}), 256 * n + 16 * n * n);
  EXPECT_EQ((M * N).substitute(M, N), N * N);
  EXPECT_NE(error_of([&] { divide_exactly(p, n + d); }).find("need one"), std::string::npos);
  EXPECT_NE(error_of([&] { divide_exactly(p, h); }).find("does not divide"), std::string::npos);
  EXPECT_NE(error_of([&] { divide_exactly(p, 3); }).find("does not divide"), std::string::npos);
}

TEST(Polynomial, NeedsEveryValue) {
  EXPECT_EQ(error_of([] {
              (M * d).evaluate({{M, 2}});
            }),
            "[polynomial] d has no value; need one for every symbol");
}

TEST(Polynomial, OverflowIsAnError) {
  const std::string expected =
      "[polynomial] a value needs more than 128 bits; need smaller dimensions";
  const Integer big = Integer{1} << 63;
  EXPECT_EQ((L * M).evaluate({{L, big}, {M, big - 1}}), big * (big - 1));  // below 2^127
  EXPECT_EQ(error_of([&] { (L * M).evaluate({{L, big}, {M, 2 * big}}); }), expected);
  EXPECT_EQ(error_of([&] { (L * L * L).evaluate({{L, big}}); }), expected);
  EXPECT_EQ(error_of([&] {
              (big * big * L + big * big * M).evaluate({{L, 1}, {M, 1}});
            }),
            expected);
  EXPECT_EQ(error_of([&] { big*(big * L) * (2 * L); }), expected);
  EXPECT_EQ(error_of([&] { (big * big) * L + (big * big) * L; }), expected);
  EXPECT_EQ(error_of([&] { (L * B).substitute({{L, big}, {B, 2 * big}}); }), expected);
}

}  // namespace polynomial_test
}  // namespace longspan
