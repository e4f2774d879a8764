#include "longspan/base/config.h"

#include <gtest/gtest.h>

namespace longspan {
namespace config_test {

struct Sample {
  bool wide = false;
  std::size_t tile = 64;
  std::int32_t offset = 0;
  float epsilon = 1e-6F;
  std::string kind = "plain";

  bool operator==(const Sample&) const = default;
  template <class See>
  void visit(See see) {
    see("wide", wide);
    see("tile", tile);
    see("offset", offset);
    see("epsilon", epsilon, "Of a norm", from_to(0, 1));
    see("kind", kind);
  }
};

std::string error_of(std::string_view options) {
  Sample sample;
  try {
    parse_options("sample", options, sample);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(ParseOptions, SetsWhatIsNamed) {
  Sample sample;
  parse_options("sample", "wide=on,tile=128,offset=-3,epsilon=2.5e-3,kind=a=b", sample);
  EXPECT_EQ(sample, (Sample{true, 128, -3, 2.5e-3F, "a=b"}));
  parse_options("sample", "wide=no", sample);
  EXPECT_EQ(sample, (Sample{false, 128, -3, 2.5e-3F, "a=b"}));
  Sample untouched;
  parse_options("sample", "", untouched);
  EXPECT_EQ(untouched, Sample{});
}

TEST(ParseOptions, SuggestsTheNearestName) {
  EXPECT_EQ(error_of("tlie=3"),
            "[sample] unknown option 'tlie'; did you mean 'tile'? Known: wide, tile, offset, "
            "epsilon, kind");
}

TEST(ParseOptions, SaysWhatAValueMustBe) {
  EXPECT_EQ(error_of("tile=big"), "[sample] tile is 'big'; need a whole number from 0, below 2^64");
  EXPECT_EQ(error_of("tile="), "[sample] tile is ''; need a whole number from 0, below 2^64");
  EXPECT_EQ(error_of("tile=3.5"), "[sample] tile is '3.5'; need a whole number from 0, below 2^64");
  EXPECT_EQ(error_of("epsilon=small"), "[sample] epsilon is 'small'; need a number from 0 to 1");
  EXPECT_EQ(error_of("wide=maybe"), "[sample] wide is 'maybe'; need true or false");
  EXPECT_EQ(error_of("wide"), "[sample] option 'wide'; need key=value");
  EXPECT_EQ(error_of("=3"), "[sample] option '=3'; need key=value");
  EXPECT_EQ(error_of("tile=3,,wide=on"), "[sample] option ''; need key=value");
  EXPECT_NE(error_of("tile=99999999999999999999"), "");
  EXPECT_EQ(error_of("epsilon=nan"), "[sample] epsilon is 'nan'; need a number from 0 to 1");
  EXPECT_EQ(error_of("epsilon=1.5"), "[sample] epsilon is '1.5'; need a number from 0 to 1");
}

TEST(ParseOptions, DoesNotWrapWhatDoesNotFit) {
  EXPECT_EQ(error_of("tile=-1"), "[sample] tile is '-1'; need a whole number from 0, below 2^64");
  EXPECT_NE(error_of("offset=3000000000"), "") << "more than 32 bits";
}

TEST(Nearest, IsByEditDistance) {
  const std::vector<std::string_view> known = {"full", "flash", "performer"};
  EXPECT_EQ(nearest("flsh", known), "flash");
  EXPECT_EQ(nearest("ful", known), "full");
  EXPECT_EQ(nearest("preformer", known), "performer");
  EXPECT_EQ(nearest("x", {}), "");
  EXPECT_EQ(nearest("", known), "full");
}

TEST(Similar, IsOnlyWhatSomebodyMayHaveMeant) {
  const std::vector<std::string_view> known = {"full", "flash", "performer", "k"};
  EXPECT_EQ(similar("flsh", known), "flash");
  EXPECT_EQ(similar("flahs", known), "flash");
  EXPECT_EQ(similar("perf", known), "performer");
  EXPECT_EQ(similar("performers-of-old", known), "performer");
  EXPECT_EQ(similar("preformre", known), "performer");
  for (const char* far : {"", "x", "xy", "lash-up", "backprop", "linear"}) {
    EXPECT_EQ(similar(far, known), "") << far;
  }
  EXPECT_EQ(similar(std::string(100000, 'f'), known), "");
  EXPECT_EQ(similar("full", {}), "");
}

TEST(ThrowUnknown, ListsWhatThereIsWhereNothingIsSimilar) {
  try {
    throw_unknown("rule", "learning rule", "backprop", {"bp", "fa"});
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "[rule] unknown learning rule 'backprop'; need one of bp, fa");
  }
}

TEST(ThrowUnknown, WithoutAnyKnown) {
  try {
    throw_unknown("flash", "option", "x", {});
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "[flash] unknown option 'x'; it has none");
  }
}

TEST(Config, ListsAreSplit) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(split_list("a|b:c=1|d", '|'), (Parts{"a", "b:c=1", "d"}));
  EXPECT_EQ(split_list("a", '|'), Parts{"a"});
  EXPECT_EQ(split_list("", ','), Parts{""});
  EXPECT_EQ(split_list(",x,", ','), (Parts{"", "x", ""}));
}

}  // namespace config_test
}  // namespace longspan
