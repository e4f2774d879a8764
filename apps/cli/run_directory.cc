#include "run_directory.h"

#include <utility>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/io/config_json.h"

namespace longspan::cli {

namespace {

std::vector<NamedTensor> weights_of(Model& model) {
  std::vector<NamedTensor> tensors;
  for (Parameter& p : model.parameters().all()) tensors.push_back({p.name, p.shape(), p.value});
  return tensors;
}

const nlohmann::json& part(const nlohmann::json& json, const char* key,
                           const std::filesystem::path& directory) {
  const auto it = json.find(key);
  require(it != json.end(),
          "[checkpoint] {}: config.json has no '{}'; is it a longspan checkpoint?",
          directory.string(), key);
  return *it;
}

}  // namespace

nlohmann::json to_json(const RunConfig& config) {
  nlohmann::json json;
  json["model"] = config_to_json(config.model);
  json["training"] = config_to_json(config.train);
  json["data"] = config_to_json(config.data);
  json["vocabulary"] = {{"kind", config.vocabulary.kind()},
                        {"code_points", config.vocabulary.code_points()}};
  return json;
}

RunConfig run_config_from(const nlohmann::json& json, const std::filesystem::path& directory) {
  require(json.is_object(), "[checkpoint] {}: config.json is not a JSON object",
          directory.string());
  RunConfig config;
  config.model = config_from_json<ModelConfig>("model", part(json, "model", directory));
  config.train = config_from_json<TrainConfig>("training", part(json, "training", directory));
  config.data = config_from_json<DataConfig>("data", part(json, "data", directory));
  const nlohmann::json& vocabulary = part(json, "vocabulary", directory);
  try {
    if (vocabulary.at("kind") == "characters") {
      config.vocabulary = Vocabulary::characters(vocabulary.at("code_points"));
    }
  } catch (const nlohmann::json::exception&) {
    throw Error(
        fmt::format("[checkpoint] {}: the vocabulary in config.json cannot be read; need "
                    "'kind' and 'code_points'",
                    directory.string()));
  }
  require(config.vocabulary.size() == config.model.vocab,
          "[checkpoint] {}: the vocabulary has {} tokens; the model {}", directory.string(),
          config.vocabulary.size(), config.model.vocab);
  return config;
}

LoadedRun load_run(const std::filesystem::path& directory) {
  const Checkpoint checkpoint(directory);
  LoadedRun run;
  run.config = run_config_from(checkpoint.config(), directory);
  run.model = std::make_unique<Model>(run.config.model);
  run.model->allocate(run.config.train.seed);
  checkpoint.read_weights(weights_of(*run.model));
  run.step = static_cast<std::uint64_t>(checkpoint.integer("step"));
  return run;
}

void restore(const std::filesystem::path& directory, Model& model, Trainer& trainer) {
  const Checkpoint checkpoint(directory);
  checkpoint.read_weights(weights_of(model));
  std::vector<std::span<float>> blocks;
  for (auto& block : trainer.optimizer().state()) blocks.emplace_back(block);
  checkpoint.read_optimizer(blocks);
  trainer.set_steps(static_cast<std::uint64_t>(checkpoint.integer("step")));
}

void save(const std::filesystem::path& directory, const RunConfig& config, Model& model,
          Trainer& trainer) {
  CheckpointState state;
  for (const Parameter& p : model.parameters().all()) {
    state.weights.push_back({p.name, p.shape(), p.value});
  }
  for (const auto& block : trainer.optimizer().state()) state.optimizer.emplace_back(block);
  state.metadata["step"] = std::to_string(trainer.steps());
  state.metadata["seed"] = std::to_string(config.train.seed);
  state.metadata["rule"] = config.train.rule;
  save_checkpoint(directory, to_json(config), state);
}

}  // namespace longspan::cli
