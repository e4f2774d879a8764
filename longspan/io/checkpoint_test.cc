#include "longspan/io/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace checkpoint_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::message_of;
using testing::read_bytes;
using testing::system_message_of;
using testing::TemporaryDirectory;
using testing::write_bytes;

const json kConfig = {{"width", 4}, {"rate", 0.1F}, {"vocabulary", {10, 32, 233}}};

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointState state() const {
    return {.weights = {{"embedding", {2, 3}, embedding_}, {"bias", {3}, bias_}},
            .optimizer = {first_, second_},
            .metadata = {{"step", "7"}, {"rule", "bp"}}};
  }
  void save() const { save_checkpoint(path_, kConfig, state()); }
  std::string complaint() const {
    return message_of([&] { Checkpoint{path_}; });
  }

  TemporaryDirectory directory_;
  fs::path path_ = directory_ / "runs/one";
  std::string model_ = "[checkpoint] " + (path_ / "model.safetensors").string() + ": ";
  std::vector<float> embedding_{1, 2, 3, 4, 5, 6};
  std::vector<float> bias_{7, 8, 9};
  std::vector<float> first_ = std::vector<float>(9, 0.5F);
  std::vector<float> second_ = std::vector<float>(9, 0.25F);
};

TEST_F(CheckpointTest, RoundTrip) {
  EXPECT_FALSE(checkpoint_exists(path_));
  save();
  EXPECT_TRUE(checkpoint_exists(path_));
  const Checkpoint checkpoint(path_);
  EXPECT_EQ(checkpoint.config(), kConfig);
  EXPECT_EQ(checkpoint.metadata(), (Metadata{{"step", "7"}, {"rule", "bp"}}));
  EXPECT_EQ(checkpoint.integer("step"), 7);
  EXPECT_EQ(checkpoint.text("rule"), "bp");
  std::vector<float> embedding(6);
  std::vector<float> bias(3);
  checkpoint.read_weights(
      std::vector<NamedTensor>{{"bias", {3}, bias}, {"embedding", {2, 3}, embedding}});
  EXPECT_EQ(embedding, embedding_);
  EXPECT_EQ(bias, bias_);
  std::vector<float> first(9);
  std::vector<float> second(9);
  EXPECT_EQ(checkpoint.optimizer_blocks(), 2U);
  checkpoint.read_optimizer(std::vector<std::span<float>>{first, second});
  EXPECT_EQ(first, first_);
  EXPECT_EQ(second, second_);
}

TEST_F(CheckpointTest, SavingAgainReplaces) {
  save();
  const auto written = fs::last_write_time(path_ / "config.json");
  bias_[0] = 42;
  save();
  EXPECT_EQ(fs::last_write_time(path_ / "config.json"), written);
  std::vector<float> bias(3);
  Checkpoint(path_).read_into("bias", {3}, bias);
  EXPECT_EQ(bias[0], 42);
  // Another configuration replaces both.
  save_checkpoint(path_, {{"width", 5}}, state());
  EXPECT_EQ(Checkpoint(path_).config(), json({{"width", 5}}));
}

TEST_F(CheckpointTest, MissingParts) {
  const std::string shown = path_.string();
  const std::string need = "; need a directory with config.json and model.safetensors";
  EXPECT_EQ(complaint(), "[checkpoint] " + shown + " does not exist" + need);
  write_bytes(directory_ / "file", "x");
  EXPECT_EQ(message_of([&] { Checkpoint{directory_ / "file"}; }),
            "[checkpoint] " + (directory_ / "file").string() + " is a file" + need);
  save();
  fs::remove(path_ / "model.safetensors");
  EXPECT_EQ(complaint(), "[checkpoint] " + shown + " has no model.safetensors" + need);
  save();
  fs::remove(path_ / "config.json");
  EXPECT_EQ(complaint(), "[checkpoint] " + shown + " has no config.json" + need);
}

TEST_F(CheckpointTest, OtherModel) {
  save();
  const Checkpoint checkpoint(path_);
  std::vector<float> room(6, -1.0F);
  const std::span<float> three = std::span(room).first(3);
  const auto read = [&](const std::vector<NamedTensor>& tensors) {
    return message_of([&] { checkpoint.read_weights(tensors); });
  };
  EXPECT_EQ(read({{"embedding", {2, 3}, room}, {"bias", {3}, three}, {"gain", {3}, three}}),
            model_ + "has no tensor 'gain' of shape [3]; the model needs it");
  EXPECT_EQ(read({{"embedding", {2, 3}, room}}),
            model_ + "has a tensor 'bias' of shape [3]; the model has none of that name");
  EXPECT_EQ(read({{"embedding", {2, 3}, room}, {"bias", {1, 3}, three}}),
            model_ + "tensor 'bias' has the shape [3]; the model needs [1, 3]");
  EXPECT_EQ(room, std::vector<float>(6, -1.0F)) << "nothing is read before all is checked";

  const std::vector<std::span<float>> one{room};
  EXPECT_EQ(message_of([&] { checkpoint.read_optimizer(one); }),
            model_ + "has 2 blocks of optimiser state; this optimiser needs 1");
  const std::vector<std::span<float>> short_blocks{room, room};
  EXPECT_EQ(message_of([&] { checkpoint.read_optimizer(short_blocks); }),
            "[safetensors] " + (path_ / "model.safetensors").string() +
                ": tensor 'optimizer.0' has the shape [9]; need [6]");
  EXPECT_EQ(message_of([&] { checkpoint.text("seed"); }), model_ + "has no 'seed' in its metadata");
  EXPECT_EQ(message_of([&] { checkpoint.integer("rule"); }),
            model_ + "rule is 'bp'; need a whole number");
}

TEST_F(CheckpointTest, OtherConfig) {
  save();
  const std::string config = (path_ / "config.json").string();
  json changed = kConfig;
  write_bytes(config, changed.dump());
  EXPECT_EQ(complaint(), "") << "layout does not matter";
  changed["width"] = 8;
  write_bytes(config, changed.dump());
  EXPECT_EQ(complaint(), "[checkpoint] " + config +
                             " does not belong to model.safetensors: /width is 8 but was 4 when "
                             "that was saved");
  changed.erase("width");
  write_bytes(config, changed.dump());
  EXPECT_EQ(complaint(), "[checkpoint] " + config +
                             " does not belong to model.safetensors: /width is missing but was 4 "
                             "when that was saved");
  write_bytes(config, "{\"width\": ");
  EXPECT_EQ(complaint(), "[json] " + config +
                             ": line 1, column 11: syntax error while parsing value - unexpected "
                             "end of input; need valid JSON");
}

// No single bit of the file can change unseen, wherever it is.
TEST_F(CheckpointTest, EveryFlippedBitIsFound) {
  save();
  const fs::path path = path_ / "model.safetensors";
  const std::string good = read_bytes(path);
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    write_bytes(path, bad);
    ASSERT_NE(complaint(), "") << "bit " << bit;
  }
}

TEST_F(CheckpointTest, EveryTruncationIsFound) {
  save();
  const fs::path path = path_ / "model.safetensors";
  const std::string good = read_bytes(path);
  for (std::size_t size = 0; size < good.size(); ++size) {
    write_bytes(path, good.substr(0, size));
    ASSERT_NE(complaint().find("the file is truncated"), std::string::npos) << size << complaint();
  }
}

TEST_F(CheckpointTest, ReservedNames) {
  CheckpointState bad = state();
  bad.weights[0].name = "optimizer.0";
  const std::string where = "[checkpoint] " + path_.string() + ": ";
  EXPECT_EQ(message_of([&] { save_checkpoint(path_, kConfig, bad); }),
            where + "the name 'optimizer.0' is taken");
  bad = state();
  bad.metadata["config"] = "x";
  EXPECT_EQ(message_of([&] { save_checkpoint(path_, kConfig, bad); }),
            where + "the metadata key 'config' is taken");
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(CheckpointTest, AFailingSaveLeavesTheOldCheckpoint) {
  save();
  save();  // of the size that the next one has: only the first says that it found no config.json
  const std::string before = read_bytes(path_ / "model.safetensors");
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = before.size() - 1, .rlim_max = before.size() - 1};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    bias_[0] = 42;
    const std::string message = system_message_of([&] { save(); });
    ::_exit(message == "[safetensors] " + (path_ / "model.safetensors").string() +
                           " could not be written: File too large; the previous file is untouched"
                ? 0
                : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_bytes(path_ / "model.safetensors"), before);
  EXPECT_EQ(complaint(), "");
}

// Whenever the writer dies, what is there is one of the states it saved.
TEST_F(CheckpointTest, KilledWhileSaving) {
  std::vector<float> large(50'000);
  for (int round = 0; round < 20; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int step = 0;; ++step) {
        std::ranges::fill(large, static_cast<float>(step));
        save_checkpoint(path_, kConfig,
                        {.weights = {{"w", {large.size()}, large}},
                         .optimizer = {},
                         .metadata = {{"step", std::to_string(step)}}});
      }
    }
    ::usleep(static_cast<useconds_t>(1000 + 1777 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    if (!checkpoint_exists(path_)) continue;
    const Checkpoint checkpoint(path_);
    std::vector<float> read(large.size());
    checkpoint.read_into("w", {read.size()}, read);
    EXPECT_EQ(read,
              std::vector<float>(read.size(), static_cast<float>(checkpoint.integer("step"))));
    EXPECT_LE(std::distance(fs::directory_iterator(path_), fs::directory_iterator()), 3);
  }
  EXPECT_TRUE(checkpoint_exists(path_));
}

TEST_F(CheckpointTest, ADirectoryThatCannotBeMade) {
  write_bytes(directory_ / "file", "x");
  const std::string message =
      system_message_of([&] { save_checkpoint(directory_ / "file/run", kConfig, state()); });
  EXPECT_EQ(message, "[checkpoint] the directory " + (directory_ / "file/run").string() +
                         " could not be made: Not a directory");
}

}  // namespace checkpoint_test
}  // namespace longspan
