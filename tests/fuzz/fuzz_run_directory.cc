// Trained models: config.json and model.safetensors are loaded, resumed and made to write.
//
// As bytes: how long config.json is (2 bytes, little-endian), config.json, model.safetensors.
#include <filesystem>

#include "longspan/io/json_file.h"
#include "longspan/testing/temporary_directory.h"
#include "longspan/training/run_directory.h"
#include "longspan/training/writer.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/fuzz/tensors_file.h"
#include "tests/fuzz/tree.h"

namespace longspan::fuzz {

namespace {

constexpr std::size_t kMostCache = std::size_t{16} << 20U;  // bytes

// config.json, the header and the data of a sound run.
struct RunFiles {
  nlohmann::json tree;  // {"config": …, "header": …}
  std::string data;
};

RunConfig symbol_run() {
  RunConfig config;
  config.data.task = "copy";
  config.options = {{"length", "8"}, {"symbols", "5"}};
  config.model.vocab = 6;
  config.model.attention = "linformer:k=2|flash";
  return config;
}

RunConfig text_run() {
  RunConfig config;
  config.vocabulary = Vocabulary::characters({10, 32, 97, 98, 0xE9});
  config.model.vocab = 5;
  config.model.positions = PositionKind::kRotary;
  config.model.attention = "performer:features=4";
  return config;
}

RunConfig image_run() {
  RunConfig config;
  config.data.task = "images";
  config.options = {{"model", "mlp"}};
  config.model.family = Family::kPerceptron;
  config.model.head = HeadKind::kClassifier;
  config.model.inputs = 6;
  config.model.classes = 3;
  return config;
}

RunFiles saved(RunConfig config) {
  config.model.layers = 2;
  config.model.d_model = 4;
  config.model.heads = 2;
  config.model.max_length = 8;
  Model model(config.model);
  model.allocate(1);
  Trainer trainer(model, config.train);
  const std::filesystem::path directory = scratch() / "sound";
  save(directory, config, model, trainer, {});
  const TensorsFile file = split_tensors(testing::read_bytes(directory / "model.safetensors"));
  std::filesystem::remove_all(directory);
  RunFiles files{{{"header", file.header}}, file.data};
  // Once: what is edited in it is so in both places.
  nlohmann::json& about = files.tree["header"]["__metadata__"];
  files.tree["config"] = nlohmann::json::parse(about["config"].get<std::string>());
  about.erase("config");
  about.erase("replaced_config");
  return files;
}

void write_edited(const std::filesystem::path& directory, Bytes input) {
  static const std::vector<RunFiles> runs = {saved(symbol_run()), saved(text_run()),
                                             saved(image_run())};
  Steering steer = steering(input);
  const RunFiles& run = runs[steer.below(runs.size())];
  const nlohmann::json tree = edited(run.tree, steer);
  if (!tree.is_object() || !tree.contains("config") || !tree.contains("header")) return;
  const std::string config = json_text(tree["config"]);
  TensorsFile file{tree["header"], run.data};
  if (file.header.is_object() && file.header.contains("__metadata__") &&
      file.header["__metadata__"].is_object()) {
    file.header["__metadata__"]["config"] = config;
  }
  testing::write_bytes(directory / "config.json", config);
  testing::write_bytes(directory / "model.safetensors", join_tensors(file));
}

void write_plain(const std::filesystem::path& directory, Bytes input) {
  Steering steer(input);
  const std::size_t length = std::min<std::size_t>(steer.take(2), input.size());
  const std::string_view rest = text_of(input.subspan(std::min<std::size_t>(2, input.size())));
  testing::write_bytes(directory / "config.json", rest.substr(0, length));
  testing::write_bytes(directory / "model.safetensors", rest.substr(std::min(length, rest.size())));
}

void write_tokens(Model& model, const Task& task, std::string_view prompt) {
  std::vector<std::int32_t> tokens = task.encode(prompt);
  const std::size_t most = model.config().max_length;
  if (model.decodes() && model.cache_bytes(1, most, tokens.size()) > kMostCache) return;
  Writer writer(model, std::move(tokens), task.boundary());
  for (int i = 0; i < 3 && writer.room() > 0; ++i) {
    writer.scores();
    const std::int32_t token = 0;
    writer.append({&token, 1});
    task.decode({&token, 1});
  }
}

void use_run(const std::filesystem::path& directory) {
  LoadedRun run = load_run(directory);
  outcome_of([&] {
    Trainer trainer(*run.model, run.config.train);
    Patience patience;
    restore(directory, *run.model, trainer, patience);
  });
  const std::unique_ptr<Task> task = run.config.make_task();
  for (const char* prompt : {"a", "1"})
    outcome_of([&] { write_tokens(*run.model, *task, prompt); });
}

}  // namespace

int fuzz_run_directory(Bytes input) {
  const std::filesystem::path directory = scratch() / "run";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directory(directory);
  if (edits(input)) {
    write_edited(directory, input);
  } else {
    write_plain(directory, input);
  }
  return outcome_of([&] { use_run(directory); });
}

}  // namespace longspan::fuzz
