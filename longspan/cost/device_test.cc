#include "longspan/cost/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/base/random.h"

namespace longspan {
namespace device_test {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kToy =
    "[device.toy]\ntitle = \"Toy\"\nkind = \"accelerator\"\npeak = { fp16 = 2e12 }\n"
    "bandwidth = 1e9\nmemory = 1e9\npower = 100\n";

std::string message(const std::string& toml) {
  try {
    parse_devices("file", toml);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Devices, NeedNeitherUsualNorPrice) {
  const Device toy = parse_devices("file", kToy).at(0);
  EXPECT_FALSE(toy.usual.has_value());
  EXPECT_FALSE(toy.price.has_value());
  const Device more = parse_devices("file", kToy + "usual = [0.3, 0.5]\nprice = 2\n").at(0);
  EXPECT_EQ(more.usual, Range::between(0.3, 0.5));
  EXPECT_EQ(more.price, Range::exactly(2.0));
}

TEST(Devices, WhatIsWrongIsNamed) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string toml = kToy + "usual = 0.5\n";
    return message(toml.replace(toml.find(from), from.size(), to));
  };
  const std::vector<std::array<std::string, 3>> all = {
      {"fp16 = 2e12", "fp16 = -1", "line 4: peak.fp16 of toy is -1; need a number from 1 to"},
      {"fp16 = 2e12", "fp16 = 1e300", "peak.fp16 of toy is 1e+300; need"},
      {"fp16 = 2e12", "fp16 = nan", "peak.fp16 of toy is nan; need"},
      {"fp16 = 2e12", "fp16 = \"x\"", "peak.fp16 of toy is not a number; need one from 1"},
      {"fp16 = 2e12", "\"\\u001b\" = 2e12", "peak of toy has '?'; need a format"},
      {"bandwidth = 1e9", "bandwidth = 0", "bandwidth of toy is 0; need"},
      {"bandwidth = 1e9", "bandwidth = inf", "bandwidth of toy is inf; need"},
      {"memory = 1e9", "memory = -inf", "memory of toy is -inf; need"},
      {"memory = 1e9", "memory = true", "memory of toy is not a number; need"},
      {"power = 100", "power = -100", "power of toy is -100; need"},
      {"power = 100", "power = 9223372036854775807", "power of toy is 9.22337e+18; need"},
      {"usual = 0.5", "usual = 1.5", "usual of toy is 1.5; need a number from 1e-06 to 1"},
      {"usual = 0.5", "usual = [0.5]", "usual of toy has 1 values; need [low, high]"},
      {"usual = 0.5", "usual = [0.5, 0.3]", "need the lower first"},
      {"\"Toy\"", "\"\\u001b[2J\"", "title of toy is '?[2J'; need a line of 1 to"},
      {"\"Toy\"", "\"\"", "title of toy is ''; need a line of 1 to"},
      {"accelerator", "abacus", "kind of toy is 'abacus'; need accelerator or cpu"},
      {"device.toy", "device.\"\"", "a device ''; need a name of 1 to"},
  };
  for (const auto& [from, to, sentence] : all) EXPECT_THAT(with(from, to), HasSubstr(sentence));
}

// The parser aborts on "[" and NUL.
TEST(Devices, BytesThatAreNoTextAreRefused) {
  EXPECT_EQ(message(std::string("[\0", 2)),
            "[devices] file: byte 1 is a control character; need valid TOML");
  // It believes that some characters cannot come where a space may.
  EXPECT_EQ(message("ev\xef\xbb\xaf"),
            "[devices] file: byte 2 is beyond ASCII outside of quotes; need valid TOML");
  EXPECT_THAT(message(kToy + "\xc3\xa4 = 1\n"), HasSubstr("is beyond ASCII outside of quotes"));
  EXPECT_THAT(message(kToy + "a = \"\"\"\n\xc3\xa4\"\"\"\n"),
              HasSubstr("is beyond ASCII outside of quotes"));
  EXPECT_THAT(message(kToy + "a = '\\' \xc3\xa4\n"),
              HasSubstr("is beyond ASCII outside of quotes"));
  EXPECT_THAT(message(kToy + "# \xc3\xa4\n'b' = \"\\\"\xc3\xa4\"\n"),
              Not(HasSubstr("is beyond ASCII")));
  EXPECT_THAT(message(kToy + "\x1b"), HasSubstr("is a control character"));
  EXPECT_THAT(message("\xff\xfe"), StartsWith("[devices] file: "));
}

TEST(Devices, WhateverIsInTheFileIsASentence) {
  const std::string alphabet = "[]{}=.,\"'#\n\r\t \\_-+eE0129infatruedvcpk\xc3\xa9\xff";
  for (std::uint64_t i = 0; i < 4000; ++i) {
    std::string toml = kToy.substr(0, random_below(1, 5 * i, kToy.size() + 1));
    for (std::uint64_t j = 0; j < 4; ++j) {
      const std::size_t at = random_below(2, 4 * i + j, toml.size() + 1);
      const char c = alphabet[random_below(3, 4 * i + j, alphabet.size())];
      toml.insert(at, random_below(4, 4 * i + j, 3), c);
    }
    const std::string said = message(toml);
    EXPECT_TRUE(said.empty() || said.starts_with("[devices] ")) << toml << said;
    EXPECT_EQ(said.find('\n'), said.npos) << said;
  }
}

}  // namespace device_test
}  // namespace longspan
