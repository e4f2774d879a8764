#include "longspan/io/json_file.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace json_file_test {

using nlohmann::json;
using testing::message_of;
using testing::TemporaryDirectory;
using testing::write_bytes;

TEST(JsonFile, RoundTrip) {
  const TemporaryDirectory directory;
  const json value = {{"width", 128}, {"rate", 1e-3}, {"name", "é"}, {"list", {1, 2, 3}}};
  write_json(directory / "a.json", value);
  EXPECT_EQ(read_json(directory / "a.json"), value);
}

// What is wrong with `text`, without the name of the file.
std::string complaint(const std::string& text) {
  return message_of([&] { parse_json("[json] a.json", text); });
}

TEST(JsonFile, SaysWhereItIsWrong) {
  EXPECT_EQ(complaint("{\n  \"a\": 1,\n  \"b\": }\n"),
            "[json] a.json: line 3, column 8: syntax error while parsing value - unexpected '}'; "
            "need valid JSON");
  EXPECT_EQ(complaint(""),
            "[json] a.json: line 1, column 1: syntax error while parsing value - unexpected end of "
            "input; need valid JSON");
  EXPECT_EQ(complaint("{} x"),
            "[json] a.json: line 1, column 4: syntax error while parsing value - invalid literal; "
            "need valid JSON");
  EXPECT_EQ(complaint("[1e999]"),
            "[json] a.json: number overflow parsing '1e999'; need valid JSON");
  EXPECT_EQ(complaint(R"({"a": {"b": 1}, "a": 2})"), "[json] a.json: the key 'a' appears twice");
  EXPECT_EQ(complaint(R"({"a": {"b": 1}, "c": {"b": 2}})"), "");
}

// As many as the header of a large model has tensors; looked at pair by pair they take a minute.
TEST(JsonFile, ManyMembersTakeNoLonger) {
  std::string text = "{";
  for (int i = 0; i < 60'000; ++i) text += "\"" + std::to_string(i) + "\": {}, ";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(complaint(text + "\"last\": {}}"), "");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(JsonFile, RefusesDepth) {
  EXPECT_EQ(complaint(std::string(100, '[') + std::string(100, ']')), "");
  EXPECT_EQ(complaint(std::string(101, '[') + std::string(101, ']')),
            "[json] a.json: is nested more than 100 deep");
  EXPECT_EQ(complaint(std::string(1'000'000, '[')), "[json] a.json: is nested more than 100 deep");
}

TEST(JsonFile, MissingOrNotAFile) {
  const TemporaryDirectory directory;
  const std::string missing = (directory / "no.json").string();
  EXPECT_EQ(message_of([&] { read_json(missing); }), "[json] " + missing + " does not exist");
  EXPECT_EQ(message_of([&] { read_json(directory.path()); }),
            "[json] " + directory.path().string() + " is a directory; need a regular file");
}

TEST(JsonFile, RefusesTextThatIsNotUtf8) {
  const TemporaryDirectory directory;
  const auto path = directory / "a.json";
  EXPECT_NE(message_of([&] { write_json(path, json("\xFF")); }), "");
  EXPECT_FALSE(std::filesystem::exists(path));
  write_bytes(path, "\"\xFF\"");
  EXPECT_NE(message_of([&] { read_json(path); }).find("ill-formed UTF-8"), std::string::npos);
}

}  // namespace json_file_test
}  // namespace longspan
