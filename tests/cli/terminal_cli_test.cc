// What is printed fits the reader's terminal, in columns and in letters.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "longspan/testing/command_line.h"

namespace longspan::testing {
namespace terminal_cli_test {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

// One of every table that needs no measuring.
const std::vector<Words> kTables = {
    {"list"},
    {"list", "performer"},
    {"list", "improved-clustered"},
    {"list", "bert-base"},
    {"list", "text"},
    {"cost", "--model", "bert-base"},
    {"cost", "--model", "gpt3-175b", "--tokens", "300e9", "--view", "all"},
    {"cost", "--model", "bert-large", "--by", "phase", "--view", "all"},
    {"cost", "--model", "gpt2", "--diff", "attention=flash"},
    {"cost", "--model", "llama-2-7b", "--length", "128", "--as", "fvcore"},
    {"cost", "--encoder-layers", "1", "--d-model", "64", "--heads", "4", "--vocab", "1000",
     "--length", "128", "--formula", "--view", "all"},
    {"cost", "--model", "distilbert", "--head", "lm", "--solve"},
    {"cost", "--model", "gpt2", "--solve", "length", "--memory", "16GiB"},
    {"cost", "--scaling"},
    {"cost", "--decoder-layers", "1", "--d-model", "32", "--heads", "2", "--vocab", "50",
     "--length", "16", "--verify"},
    {"pattern", "bigbird", "--length", "300"},
    {"pattern", "full"},
    {"plan", "--parameters", "1e9", "--tokens", "20e9", "--device", "a100-80gb"},
    {"plan", "--list"},
    {"--help"},
    {"help", "compare"},
    {"cost", "--help"},
    {"train", "text", "--help"},
};

TEST(Terminal, TablesFitItsColumns) {
  for (const std::size_t width : {60U, 80U, 110U}) {
    for (const Words& words : kTables) {
      const Outcome outcome =
          longspan(words, {.environment = {{"COLUMNS", std::to_string(width)}}});
      SCOPED_TRACE(::testing::PrintToString(words));
      ASSERT_EQ(outcome.status, 0) << outcome.err;
      expect_fits(outcome.out, width);
    }
  }
}

TEST(Terminal, IsEightyColumnsWideWhenUnknown) {
  for (const char* columns : {"", "0", "wide", "-5"}) {
    const Outcome outcome = longspan({"list"}, {.environment = {{"COLUMNS", columns}}});
    EXPECT_EQ(outcome.out, longspan({"list"}, {.environment = {{"COLUMNS", "80"}}}).out);
  }
}

bool is_ascii(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80U; });
}

TEST(Terminal, GetsAsciiWhereTheLocaleHasNoMore) {
  const RunOptions plain = {.environment = {{"LC_ALL", "C"}, {"COLUMNS", "80"}}};
  for (const Words& words : kTables) {
    const Outcome outcome = longspan(words, plain);
    SCOPED_TRACE(::testing::PrintToString(words));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(is_ascii(outcome.out)) << outcome.out;
    expect_fits(outcome.out, 80);
  }
  EXPECT_THAT(longspan({"list"}, plain).out, HasSubstr("O(n^2)"));
  // On standard error, and in a locale that the first variables decide.
  const RunOptions latin = {.environment = {{"LC_ALL", ""}, {"LC_CTYPE", "de_DE.ISO-8859-1"}}};
  const Outcome wrong = longspan({"list", "bigbrd…"}, latin);
  EXPECT_EQ(wrong.status, 2);
  EXPECT_TRUE(is_ascii(wrong.err)) << wrong.err;
}

TEST(Terminal, LeavesWhatIsForProgramsAlone) {
  for (const Words& words : std::vector<Words>{
           {"list", "--json"}, {"list", "bigbird", "--json"}, {"cost", "--scaling", "--json"}}) {
    EXPECT_EQ(longspan(words, {.environment = {{"LC_ALL", "C"}, {"COLUMNS", "30"}}}).out,
              longspan(words).out);
  }
  EXPECT_THAT(longspan({"list", "--json"}, {.environment = {{"LC_ALL", "C"}}}).out,
              HasSubstr("O(n²)"));
}

TEST(Terminal, LeavesGeneratedTextAlone) {
  const TemporaryDirectory scratch;
  const std::string text = (scratch / "text").string();
  std::string dots;
  for (int i = 0; i < 300; ++i) dots += "…–×";
  write_bytes(text, dots);
  const std::string model = (scratch / "model").string();
  ASSERT_EQ(longspan({"train",     "text", "--data",       text, "--out",   model, "--steps",  "2",
                      "--layers",  "1",    "--heads",      "1",  "--batch", "2",   "--length", "8",
                      "--d-model", "8",    "--eval-every", "0",  "--quiet"})
                .status,
            0);
  const Words words = {"generate", model, "--prompt", "…–×", "--tokens", "9", "--quiet"};
  const std::string written = longspan(words).out;
  EXPECT_THAT(written, HasSubstr("…–×"));
  EXPECT_EQ(longspan(words, {.environment = {{"LC_ALL", "C"}}}).out, written);
}

// What the program writes to a terminal of so many columns, with `environment` before it.
std::string on_terminal(const std::string& environment, int columns, const Words& words) {
  const TemporaryDirectory scratch;
  write_bytes(scratch / "terminal.py", R"(import fcntl, os, pty, struct, sys, termios
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', 24, int(sys.argv[2]), 0, 0))
    os.execvp(sys.argv[3], sys.argv[3:])
with open(sys.argv[1], 'wb') as out:
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:
            break
        if not part: break
        out.write(part)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
)");
  std::string command = fmt::format(
      "env -u COLUMNS -u NO_COLOR TERM=xterm {} python3 '{}' '{}' {} '{}/longspan'", environment,
      (scratch / "terminal.py").string(), (scratch / "out").string(), columns, LONGSPAN_BINARY_DIR);
  for (const std::string& word : words) command += " '" + word + "'";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  return read_bytes(scratch / "out");
}

TEST(Terminal, HasItsOwnWidthAndColours) {
  const Words window = {"pattern", "window:window=4", "--length", "60"};
  const std::string coloured = on_terminal("LC_ALL=C.UTF-8", 40, window);
  EXPECT_THAT(coloured, HasSubstr("sampled: 40 of 60 tokens"));
  EXPECT_THAT(coloured, HasSubstr("\x1b[44m "));
  for (const char* refusal : {"NO_COLOR=1", "TERM=dumb"}) {
    EXPECT_THAT(on_terminal(fmt::format("LC_ALL=C.UTF-8 {}", refusal), 40, window),
                ::testing::Not(HasSubstr("\x1b")))
        << refusal;
  }
}

TEST(Terminal, TheProgressLineFitsIt) {
  for (const int columns : {40, 100}) {
    for (const bool unicode : {true, false}) {
      const TemporaryDirectory scratch;
      Words words = small_training((scratch / "model").string());
      std::erase(words, "--quiet");
      const std::string said = on_terminal(unicode ? "LC_ALL=C.UTF-8" : "LC_ALL=C", columns, words);
      ASSERT_THAT(said, HasSubstr("\r\x1b[K"));
      EXPECT_EQ(is_ascii(said), !unicode || columns == 40) << said;  // there, no bar
      int lines = 0;
      for (std::size_t at = 0; (at = said.find("\r\x1b[K", at)) != std::string::npos;) {
        at += 4;
        const std::string line = said.substr(at, said.find_first_of("\r\n", at) - at);
        if (line.find("/8 ") == std::string::npos) continue;  // not of the 8 steps
        ++lines;
        expect_fits(line, static_cast<std::size_t>(columns));
      }
      EXPECT_GT(lines, 0);
    }
  }
}

// Every sign that the program prints has words in ASCII: a new one in a text is found here.
TEST(Terminal, KnowsItsSigns) {
  const std::filesystem::path source = LONGSPAN_SOURCE_DIR;
  const std::string known = read_bytes(source / "apps/cli/terminal.cc");
  std::set<std::string> unknown;
  for (const char* folder : {"apps/cli", "longspan"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(source / folder)) {
      const std::filesystem::path& path = entry.path();
      const bool code = path.extension() == ".cc" || path.extension() == ".h";
      if (!code || path.stem().string().ends_with("_test") ||
          path.parent_path().filename() == "testing") {
        continue;
      }
      std::istringstream lines(read_bytes(path));
      for (std::string line; std::getline(lines, line);) {
        line = line.substr(0, line.find("//"));
        for (std::size_t at = 0; at < line.size();) {
          std::size_t size = 1;
          while (at + size < line.size() &&
                 (static_cast<unsigned char>(line[at + size]) & 0xC0U) == 0x80U) {
            ++size;
          }
          const std::string letter = line.substr(at, size);
          if (size > 1 && known.find("{\"" + letter + "\"") == std::string::npos) {
            unknown.insert(letter + " in " + path.string());
          }
          at += size;
        }
      }
    }
  }
  EXPECT_THAT(unknown, ::testing::IsEmpty());
}

}  // namespace terminal_cli_test
}  // namespace longspan::testing
