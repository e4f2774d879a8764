// longspan compare when it is interrupted, the disk is full, memory is refused or a process is
// killed: what was measured stays.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "longspan/testing/failing.h"
#include "tests/cli/compare_cli.h"

namespace longspan::testing {
namespace compare_faults_cli_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CompareFaults : public CompareCli {};

// The processes that `parent` started.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream status(entry.path() / "status");
    pid_t id = 0;
    for (std::string word; status >> word;) {
      if (word == "Pid:") status >> id;
      if (word != "PPid:") continue;
      pid_t owner = 0;
      status >> owner;
      if (owner == parent) children.push_back(id);
      break;
    }
  }
  return children;
}

// Waits until it has that many, at most some seconds.
std::vector<pid_t> wait_for_children(pid_t parent, std::size_t count) {
  std::vector<pid_t> children;
  for (int i = 0; i < 500 && children.size() < count; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    children = children_of(parent);
  }
  return children;
}

TEST_F(CompareFaults, InterruptedKeepsWhatWasMeasured) {
  Process process(arguments({"--attention", "flash,linear", "--rounds", "200000", "--lengths",
                             "16,32", "--budget", "1h"}));
  // The first length would take forever: interrupt it within.
  ASSERT_EQ(wait_for_children(process.id(), 2).size(), 2);
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  expect_wrong_input(longspan(arguments({"--attention", "flash", "--overwrite"})),
                     fmt::format("compare.json is being written by process {} on ", process.id()));
  process.signal(SIGTERM);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.status, 128 + SIGTERM);
  EXPECT_THAT(outcome.err, HasSubstr("interrupted; go on with --add"));
  EXPECT_EQ(point(saved(), "flash", 16)["status"], "ok");
  EXPECT_EQ(point(saved(), "flash", 32)["status"], "skipped");
  EXPECT_THAT(outcome.out, HasSubstr("flash"));

  // What it says goes on with it, without its settings said again.
  const Outcome added =
      longspan({"compare", "--add", out(), "--threads", "1", "--rounds", "1", "--quiet"});
  EXPECT_EQ(added.status, 0) << added.err;
  const Json whole = saved();
  EXPECT_EQ(whole["points"].size(), 4);
  for (const char* name : {"flash", "linear"}) {
    EXPECT_EQ(point(whole, name, 32)["status"], "ok") << name;
  }
  for (const char* option : {"--batch", "--seed"}) {
    expect_wrong_input(longspan({"compare", "--add", out(), "--threads", "1", option, "2"}),
                       "were not measured alike");
  }
}

TEST_F(CompareFaults, AFullDiskCostsTheFileAndNothingElse) {
  const Outcome outcome =
      longspan(arguments({"--attention", "flash,window,local,bigbird", "--lengths", "16"}),
               {.file_limit = 12'000});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("the results were not saved"));
  EXPECT_THAT(outcome.out, HasSubstr("on this machine"));
  EXPECT_FALSE(std::filesystem::exists(out()));
}

TEST_F(CompareFaults, RefusedMemoryIsARow) {
  const Outcome outcome =
      longspan(arguments({"train", "--bare", "--attention", "linear,full", "--lengths", "64,8192"}),
               {.memory_limit = 550'000'000});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Json r = saved();
  EXPECT_EQ(point(r, "full", 64)["status"], "ok");
  const Json failed = point(r, "full", 8192);
  EXPECT_EQ(failed["status"], "failed") << failed;
  EXPECT_THAT(failed["reason"], HasSubstr("refused"));
  EXPECT_EQ(point(r, "linear", 8192)["status"], "ok");
}

TEST_F(CompareFaults, AKilledProcessIsARow) {
  Process process(arguments(
      {"--attention", "flash", "--rounds", "200000", "--lengths", "16", "--budget", "1h"}));
  const std::vector<pid_t> children = wait_for_children(process.id(), 1);
  ASSERT_EQ(children.size(), 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  kill(children[0], SIGKILL);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.status, 1) << "it was the only one";
  EXPECT_THAT(outcome.err, HasSubstr("every point failed; flash at n = 16: "));
  EXPECT_THAT(outcome.out, HasSubstr("nothing was measured"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("on this machine")));
  const Json p = point(saved(), "flash", 16);
  EXPECT_EQ(p["status"], "failed");
  EXPECT_THAT(p["reason"], HasSubstr("signal 9"));
}

// Wherever the disk is full, a call of the system fails or the process is killed, the record and its
// page are the old ones or new ones, whole.
TEST_F(CompareFaults, NoFaultOfTheDiskCostsTheRecord) {
  const Arguments usual =
      arguments({"--attention", "window", "--lengths", "16", "--rounds", "1", "--overwrite"});
  ASSERT_EQ(longspan(usual).status, 0);
  const std::string page = (scratch_ / "compare.html").string();
  const auto bytes =
      2 * static_cast<long>(std::filesystem::file_size(out()) + std::filesystem::file_size(page));
  for (const std::string how : {"full", "error", "kill"}) {
    int reached = 0;
    for (int cut = 0; cut < (how == "full" ? 64 : 24); ++cut) {
      Outcome outcome;
      {
        const Failing failing(how == "full" ? bytes * cut / 64 : 1 + cut, how.c_str());
        outcome = longspan(usual);
      }
      if (outcome.status != 0) ++reached;
      const int expected = how == "kill" ? 128 + SIGKILL : 1;
      EXPECT_TRUE(outcome.status == 0 || outcome.status == expected) << outcome.err;
      EXPECT_EQ(saved().at("format"), "longspan-compare") << how << " " << cut;
      EXPECT_THAT(read_bytes(page), ::testing::EndsWith("</html>\n")) << how << " " << cut;
    }
    EXPECT_GT(reached, 8) << how;
  }
}

// The same of what is made of a record.
TEST_F(CompareFaults, NoFaultOfTheDiskCostsThePage) {
  ASSERT_EQ(longspan(arguments({"--attention", "window", "--lengths", "16"})).status, 0);
  const std::string page = (scratch_ / "compare.html").string();
  const std::string record = read_bytes(out());
  const auto bytes = static_cast<long>(std::filesystem::file_size(page));
  for (const std::string how : {"full", "error", "kill"}) {
    int reached = 0;
    for (int cut = 0; cut < (how == "full" ? 64 : 8); ++cut) {
      Outcome outcome;
      {
        const Failing failing(how == "full" ? bytes * cut / 64 : 1 + cut, how.c_str());
        outcome = longspan({"compare", "--render", out(), "--overwrite"});
      }
      if (outcome.status != 0) ++reached;
      EXPECT_EQ(read_bytes(out()), record);
      EXPECT_THAT(read_bytes(page), ::testing::EndsWith("</html>\n")) << how << " " << cut;
    }
    EXPECT_GE(reached, 3) << how;
  }
}

// Memory that is refused once, or from then on, at 500 places of a comparison: a sentence, and the
// record that was there.
TEST_F(CompareFaults, RefusedMemoryIsASentence) {
  const Arguments usual =
      arguments({"--attention", "window", "--lengths", "16", "--rounds", "1", "--overwrite"});
  ASSERT_EQ(longspan(usual).status, 0);
  int refused = 0;
  for (int i = 0; i < 500; ++i) {
    Outcome outcome;
    {
      // The first ones one by one, then ever further apart, to the end of the program.
      const Failing failing(1 + i + i * i / 10, i % 2 == 0 ? "memory" : "no memory");
      outcome = longspan(usual);
    }
    ASSERT_TRUE(outcome.status == 0 || outcome.status == 1) << i << ": " << outcome.err;
    if (outcome.status == 1) {
      ++refused;
      EXPECT_THAT(outcome.err, HasSubstr("longspan: [")) << i;
    }
    EXPECT_EQ(saved().at("format"), "longspan-compare") << i;
  }
  EXPECT_GT(refused, 250);
}

}  // namespace compare_faults_cli_test
}  // namespace longspan::testing
