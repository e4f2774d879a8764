// longspan pattern: the picture in the terminal, as JSON and in files.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "longspan/attention/registry.h"
#include "longspan/testing/command_line.h"

namespace longspan::testing {
namespace pattern_cli_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

TEST(Pattern, ShowsAWindow) {
  const Outcome outcome = longspan({"pattern", "window:window=4", "--length", "8"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(first_line(outcome.out), "www·····");
  EXPECT_THAT(outcome.out, HasSubstr("w window: 34 of 64 pairs"));
}

TEST(Pattern, ColoursByReason) {
  const Outcome outcome =
      longspan({"pattern", "bigbird:block=4,random=1", "--length", "64", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  const auto& pairs = json.at("pairs");
  // 16 blocks: 2 see all, 14 see 2 globals; of these 2 next to the ends have 2 more window blocks,
  // 12 have 3, each of the 14 one random block.
  EXPECT_EQ(pairs.at("global"), 16 * (2 * 16 + 14 * 2));
  EXPECT_EQ(pairs.at("window"), 16 * (2 * 2 + 12 * 3));
  EXPECT_EQ(pairs.at("random"), 16 * 14);
  EXPECT_EQ(json.at("rows").size(), 64U);
}

TEST(Pattern, ProbesWhatHasNoFixedPattern) {
  const Outcome outcome = longspan({"pattern", "flash", "--length", "5", "--causal"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::string letters = outcome.out;
  std::ranges::replace(letters, 'X', 'x');  // above the mean of a row, or below it
  EXPECT_THAT(letters, StartsWith("x····\nxx···\nxxx··\nxxxx·\nxxxxx\n"));
}

TEST(Pattern, ShowsEveryMechanismByDefault) {
  for (const Mechanism& mechanism : mechanisms()) {
    const Outcome outcome = longspan({"pattern", std::string(mechanism.name)});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const std::string square = outcome.out.substr(0, outcome.out.find(' '));
    const std::string row = first_line(square);
    EXPECT_EQ(
        std::string(square).find_first_not_of(row[0] + std::string("\n")) == std::string::npos,
        false)
        << mechanism.name << " is one solid square of " << row[0];
  }
}

TEST(Pattern, ScalesWhatIsNotGiven) {
  const auto shown = [](const std::string& specification, const char* length) {
    const Outcome outcome = longspan({"pattern", specification, "--length", length, "--json"});
    return nlohmann::json::parse(outcome.out).at("shown").get<std::string>();
  };
  EXPECT_EQ(shown("bigbird", "64"), "bigbird:block=4");
  EXPECT_EQ(shown("bigbird", "320"), "bigbird:block=20");
  EXPECT_EQ(shown("bigbird", "4096"), "bigbird");
  EXPECT_EQ(shown("bigbird:block=8,random=1", "64"), "bigbird:block=8,random=1");
  EXPECT_EQ(shown("longformer:global=2", "64"), "longformer:window=8,global=2");
  EXPECT_EQ(shown("full", "64"), "full");
  const Outcome whole = longspan({"pattern", "bigbird:block=64"});
  EXPECT_THAT(whole.out, HasSubstr("g global: 4096 of 4096 pairs"));
  EXPECT_THAT(longspan({"pattern", "bigbird"}).out, HasSubstr("drawn as bigbird:block=4"));
}

// Beyond the page a pattern is sampled: neither time nor memory grow with the length.
TEST(Pattern, SamplesLongSequences) {
  const TemporaryDirectory directory;
  constexpr long kMemory = 3L << 30U;
  int number = 0;
  for (const std::string name : {"full", "linformer", "reformer", "window", "bigbird"}) {
    for (const char* length : {"20000", "1000000000"}) {
      for (const char* form : {"svg", "png"}) {
        const std::string path = (directory.path() / fmt::format("{}.{}", number++, form)).string();
        const auto start = std::chrono::steady_clock::now();
        const Outcome outcome = longspan({"pattern", name, "--length", length, "--out", path},
                                         {.memory_limit = kMemory});
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        ASSERT_EQ(outcome.status, 0) << name << " " << length << ": " << outcome.err;
        EXPECT_THAT(outcome.out, HasSubstr("sampled: 80 of " + std::string(length) + " tokens"));
        EXPECT_EQ(outcome.out.find('%'), std::string::npos) << "shares of a sample are no shares";
        EXPECT_LT(took.count(), 20.0) << name << " " << length;
        EXPECT_LT(std::filesystem::file_size(path), 1'000'000U) << name << " " << length;
      }
    }
  }
  const Outcome json = longspan({"pattern", "full", "--length", "20000", "--json"});
  EXPECT_EQ(nlohmann::json::parse(json.out).at("sampled"), 1024);
}

TEST(Pattern, PicturesHaveAxesAndALegend) {
  const TemporaryDirectory directory;
  const std::string svg = (directory.path() / "a.svg").string();
  const std::string png = (directory.path() / "a.png").string();
  for (const std::string& path : {svg, png}) {
    ASSERT_EQ(longspan({"pattern", "bigbird", "--length", "200", "--out", path}).status, 0);
  }
  const std::string text = read_bytes(svg);
  for (const char* part : {">key<", ">query<", ">100<", ">200<", ">bigbird:block=12<",
                           "random: ", "global: ", " of 40000 pairs"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_LT(text.size(), 20'000U);
  // A reader of another's make agrees about the bytes, and flat areas take next to none.
  EXPECT_LT(read_bytes(png).size(), 40'000U);
  const std::string reader = (directory.path() / "read.py").string();
  std::ofstream(reader) << R"(import struct, sys, zlib
data = open(sys.argv[1], 'rb').read()
at, body = 8, b''
while at < len(data):
    size, kind = struct.unpack('>I4s', data[at:at + 8])
    part = data[at + 8:at + 8 + size]
    assert zlib.crc32(kind + part) == struct.unpack('>I', data[at + 8 + size:at + 12 + size])[0]
    if kind == b'IHDR': width, height, depth, colour = struct.unpack('>IIBB', part[:10])
    if kind == b'PLTE': colours = size // 3
    if kind == b'IDAT': body += part
    at += 12 + size
pixels = zlib.decompress(body)
assert (depth, colour) == (8, 3) and len(pixels) == height * (width + 1)
row, seen = bytes(width), set()
for y in range(height):
    line = pixels[y * (width + 1):(y + 1) * (width + 1)]
    assert line[0] == 2
    row = bytes((a + b) % 256 for a, b in zip(row, line[1:]))
    seen |= set(row)
assert seen == set(range(colours)), seen
)";
  EXPECT_EQ(std::system(fmt::format("python3 '{}' '{}'", reader, png).c_str()), 0);
}

TEST(Pattern, WritesPictures) {
  const TemporaryDirectory directory;
  for (const std::string name : {"picture.svg", "picture.png"}) {
    const std::string path = (directory.path() / name).string();
    const Outcome outcome =
        longspan({"pattern", "longformer:window=8", "--length", "300", "--out", path});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    EXPECT_THAT(bytes, StartsWith(name == "picture.svg" ? "<svg" : "\x89PNG"));
    EXPECT_GT(bytes.size(), 1000U);
  }
}

TEST(Pattern, RefusesNonsense) {
  EXPECT_EQ(longspan({"pattern", "windo"}).status, 2);
  EXPECT_EQ(longspan({"pattern", "window", "--length", "0"}).status, 2);
  EXPECT_EQ(longspan({"pattern", "window", "--head", "9"}).status, 2);
  EXPECT_EQ(longspan({"pattern", "window", "--out", "picture.gif"}).status, 2);
  EXPECT_EQ(longspan({"pattern", "linformer", "--causal"}).status, 2);
  expect_wrong_input(longspan({"pattern", "fnet"}),
                     "fnet is no attention mechanism but another branch of a block");
  expect_wrong_input(longspan({"pattern", "experts:top=2"}), "as --feed-forward experts");
  expect_wrong_input(longspan({"pattern", "cross"}), "need a mechanism, see longspan list\n");
}

}  // namespace pattern_cli_test
}  // namespace longspan::testing
