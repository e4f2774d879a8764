// The command line in careless and hostile hands: a table of inputs, each with the exit code and a
// part of the sentence that must come of it, and the promise that no option for numbers takes
// anything else.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "longspan/testing/command_line.h"

namespace longspan::testing {
namespace hostile_cli_test {

using ::testing::HasSubstr;

constexpr double kMostSeconds = 2.0;
constexpr unsigned kHangs = 60;

// What the rows find in the directory that they start in.
class Place {
 public:
  Place() {
    write_bytes(at("text"), read_bytes(kText).substr(0, 20000));
    write_bytes(at("empty"), "");
    write_bytes(at("short"), "too short");
    write_bytes(at("binary"), std::string("\xff\xfe\x00 not text \x01\x02", 16));
    write_bytes(at("list.json"), "[1, 2, 3]");
    write_bytes(at("broken.json"), "{\"model_type\": ");
    write_bytes(at("deep.json"), std::string(100000, '['));
    write_bytes(at("other.json"), R"({"model_type": "mamba"})");
    write_bytes(at("nan.json"), R"({"model_type": "gpt2", "n_layer": NaN})");
    write_bytes(at("huge.json"), R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 1e300,
                                     "n_head": 12, "n_positions": 1024, "vocab_size": 50257})");
    write_bytes(at("broken.toml"), "[device.x\n");
    write_bytes(at("config.txt"), "nothing");
    write_bytes(at("one.tsv"), "a\tx\na\ty\n");
    write_bytes(at("few.tsv"), "a\tx\nb\ty\n");
    write_bytes(at("label.tsv"), "3\t[MAX 1 3 ]\n12\t[MAX 1 2 ]\n");
    write_bytes(at("token.tsv"), "3\t[MAX 1 3 ]\n2\t[MUL 1 2 ]\n");
    write_bytes(at("back.jsonl"), "{\"t\":[1,2],\"m\":[0,0]}\n{\"t\":[2,1],\"m\":[0,0]}\n");
    std::filesystem::create_directories(at("paths/metadata"));
    write_bytes(at("paths/metadata/0.npy"), "imgs/0 sample_0.png 0 7\n");
    std::filesystem::create_directory(at("packed"));
    write_bytes(at("packed/train-images-idx3-ubyte.gz"), "no gzip");
    write_bytes(at("packed/train-labels-idx1-ubyte.gz"), "no gzip");
    write_bytes(at("packed/t10k-images-idx3-ubyte.gz"), "no gzip");
    write_bytes(at("packed/t10k-labels-idx1-ubyte.gz"), "no gzip");
    write_bytes(at("twice.csv"), "time,type,type\n1,0,0\n");
    write_bytes(at("amount.csv"), "time,type,amount\n1,0,7\n");
    write_bytes(at("alone.csv"), "type\n0\n");
    write_bytes(at("all.tsv"), "1\ta\n2\tb\n3\tc\n");
    write_bytes(at("titles.tsv"), "source\ttarget\n");
    for (const char* directory :
         {"classes/a", "classes/b", "classes/third", "looped/a", "logged", "kept"}) {
      std::filesystem::create_directories(at(directory));
    }
    for (const char* name : {"classes/a/1", "classes/b/1", "looped/a/1", "kept/best"}) {
      write_bytes(at(name), "text");
    }
    write_bytes(at("logged/metrics.jsonl"), "somebody else's\n");
    std::filesystem::create_symlink("loop", at("looped/loop"));
    std::filesystem::create_directory(at("folder"));
    std::filesystem::create_symlink("loop", at("loop"));
    const Outcome trained = longspan(
        {"train",     "text", "--data",       at("text"), "--out",     at("m"), "--steps",  "1",
         "--layers",  "1",    "--heads",      "2",        "--batch",   "2",     "--length", "8",
         "--d-model", "8",    "--eval-every", "0",        "--threads", "1",     "--quiet"});
    EXPECT_EQ(trained.status, 0) << trained.err;
  }
  std::string at(const std::string& name) const { return (scratch_ / name).string(); }
  std::string path() const { return scratch_.path().string(); }

 private:
  TemporaryDirectory scratch_;
};

const Place& place() {
  static const Place the;
  return the;
}

struct Row {
  int line = 0;
  int status = 0;
  std::string sentence;
  std::vector<std::string> arguments;
};

// Words as a shell has them: '' is an empty one, and within quotes \n and \x1b are characters.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false;
  bool any = false;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ' ';
    if (c == '\'') {
      quoted = !quoted;
      any = true;
    } else if (quoted && c == '\\' && text.substr(i, 2) == "\\n") {
      word += '\n';
      ++i;
    } else if (quoted && c == '\\' && text.substr(i, 2) == "\\x") {
      word += static_cast<char>(std::stoi(text.substr(i + 2, 2), nullptr, 16));
      i += 3;
    } else if (c == ' ' && !quoted) {
      if (any) words.push_back(word);
      word.clear();
      any = false;
    } else {
      word += c;
      any = true;
    }
  }
  return words;
}

// The rows of each command, "-" those of none.
std::map<std::string, std::vector<Row>> read_table() {
  std::map<std::string, std::vector<Row>> table;
  std::ifstream file(LONGSPAN_SOURCE_DIR "/tests/cli/hostile_inputs.txt");
  std::string text;
  for (int line = 1; std::getline(file, text); ++line) {
    if (text.empty() || text.front() == '#') continue;
    const std::size_t first = text.find(" | ");
    const std::size_t second = text.find(" | ", first + 3);
    Row row{line, std::stoi(text), text.substr(first + 3, second - first - 3),
            words_of(text.substr(second + 3))};
    const bool named =
        !row.arguments.empty() && !row.arguments[0].empty() &&
        std::ranges::all_of(row.arguments[0], [](char c) { return c >= 'a' && c <= 'z'; });
    table[named ? row.arguments[0] : "-"].push_back(std::move(row));
  }
  return table;
}

void check_row(const Row& row) {
  SCOPED_TRACE(fmt::format("line {} of hostile_inputs.txt", row.line));
  const Outcome outcome = longspan(row.arguments, {.directory = place().path(), .seconds = kHangs});
  EXPECT_EQ(outcome.status, row.status) << outcome.err;
  EXPECT_THAT(outcome.out + outcome.err, HasSubstr(row.sentence));
  EXPECT_LT(outcome.cpu_seconds, kMostSeconds);
  if (row.status != 2) return;
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(outcome.err.starts_with("longspan: [")) << outcome.err;
  EXPECT_LT(outcome.err.size(), 2200U);
  ASSERT_TRUE(outcome.err.ends_with('\n'));
  const std::string line = outcome.err.substr(0, outcome.err.size() - 1);
  EXPECT_TRUE(std::ranges::none_of(line, [](unsigned char c) { return c < 0x20 || c == 0x7F; }))
      << line;
  // What CLI11, the standard library and parsers would say.
  for (const char* foreign : {"FLOAT", "UINT", "std::", "vector", "json.exception", "not in range",
                              "Failed", "Could not", "was not expected", "is required"}) {
    EXPECT_EQ(line.find(foreign), std::string::npos) << line;
  }
}

class HostileInputs : public ::testing::TestWithParam<std::string> {};

TEST_P(HostileInputs, EndInASentence) {
  const auto table = read_table();
  for (const Row& row : table.at(GetParam())) check_row(row);
}

std::vector<std::string> commands_in_table() {
  std::vector<std::string> names;
  for (const auto& [name, rows] : read_table()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(EachCommand, HostileInputs, ::testing::ValuesIn(commands_in_table()),
                         [](const auto& command) {
                           return command.param == "-" ? std::string("none") : command.param;
                         });

TEST(HostileTable, HasRowsOfEveryCommand) {
  std::size_t rows = 0;
  for (const auto& [name, of_command] : read_table()) rows += of_command.size();
  EXPECT_GE(rows, 300U);
  for (const char* command : {"train", "eval", "generate", "compare", "advise", "calibrate", "plan",
                              "cost", "pattern", "list", "version", "help"}) {
    EXPECT_TRUE(read_table().contains(command)) << command;
  }
}

// Options as --help lists them: name → the kind of their value, and its default.
struct HelpOption {
  std::string name;
  std::string kind;  // "" of a flag
  std::string standard;
};

std::vector<HelpOption> options_of(const std::string& command) {
  std::vector<HelpOption> options;
  std::istringstream help(longspan({command, "--help"}).out);
  std::string line;
  while (std::getline(help, line)) {
    if (!line.starts_with("  --")) continue;
    std::istringstream words(line);
    HelpOption option;
    std::string kind;
    words >> option.name >> kind;
    option.name = option.name.substr(0, option.name.find(','));
    const std::size_t equals = std::min(kind.find('='), kind.size());
    const std::string name = kind.substr(0, equals);
    const bool has_value =
        name.size() > 1 && std::ranges::all_of(name, [](char c) { return c >= 'A' && c <= 'Z'; });
    if (has_value) {
      option.kind = name;
      if (equals < kind.size()) option.standard = kind.substr(equals + 1);
    }
    options.push_back(option);
  }
  return options;
}

// What a command needs before it looks at an option.
std::vector<std::string> begun(const std::string& command) {
  if (command == "train") return {"train", "text"};
  if (command == "eval" || command == "generate") return {command, "m"};
  if (command == "pattern") return {"pattern", "full"};
  return {command};
}

class NumericOptions : public ::testing::TestWithParam<const char*> {};

TEST_P(NumericOptions, TakeNumbersWithinTheirBoundsOnly) {
  const std::string command = GetParam();
  std::size_t numbers = 0;
  for (const HelpOption& option : options_of(command)) {
    const bool number =
        option.kind == "NUMBER" || option.kind == "BYTES" || option.kind == "DURATION";
    const bool looks_so = !option.standard.empty() &&
                          option.standard.find_first_not_of("0123456789.e-") == std::string::npos;
    EXPECT_TRUE(number || !looks_so) << option.name << " has a number and is " << option.kind;
    if (!number) continue;
    ++numbers;
    for (const char* value :
         {"nan", "inf", "-inf", "-1", "1e400", "18446744073709551616", "abc", "", "0x10", "1x"}) {
      // Some quantities are decimals that may be large, and one may be negative.
      const bool allowed = (std::string(value) == "18446744073709551616" &&
                            (option.name == "--tokens" || option.name == "--flops" ||
                             option.name == "--bytes" || option.name == "--parameters" ||
                             option.name == "--achieved" || option.name == "--money")) ||
                           (std::string(value) == "-1" && option.name == "--feedback-scale");
      if (allowed) continue;
      std::vector<std::string> arguments = begun(command);
      arguments.push_back(option.name);
      arguments.emplace_back(value);
      const Outcome outcome = longspan(arguments, {.directory = place().path(), .seconds = kHangs});
      SCOPED_TRACE(fmt::format("{} {} '{}'", command, option.name, value));
      EXPECT_EQ(outcome.status, 2) << outcome.err;
      // Where a value may be left out, what begins with a dash is another option.
      const bool is_option = outcome.err.find("unknown option") != std::string::npos;
      if (*value == '-' && is_option) continue;
      EXPECT_THAT(outcome.err, HasSubstr(option.name + " is "));
      EXPECT_THAT(outcome.err, HasSubstr("; need "));
    }
  }
  EXPECT_EQ(numbers == 0, command == "calibrate") << "--threads, which all have, is not listed";
}
INSTANTIATE_TEST_SUITE_P(EachCommand, NumericOptions,
                         ::testing::Values("train", "eval", "generate", "compare", "advise",
                                           "calibrate", "plan", "cost", "pattern"));

TEST(NumericOptionsOfAll, AreThreads) {
  for (const char* value :
       {"nan", "inf", "-1", "0", "1e400", "18446744073709551616", "1025", "abc", "", "1.5"}) {
    expect_wrong_input(longspan({"version", "--threads", value}),
                       fmt::format("--threads is '{}'; need a whole number from 1 to 1024", value));
  }
  EXPECT_EQ(longspan({"version", "--threads", "1"}).status, 0);
}

TEST(WholeNumbers, MayBeWrittenShort) {
  const auto cost = [](const char* length, const char* vocab) {
    return longspan({"cost", "--model", "bert-base", "--max-length", "4096", "--length", length,
                     "--vocab", vocab, "--json"})
        .out;
  };
  const std::string plain = cost("2048", "32000");
  EXPECT_THAT(plain, HasSubstr("2048"));
  EXPECT_EQ(cost("2Ki", "32k"), plain);
  EXPECT_EQ(cost("2.048e3", "3.2e4"), plain);
}

TEST(Help, IsToBeHadInTwoWays) {
  EXPECT_EQ(longspan({"help"}).out, longspan({"--help"}).out);
  for (const char* command : {"train", "cost", "list", "help"}) {
    const Outcome help = longspan({"help", command});
    EXPECT_EQ(help.status, 0) << help.err;
    EXPECT_EQ(help.out, longspan({command, "--help"}).out);
  }
  EXPECT_THAT(longspan({"help", "train"}).out, HasSubstr("(from 0, below 1)"));
  EXPECT_EQ(longspan({"--version"}).out, longspan({"version"}).out);
  const Outcome asked = longspan({"--version", "--json"});
  EXPECT_EQ(asked.out, longspan({"version", "--json"}).out);
  EXPECT_EQ(longspan({"--json", "--version"}).out, asked.out);
}

TEST(TheWorkerOfCompare, IsNotOffered) {
  EXPECT_EQ(longspan({"--help"}).out.find("worker"), std::string::npos);
  for (const char* word : {"compare-workr", "worker", "comparew"}) {
    const Outcome outcome = longspan({word});
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(outcome.err.find("compare-worker"), std::string::npos) << outcome.err;
  }
  EXPECT_EQ(longspan({"help", "compare-worker"}).status, 2);
}

}  // namespace hostile_cli_test
}  // namespace longspan::testing
