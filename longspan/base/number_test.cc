#include "longspan/base/number.h"

#include <gtest/gtest.h>

#include <cmath>

namespace longspan {
namespace number_test {

std::optional<std::uint64_t> whole(std::string_view text) { return detail::natural_from(text); }

template <class Body>
std::string message_of(const Body& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(WholeNumber, IsReadAsPeopleWriteIt) {
  EXPECT_EQ(whole("0"), 0U);
  EXPECT_EQ(whole("1000"), 1000U);
  EXPECT_EQ(whole("1e3"), 1000U);
  EXPECT_EQ(whole("1E+3"), 1000U);
  EXPECT_EQ(whole("1.5e3"), 1500U);
  EXPECT_EQ(whole("4k"), 4000U);
  EXPECT_EQ(whole("64Ki"), 65536U);
  EXPECT_EQ(whole("1.5Ki"), 1536U);
  EXPECT_EQ(whole("2.5M"), 2500000U);
  EXPECT_EQ(whole("3Mi"), 3U << 20U);
  EXPECT_EQ(whole("1G"), 1000000000U);
  EXPECT_EQ(whole("8Gi"), std::uint64_t{8} << 30U);
  EXPECT_EQ(whole("12e-1k"), 1200U);
  EXPECT_EQ(whole("100e-2"), 1U);
  EXPECT_EQ(whole("0e999999999"), 0U);
  EXPECT_EQ(whole("0012"), 12U);
}

TEST(WholeNumber, HasAll64BitsAndNoMore) {
  EXPECT_EQ(whole("18446744073709551615"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(whole("9007199254740993"), 9007199254740993U) << "no double holds it";
  for (const char* text :
       {"18446744073709551616", "1e20", "1e400", "1e999999999", "99999999999999999999999999999999",
        "20000000000G", "1e99999999999999999999", "340282366920938463463374607431768211456"}) {
    EXPECT_EQ(whole(text), std::nullopt) << text;
  }
}

TEST(WholeNumber, IsNothingElse) {
  for (const char* text :
       {"",      " ",   "1 ",  " 1",  "+1",    "-1",   "-0",    "1.5", "1e-1", ".",
        "e3",    "1e",  "1e+", "k",   "1kk",   "1K",   "1ki",   "1m",  "0x10", "1,000",
        "1'000", "abc", "nan", "inf", "1e3.5", "1..0", "1.5.0", "١",   "1e--3"}) {
    EXPECT_EQ(whole(text), std::nullopt) << text;
  }
  EXPECT_EQ(whole(std::string_view("1\0", 2)), std::nullopt);
}

TEST(Number, OfEveryTypeIsWithinIt) {
  const auto reads = [](auto zero, std::string_view text) {
    return detail::number_from<decltype(zero)>(text);
  };
  EXPECT_EQ(reads(std::int32_t{}, "-2147483647"), -2147483647);
  EXPECT_EQ(reads(std::int32_t{}, "2147483648"), std::nullopt);
  EXPECT_EQ(reads(std::int64_t{}, "-5"), -5);
  EXPECT_EQ(reads(std::uint32_t{}, "4294967296"), std::nullopt);
  EXPECT_EQ(reads(std::size_t{}, "-5"), std::nullopt);
  EXPECT_EQ(reads(0.0, "-2.5e-3"), -2.5e-3);
  EXPECT_EQ(reads(0.0F, "0.1"), 0.1F);
  EXPECT_EQ(reads(0.0, "300G"), 3e11);
  EXPECT_EQ(reads(0.0F, "1e39"), std::nullopt);
  for (const char* text : {"nan", "NaN", "-nan", "inf", "-inf", "infinity", "1e400", "1e308G", "",
                           "1,5", "1.5x", "0x1p3", "+1"}) {
    EXPECT_EQ(reads(0.0, text), std::nullopt) << text;
  }
}

TEST(BoundsOfNumbers, KnowWhatTheyHave) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(from_to(1, 3).has(1) && from_to(1, 3).has(3U));
  EXPECT_FALSE(from_to(1, 3).has(0) || from_to(1, 3).has(4));
  EXPECT_FALSE(above_to(0, 1).has(0.0));
  EXPECT_TRUE(above_to(0, 1).has(1.0));
  EXPECT_TRUE(from_below(0, 1).has(0.0F));
  EXPECT_FALSE(from_below(0, 1).has(1.0F));
  EXPECT_TRUE(from_to(0, 0.1).has(0.1F)) << "0.1F is a little more than 0.1";
  EXPECT_FALSE(Bounds::of_type<double>().has(kNan));
  EXPECT_FALSE(Bounds::of_type<float>().has(std::numeric_limits<float>::infinity()));
  EXPECT_TRUE(Bounds::of_type<std::uint64_t>().has(std::numeric_limits<std::uint64_t>::max()));
}

TEST(BoundsOfNumbers, SayThemselvesInWords) {
  EXPECT_EQ(in_words(from_to(1, 4096), true), "a whole number from 1 to 4096");
  EXPECT_EQ(in_words(from_to(0, 1e9), true), "a whole number from 0 to 1e9");
  EXPECT_EQ(in_words(from_to(1, 0x1p32), true), "a whole number from 1 to 2^32");
  EXPECT_EQ(in_words(from_to(0, 1234567), true), "a whole number from 0 to 1234567");
  EXPECT_EQ(in_words(above_to(0, 1000), false), "a number above 0, at most 1000");
  EXPECT_EQ(in_words(from_below(0, 1), false), "a number from 0, below 1");
  EXPECT_EQ(in_words(from_to(-1000, 0.25), false), "a number from -1000 to 0.25");
  EXPECT_EQ(in_words(above_to(0, 1e300), false), "a number above 0");
  EXPECT_EQ(in_words(Bounds::of_type<float>(), false), "a finite number");
  EXPECT_EQ(in_words(Bounds::of_type<std::uint64_t>(), true), "a whole number from 0, below 2^64");
  EXPECT_EQ(in_words(Bounds::of_type<std::int64_t>(), true), "a whole number");
  EXPECT_EQ(in_words(Bounds::of_type<std::int32_t>(), true),
            "a whole number from -2^31 to 2147483647");
}

TEST(ReadNumber, SaysWhatItNeeds) {
  const auto lr = [](std::string_view text) {
    return message_of([&] { read_number<float>("train", "--lr", text, above_to(0, 1000)); });
  };
  EXPECT_EQ(lr("0.5"), "");
  EXPECT_EQ(lr("abc"), "[train] --lr is 'abc'; need a number above 0, at most 1000");
  EXPECT_EQ(lr("nan"), "[train] --lr is 'nan'; need a number above 0, at most 1000");
  EXPECT_EQ(lr("1e39"), "[train] --lr is '1e39'; need a number above 0, at most 1000");
  EXPECT_EQ(lr("1e-60"), "[train] --lr is '1e-60'; need a number above 0, at most 1000")
      << "as a float it is 0";
  const auto decay = [](std::string_view text) {
    return message_of([&] { read_number<float>("x", "momentum", text, from_below(0, 1)); });
  };
  EXPECT_EQ(decay("0.999"), "");
  EXPECT_NE(decay("0.99999999999"), "") << "as a float it is 1";
}

struct Some {
  std::size_t count = 1;
  float share = 0.5F;
  std::uint64_t seed = 0;
  bool on = false;
  std::string name;

  template <class See>
  void visit(See see) {
    see("count", count, "How many", from_to(1, 10));
    see("share", share, from_below(0, 1));
    see("seed", seed);
    see("on", on);
    see("name", name);
  }
};

TEST(CheckNumbers, FindsWhatIsOutsideItsBounds) {
  const auto check = [](const Some& some) {
    return message_of([&] { check_numbers("some", some); });
  };
  EXPECT_EQ(check({}), "");
  EXPECT_EQ(check({.seed = std::numeric_limits<std::uint64_t>::max()}), "");
  EXPECT_EQ(check({.count = 0}), "[some] count is 0; need a whole number from 1 to 10");
  EXPECT_EQ(check({.share = 1.0F}), "[some] share is 1; need a number from 0, below 1");
  EXPECT_EQ(check({.share = std::nanf("")}), "[some] share is nan; need a number from 0, below 1");
}

TEST(BoundsOf, AreThoseBesideTheField) {
  Some some;
  EXPECT_EQ(bounds_of(some, some.count), from_to(1, 10));
  EXPECT_EQ(bounds_of(some, some.share), from_below(0, 1));
  EXPECT_EQ(bounds_of(some, some.seed), Bounds::of_type<std::uint64_t>());
}

}  // namespace number_test
}  // namespace longspan
