#include "longspan/training/run_directory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "longspan/testing/failing_disk.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace run_directory_test {

using testing::message_of;
using testing::TemporaryDirectory;

RunConfig small_run() {
  RunConfig config;
  config.data.task = "copy";
  config.options = {{"length", "8"}, {"symbols", "5"}};
  config.model.layers = 1;
  config.model.d_model = 8;
  config.model.heads = 2;
  config.model.vocab = 6;
  config.model.max_length = 8;
  return config;
}

struct SmallRun {
  explicit SmallRun(const RunConfig& config_) : config(config_), model(config.model) {
    model.allocate(1);
    trainer = std::make_unique<Trainer>(model, config.train);
  }
  void step() {
    BatchMemory memory;
    const auto task = config.make_task();
    const Batch batch = task->training_batch(1, trainer->steps(), 2, memory);
    trainer->step({&batch, 1});
  }

  RunConfig config;
  Model model;
  std::unique_ptr<Trainer> trainer;
};

TEST(RunDirectory, ComesBackAsItWas) {
  const TemporaryDirectory scratch;
  SmallRun run(small_run());
  run.step();
  Patience patience;
  patience.improved(0.1, 1);
  patience.improved(0.3, 2);
  save(scratch.path(), run.config, run.model, *run.trainer, patience);
  run.step();

  SmallRun again(small_run());
  Patience restored;
  restore(scratch.path(), again.model, *again.trainer, restored);
  EXPECT_EQ(restored.best, 0.1);
  EXPECT_EQ(restored.best_step, 1U);
  EXPECT_EQ(restored.waited, 1U);
  EXPECT_EQ(again.trainer->steps(), 1U);
  again.step();
  EXPECT_TRUE(
      std::ranges::equal(again.model.parameters().values(), run.model.parameters().values()));

  const LoadedRun loaded = load_run(scratch.path());
  EXPECT_EQ(loaded.step, 1U);
  EXPECT_EQ(loaded.config.model, run.config.model);
  EXPECT_EQ(loaded.config.options.at("symbols"), "5");
  EXPECT_EQ(loaded.config.make_task()->needs().vocabulary, 6U);
}

TEST(RunDirectory, KeepsWhatTheTaskLearned) {
  RunConfig config = small_run();
  config.data.task = "events";
  config.options = {{"length", "8"}};
  config.model.vocab = 3;
  config.learned = {{"types", "2"}, {"unit", "0.5"}, {"longest", "4"}, {"checksum", "ab"}};
  config.model.classes = 2;
  config.classes = {"cat", "dog"};
  const nlohmann::json usual = to_json(config);
  const RunConfig again = run_config_from(usual, "run");
  EXPECT_EQ(again.learned, config.learned);
  EXPECT_EQ(again.classes, config.classes);
  nlohmann::json earlier = usual;
  earlier.erase("learned");
  earlier.erase("classes");
  EXPECT_TRUE(run_config_from(earlier, "run").classes.empty());
  const auto why = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json forged = usual;
    forged[key] = value;
    return message_of([&] { run_config_from(forged, "run"); });
  };
  const std::string classes = "[checkpoint] run: 'classes' in config.json ";
  const std::string unreadable =
      classes + "cannot be read; need the names of the model's 2 classes";
  EXPECT_EQ(why("classes", {"cat"}), unreadable);
  EXPECT_EQ(why("classes", {"cat", 1}), unreadable);
  EXPECT_EQ(why("classes", "cat"), unreadable);
  EXPECT_EQ(why("classes", {"cat", "cat"}), classes + "has a name twice; need each once");
  EXPECT_EQ(why("learned", {{"types", 2}}),
            "[checkpoint] run: 'learned' in config.json cannot be read; need texts by name");
  EXPECT_EQ(why("learned", {{"types", "9"}, {"unit", "1"}, {"longest", "1"}}),
            "[checkpoint] run: what was learned has 10 tokens; the model 3");
}

// The same weights in another order: their names say nothing, so the averages would be taken for
// those of other parameters.
TEST(RunDirectory, AnotherOrderOfParametersIsRefused) {
  const TemporaryDirectory scratch;
  SmallRun run(small_run());
  save(scratch.path(), run.config, run.model, *run.trainer, {});
  {
    const Checkpoint checkpoint(scratch.path());
    CheckpointState state;
    for (const Parameter& p : run.model.parameters().all()) {
      state.weights.push_back({p.name, p.shape(), p.value});
    }
    for (const auto& block : run.trainer->optimizer().state()) state.optimizer.emplace_back(block);
    state.metadata = checkpoint.metadata();
    std::string& order = state.metadata.at("parameter_order");
    const std::size_t second = order.find('\n') + 1;
    const std::size_t third = order.find('\n', second) + 1;
    const std::string swapped =
        order.substr(second, third - second) + order.substr(0, second) + order.substr(third);
    const nlohmann::json config = checkpoint.config();
    order = swapped;
    save_checkpoint(scratch / "swapped", config, state);
    state.metadata.erase("parameter_order");
    save_checkpoint(scratch / "old", config, state);
  }
  Patience patience;
  const std::string message =
      message_of([&] { restore(scratch / "swapped", run.model, *run.trainer, patience); });
  EXPECT_NE(message.find("the optimiser's averages have '"), std::string::npos) << message;
  EXPECT_NE(message.find("need the order of parameters that it was saved with"), std::string::npos);
  EXPECT_EQ(message_of([&] { restore(scratch / "old", run.model, *run.trainer, patience); }), "");
  EXPECT_EQ(load_run(scratch / "swapped").step, 0U) << "weights are found by name";
}

// A checkpoint as save writes it, checksum included, whose configuration says something else.
void forge(const std::filesystem::path& to, SmallRun& run, const nlohmann::json& model) {
  CheckpointState state;
  for (const Parameter& p : run.model.parameters().all()) {
    state.weights.push_back({p.name, p.shape(), p.value});
  }
  for (const auto& block : run.trainer->optimizer().state()) state.optimizer.emplace_back(block);
  state.metadata = {{"step", "0"}};
  nlohmann::json config = to_json(run.config);
  config["model"].update(model);
  const testing::FailingDisk quick({});  // nothing waits for the real disk
  save_checkpoint(to, config, state);
}

// A checksum says that a file is as somebody wrote it, not that they meant well: whatever the sizes
// in it, and before any memory is taken for them, it is a sentence.
TEST(RunDirectory, ForgedSizesAreRefused) {
  const TemporaryDirectory scratch;
  SmallRun run(small_run());
  constexpr std::array<std::size_t, 5> kForged = {std::size_t{0} - 1, (std::size_t{1} << 61U) + 1,
                                                  std::size_t{1} << 61U, std::size_t{1} << 40U,
                                                  (std::size_t{1} << 38U) + 8};
  const nlohmann::json usual = to_json(run.config)["model"];
  std::size_t tried = 0;
  for (const char* positions : {"learned", "rotary", "sinusoidal", "axial"}) {
    for (const auto& [field, value] : usual.items()) {
      if (!value.is_number_unsigned()) continue;
      for (const std::size_t forged : kForged) {
        forge(scratch / "forged", run, {{"positions", positions}, {field, forged}});
        EXPECT_NE(message_of([&] { load_run(scratch / "forged"); }), "") << field << " " << forged;
        ++tried;
      }
    }
  }
  EXPECT_GT(tried, 100U);
}

// As large as the configuration says, or it is not read: no memory is taken for the difference.
TEST(RunDirectory, WeightsThatTheConfigurationHasNotAreRefusedFirst) {
  const TemporaryDirectory scratch;
  SmallRun run(small_run());
  forge(scratch / "forged", run, {{"d_model", std::size_t{1} << 20U}});
  const std::string refusal = message_of([&] { load_run(scratch / "forged"); });
  EXPECT_NE(refusal.find("the model needs [6, 1048576]"), std::string::npos) << refusal;
  Model large({.layers = 1, .d_model = std::size_t{1} << 20U, .heads = 2});
  EXPECT_NE(message_of([&] { check_weights(scratch / "forged", large); }), "");
  EXPECT_FALSE(large.parameters().allocated());
}

// What version 0.1 wrote.
TEST(RunDirectory, OpensEarlierConfigurations) {
  nlohmann::json text = to_json(small_run());
  text["model"].erase("loss");
  text["model"]["vocab"] = 256U;
  text["data"] = {{"task", "text"}, {"data", "a.txt"},  {"checksum", "12"}, {"length", 32U},
                  {"batch", 3U},    {"accumulate", 2U}, {"patch", 4U}};
  text["vocabulary"] = {{"kind", "bytes"}, {"code_points", nlohmann::json::array()}};
  const RunConfig run = run_config_from(text, "here");
  EXPECT_EQ(run.options,
            (TaskOptions{{"data", "a.txt"}, {"length", "32"}, {"vocabulary", "bytes"}}));
  EXPECT_EQ(run.data.batch, 3U);
  EXPECT_EQ(run.data.batches_per_update, 2U);
  EXPECT_EQ(run.model.loss, "cross-entropy");
  EXPECT_EQ(run.make_task()->options().at("length"), "32");

  nlohmann::json without = text;
  without["vocabulary"]["kind"] = "none";
  EXPECT_EQ(message_of([&] { run_config_from(without, "here"); }),
            "[checkpoint] here: the task text and no vocabulary; need what it was trained with");

  text["data"]["task"] = "images";
  text["model"]["family"] = "encoder";
  EXPECT_EQ(run_config_from(text, "here").options,
            (TaskOptions{{"data", "a.txt"}, {"patch", "4"}, {"model", "encoder"}}));
  text["data"]["frobnicate"] = 1;
  EXPECT_NE(message_of([&] { run_config_from(text, "here").make_task(); }).find("frobnicate"),
            std::string::npos);
}

TEST(RunDirectory, FindsTheDataOfARun) {
  const TemporaryDirectory scratch;
  const std::filesystem::path there = scratch / "there.txt";
  testing::write_bytes(there, "text");
  RunConfig run;
  run.data.task = "text";
  const auto found = [&](const std::string& typed, const std::string& path) {
    RunConfig config = run;
    config.options["data"] = typed;
    config.data.data_path = path;
    config.find_data();
    return config.options["data"];
  };
  EXPECT_EQ(found("gone.txt", there.string()), there.string());
  EXPECT_EQ(found(there.string(), there.string()), there.string());
  EXPECT_EQ(found(there.string(), "/gone/there.txt"), there.string());
  const std::string dotted = (scratch / "." / "there.txt").string();
  EXPECT_EQ(found(dotted, there.string()), dotted) << "as it was typed, where it is the same";
  const std::filesystem::path other = scratch / "other.txt";
  testing::write_bytes(other, "another text");
  EXPECT_EQ(found(other.string(), there.string()), there.string());
  EXPECT_EQ(message_of([&] { found("gone.txt", "/gone/there.txt"); }),
            "[data] gone.txt is not here, and /gone/there.txt is gone; need --data");
  EXPECT_EQ(message_of([&] { found("gone.txt", ""); }), "[data] gone.txt is not here; need --data");
  EXPECT_EQ(found("", ""), "");
}

TEST(Patience, CountsEvaluationsThatAreNoBetter) {
  Patience patience;
  EXPECT_TRUE(patience.improved(2.0, 10));
  EXPECT_FALSE(patience.improved(2.0, 20));
  EXPECT_FALSE(patience.improved(3.0, 30));
  EXPECT_EQ(patience.waited, 2U);
  EXPECT_TRUE(patience.improved(1.0, 40));
  EXPECT_EQ(patience.waited, 0U);
  EXPECT_EQ(patience.best_step, 40U);
}

TEST(Patience, ALossThatIsNoNumberIsNeverTheBest) {
  Patience patience;
  EXPECT_FALSE(patience.improved(std::nan(""), 10));
  EXPECT_FALSE(patience.best);
  EXPECT_EQ(patience.waited, 1U);
  EXPECT_TRUE(patience.improved(2.0, 20));
  EXPECT_FALSE(patience.improved(std::nan(""), 30));
  EXPECT_EQ(patience.best, 2.0);
}

}  // namespace run_directory_test
}  // namespace longspan
