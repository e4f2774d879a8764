// A checkpoint is replaced as a whole or not at all, and so are records and calibrations: wherever the disk fails and whenever the
// process is killed, what is opened afterwards is the old state or the new one.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "longspan/io/checkpoint.h"
#include "longspan/io/json_file.h"
#include "longspan/testing/failing_disk.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace checkpoint_faults_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::FailingDisk;
using testing::Faults;
using testing::system_message_of;
using testing::TemporaryDirectory;

// The n-th state: weights and configuration are of one another.
void save(const fs::path& path, int n) {
  const std::vector<float> weights(static_cast<std::size_t>(n), static_cast<float>(n));
  const json config = {{"width", n}, {"name", std::string(static_cast<std::size_t>(n), 'x')}};
  save_checkpoint(path, config,
                  {.weights = {{"w", {weights.size()}, weights}}, .metadata = {{"step", "1"}}});
}

// Which state is there, as a whole; 0 when there is no checkpoint.
int state_of(const fs::path& path) {
  if (!checkpoint_exists(path)) return 0;
  const Checkpoint checkpoint(path);
  const int n = checkpoint.config().at("width");
  EXPECT_EQ(read_config(path), checkpoint.config());
  std::vector<float> weights(static_cast<std::size_t>(n));
  checkpoint.read_weights(std::vector<NamedTensor>{{"w", {weights.size()}, weights}});
  EXPECT_EQ(weights, std::vector<float>(weights.size(), static_cast<float>(n)));
  EXPECT_EQ(checkpoint.metadata(), (Metadata{{"step", "1"}}));
  return n;
}

Faults all_of_saving(int n) {
  const TemporaryDirectory scratch;
  const FailingDisk disk({});
  save(scratch / "run", n);
  return FailingDisk::done();
}

class CheckpointFaults : public ::testing::Test {
 protected:
  // A disk takes its time whenever one file replaces another; memory does not.
  static void SetUpTestSuite() {
    if (fs::is_directory("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", 0);
  }
  // What `break_it` does to a save of `next` over each of the states that a disk can be in.
  void replace(int next, const std::function<void(const fs::path&)>& break_it) {
    for (const int old : {0, 3, 4}) {
      const TemporaryDirectory scratch;
      const fs::path path = scratch / "run";
      {
        const FailingDisk quick({});
        if (old > 0) save(path, 3);
      }
      if (old == 4) {  // killed between its two files
        FailingDisk half({.renames = 1});
        EXPECT_NE(system_message_of([&] { save(path, 4); }), "");
      }
      ASSERT_EQ(state_of(path), old);
      break_it(path);
      const int now = state_of(path);
      ASSERT_TRUE(now == old || now == next) << now;
      const FailingDisk quick({});
      save(path, 7);
      ASSERT_EQ(state_of(path), 7);
    }
  }
  void fail(const Faults& faults, const std::string& reason) {
    replace(5, [&](const fs::path& path) {
      const FailingDisk disk(faults);
      const std::string message = system_message_of([&] { save(path, 5); });
      EXPECT_NE(message.find(reason), std::string::npos) << message;
    });
  }
};

TEST_F(CheckpointFaults, ADiskThatIsFullAfterAnyNumberOfBytes) {
  const std::size_t all = all_of_saving(5).bytes;
  ASSERT_GT(all, 200U);
  for (std::size_t bytes = 0; bytes < all; ++bytes) {
    SCOPED_TRACE(bytes);
    fail({.bytes = bytes}, "No space left on device");
    if (HasFatalFailure()) return;
  }
}

TEST_F(CheckpointFaults, ADeviceThatFailsToSyncOrToRename) {
  const Faults all = all_of_saving(5);
  ASSERT_EQ(all.renames, 2U);
  for (std::size_t n = 0; n < all.renames; ++n) fail({.renames = n}, "Input/output error");
  // Making the directory takes one that is not needed where it exists.
  for (std::size_t n = 0; n + 1 < all.fsyncs; ++n) fail({.fsyncs = n}, "Input/output error");
}

TEST_F(CheckpointFaults, AKillBeforeAnyCall) {
  const Faults all = all_of_saving(5);
  for (std::size_t calls = 0; calls <= all.calls; ++calls) {
    SCOPED_TRACE(calls);
    replace(5, [&](const fs::path& path) {
      const pid_t child = ::fork();
      if (child == 0) {
        const FailingDisk disk({.calls = calls});
        save(path, 5);
        ::_exit(0);
      }
      ::waitpid(child, nullptr, 0);
    });
    if (HasFatalFailure()) return;
  }
}

TEST_F(CheckpointFaults, SignalsInterruptNothing) {
  const TemporaryDirectory scratch;
  const FailingDisk disk({.interrupted = true});
  save(scratch / "run", 5);
  EXPECT_EQ(state_of(scratch / "run"), 5);
}

// What the sentence says is so: the file that it names is the old one.
TEST_F(CheckpointFaults, TheSentenceIsTrue) {
  const TemporaryDirectory scratch;
  const fs::path path = scratch / "run";
  save(path, 3);
  {
    const FailingDisk disk({.bytes = 10});
    const std::string message = system_message_of([&] { save(path, 5); });
    EXPECT_EQ(message, "[safetensors] " + (path / "model.safetensors").string() +
                           " could not be written: No space left on device; the previous file is "
                           "untouched");
  }
  EXPECT_EQ(state_of(path), 3);
}

// Records of comparisons and calibrations, which take a minute to make.
TEST_F(CheckpointFaults, JsonIsTheOldOrTheNewOne) {
  const TemporaryDirectory scratch;
  const fs::path path = scratch / "record.json";
  const json old = {{"points", {1, 2, 3}}};
  const json fresh = {{"points", {4, 5}}, {"machine", std::string(100, 'm')}};
  Faults all;
  {
    const FailingDisk disk({});
    write_json(path, fresh);
    all = FailingDisk::done();
  }
  std::vector<Faults> faults;
  for (std::size_t n = 0; n < all.bytes; ++n) faults.push_back({.bytes = n});
  for (std::size_t n = 0; n < all.fsyncs; ++n) faults.push_back({.fsyncs = n});
  for (std::size_t n = 0; n < all.renames; ++n) faults.push_back({.renames = n});
  EXPECT_GT(faults.size(), 100U);
  for (const Faults& fault : faults) {
    {
      const FailingDisk quick({});
      write_json(path, old);
    }
    {
      const FailingDisk disk(fault);
      EXPECT_NE(system_message_of([&] { write_json(path, fresh); }), "");
    }
    const json now = read_json(path);
    EXPECT_TRUE(now == old || now == fresh) << now;
  }
}

}  // namespace checkpoint_faults_test
}  // namespace longspan
