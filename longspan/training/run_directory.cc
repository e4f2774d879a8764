#include "longspan/training/run_directory.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/io/config_json.h"
#include "longspan/io/json_file.h"

namespace longspan {

namespace {

using nlohmann::json;

constexpr const char* kOrder = "parameter_order";
constexpr const char* kBest = "best_loss";
constexpr const char* kBestStep = "best_step";
constexpr const char* kWaited = "evaluations_since_best";
constexpr const char* kDue = "evaluation_due";

std::vector<NamedTensor> weights_of(Model& model) {
  std::vector<NamedTensor> tensors;
  for (Parameter& p : model.parameters().all()) tensors.push_back({p.name, p.shape(), p.value});
  return tensors;
}

// Names of the trained parameters as they lie in their block, one a line.
std::string order_of(const Model& model) {
  std::vector<const Parameter*> trained;
  for (const Parameter& p : model.parameters().all()) {
    if (!p.constant) trained.push_back(&p);
  }
  std::ranges::sort(trained, {}, [](const Parameter* p) { return p->value.data(); });
  std::string order;
  for (const Parameter* p : trained) order += p->name + '\n';
  return order;
}

void check_order(const std::filesystem::path& directory, const std::string& saved,
                 const std::string& now) {
  if (saved == now) return;
  const auto there = split_list(saved, '\n');
  const auto here = split_list(now, '\n');
  const auto [a, b] = std::ranges::mismatch(there, here);
  const auto name = [](const auto& at, const auto& list) {
    return at == list.end() || at->empty() ? std::string("nothing") : "'" + *at + "'";
  };
  throw Error(
      fmt::format("[checkpoint] {}: the optimiser's averages have {} where the model has {}; "
                  "need the order of parameters that it was saved with",
                  directory.string(), name(a, there), name(b, here)));
}

const json& part(const json& object, const char* key, const std::filesystem::path& directory) {
  const auto it = object.find(key);
  require(it != object.end(),
          "[checkpoint] {}: config.json has no '{}'; is it a longspan checkpoint?",
          directory.string(), key);
  return *it;
}

json data_to_json(const RunConfig& config) {
  json data = config_to_json(config.data);
  const TaskEntry& task = find_task(config.data.task);
  // As the task understands them: numbers may have been written in several ways.
  const TaskOptions options = task.make(config.options)->options();
  for (const TaskOption& option : task.options()) {
    const std::string& text = options.at(option.name);
    data[option.name] = option.is_text ? json(text) : json::parse(text);
  }
  return data;
}

// Fields that DataConfig does not have are the task's options.
void read_data(const json& object, RunConfig& config) {
  require(object.is_object(), "[data] the configuration is not a JSON object");
  json own = json::object();
  TaskOptions options;
  const json fields = config_to_json(DataConfig{});
  for (const auto& [key, value] : object.items()) {
    if (fields.contains(key)) {
      own[key] = value;
    } else {
      options[key] = value.is_string() ? value.get<std::string>() : value.dump();
    }
  }
  config.data = config_from_json<DataConfig>("data", own);
  const TaskEntry& task = find_task(config.data.task);
  // Version 0.1 stored these for every task, and what kind of model reads images not at all.
  for (const char* once : {"length", "patch"}) {
    if (!task.has_option(once)) options.erase(once);
  }
  if (task.has_option("model") && !options.contains("model")) {
    options["model"] = config.model.family.name();
  }
  config.options = std::move(options);
}

std::optional<Vocabulary> vocabulary_from(const json& vocabulary,
                                          const std::filesystem::path& directory) {
  try {
    if (vocabulary.at("kind") == "none") return std::nullopt;
    if (vocabulary.at("kind") == "characters") {
      return Vocabulary::characters(vocabulary.at("code_points"));
    }
    return Vocabulary::bytes();
  } catch (const json::exception&) {
    throw Error(
        fmt::format("[checkpoint] {}: the vocabulary in config.json cannot be read; need "
                    "'kind' and 'code_points'",
                    directory.string()));
  }
}

std::vector<std::string> classes_from(const json& object, std::size_t count,
                                      const std::filesystem::path& directory) {
  const auto it = object.find("classes");
  if (it == object.end()) return {};
  const auto is_name = [](const json& name) { return name.is_string(); };
  require(it->is_array() && std::ranges::all_of(*it, is_name) && it->size() == count,
          "[checkpoint] {}: 'classes' in config.json cannot be read; need the names of the "
          "model's {} classes",
          directory.string(), count);
  std::vector<std::string> names = *it;
  require(std::set<std::string_view>(names.begin(), names.end()).size() == count,
          "[checkpoint] {}: 'classes' in config.json has a name twice; need each once",
          directory.string());
  return names;
}

}  // namespace

std::unique_ptr<Task> RunConfig::make_task() const {
  std::unique_ptr<Task> task = find_task(data.task).make(options);
  if (vocabulary) task->use(*vocabulary);
  if (!classes.empty()) task->use_classes(classes);
  if (!learned.empty()) task->use_learned(learned);
  return task;
}

void RunConfig::find_data() {
  const auto typed = options.find("data");
  if (typed == options.end() || typed->second.empty()) return;
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool here = fs::exists(typed->second, ignored);
  const bool there = !data.data_path.empty() && fs::exists(data.data_path, ignored);
  require(here || there, "[data] {} is not here{}; need --data", typed->second,
          data.data_path.empty() ? "" : fmt::format(", and {} is gone", data.data_path));
  // What is called so here may be something else.
  if (there && !(here && fs::equivalent(typed->second, data.data_path, ignored))) {
    typed->second = data.data_path;
  }
}

json to_json(const RunConfig& config) {
  json object = json::object();
  object["model"] = config_to_json(config.model);
  object["training"] = config_to_json(config.train);
  object["data"] = data_to_json(config);
  object["course"] = config_to_json(config.course);
  object["teacher"] = config_to_json(config.teacher);
  object["vocabulary"] = {{"kind", config.vocabulary ? config.vocabulary->kind() : "none"},
                          {"code_points", config.vocabulary ? config.vocabulary->code_points()
                                                            : std::vector<std::uint32_t>{}}};
  if (!config.classes.empty()) object["classes"] = config.classes;
  if (!config.learned.empty()) object["learned"] = config.learned;
  return object;
}

RunConfig run_config_from(const json& object, const std::filesystem::path& directory) {
  require(object.is_object(), "[checkpoint] {}: config.json is not a JSON object",
          directory.string());
  RunConfig config;
  config.model = config_from_json<ModelConfig>("model", part(object, "model", directory));
  config.train = config_from_json<TrainConfig>("training", part(object, "training", directory));
  read_data(part(object, "data", directory), config);
  if (object.contains("course")) {
    config.course = config_from_json<CourseConfig>("course", object["course"]);
  } else {
    config.course.steps = config.train.schedule.total;
  }
  if (object.contains("teacher")) {
    config.teacher = config_from_json<TeacherConfig>("teacher", object["teacher"]);
  }
  config.vocabulary = vocabulary_from(part(object, "vocabulary", directory), directory);
  if (config.vocabulary && find_task(config.data.task).has_option("vocabulary")) {
    config.options["vocabulary"] = config.vocabulary->kind();
  }
  require(config.vocabulary || !find_task(config.data.task).make({})->learns_vocabulary(),
          "[checkpoint] {}: the task {} and no vocabulary; need what it was trained with",
          directory.string(), config.data.task);
  const std::size_t tokens = config.vocabulary
                                 ? config.vocabulary->size() + config.make_task()->added_tokens()
                                 : config.model.vocab;
  require(tokens == config.model.vocab,
          "[checkpoint] {}: the vocabulary has {} tokens; the model {}", directory.string(), tokens,
          config.model.vocab);
  config.classes = classes_from(object, config.model.classes, directory);
  if (const auto learned = object.find("learned"); learned != object.end()) {
    const auto is_text = [](const auto& fact) { return fact.is_string(); };
    require(learned->is_object() && std::ranges::all_of(*learned, is_text),
            "[checkpoint] {}: 'learned' in config.json cannot be read; need texts by name",
            directory.string());
    config.learned = learned->get<TaskOptions>();
    const std::size_t needed = config.make_task()->needs().vocabulary;
    require(needed == config.model.vocab,
            "[checkpoint] {}: what was learned has {} tokens; the model {}", directory.string(),
            needed, config.model.vocab);
  }
  return config;
}

bool is_foreign(const std::filesystem::path& directory) {
  std::error_code ignored;
  const std::filesystem::path path = directory / "config.json";
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  try {
    const json config = read_json(path);
    const auto lacks = [&](const char* key) { return !config.contains(key); };
    return config.is_object() && lacks("model") && lacks("training") && lacks("data");
  } catch (const Error&) {
    return false;  // a checkpoint's says why it cannot be read
  }
}

Checkpoint open_run(const std::filesystem::path& directory) {
  require(!directory.empty(), "[checkpoint] the directory has no name; need a trained model");
  require(!is_foreign(directory),
          "[checkpoint] {} has a model of another program; need a directory that longspan train "
          "wrote",
          directory.string());
  return Checkpoint(directory);
}

LoadedRun load_run(const std::filesystem::path& directory) {
  const Checkpoint checkpoint = open_run(directory);
  LoadedRun run;
  run.config = run_config_from(checkpoint.config(), directory);
  run.model = std::make_unique<Model>(run.config.model);
  checkpoint.check_weights(weights_of(*run.model));
  run.model->allocate(run.config.train.seed, Purpose::kInference);
  checkpoint.read_weights(weights_of(*run.model));
  run.model->pack();
  run.step = static_cast<std::uint64_t>(checkpoint.integer("step"));
  return run;
}

void check_weights(const std::filesystem::path& directory, Model& model) {
  Checkpoint(directory).check_weights(weights_of(model));
}

bool Patience::improved(double loss, std::uint64_t step) {
  if (!std::isfinite(loss) || (best && !(loss < *best))) {
    ++waited;
    return false;
  }
  best = loss;
  best_step = step;
  waited = 0;
  return true;
}

void restore(const std::filesystem::path& directory, Model& model, Trainer& trainer,
             Patience& patience) {
  const Checkpoint checkpoint(directory);
  const Metadata& metadata = checkpoint.metadata();
  checkpoint.read_weights(weights_of(model));
  if (metadata.contains(kOrder)) check_order(directory, metadata.at(kOrder), order_of(model));
  std::vector<std::span<float>> blocks;
  for (auto& block : trainer.optimizer().state()) blocks.emplace_back(block);
  checkpoint.read_optimizer(blocks);
  trainer.set_steps(static_cast<std::uint64_t>(checkpoint.integer("step")));
  patience = {};
  patience.due = metadata.contains(kDue);
  if (!metadata.contains(kBest)) return;
  patience.best = parse_number("checkpoint", kBest, metadata.at(kBest));
  patience.best_step = static_cast<std::uint64_t>(checkpoint.integer(kBestStep));
  patience.waited = static_cast<std::uint64_t>(checkpoint.integer(kWaited));
}

void save(const std::filesystem::path& directory, const RunConfig& config, Model& model,
          Trainer& trainer, const Patience& patience) {
  model.parameters().require_trainable("checkpoint");
  CheckpointState state;
  for (const Parameter& p : model.parameters().all()) {
    state.weights.push_back({p.name, p.shape(), p.value});
  }
  for (const auto& block : trainer.optimizer().state()) state.optimizer.emplace_back(block);
  state.metadata["step"] = std::to_string(trainer.steps());
  state.metadata["seed"] = std::to_string(config.train.seed);
  state.metadata["rule"] = config.train.rule;
  state.metadata[kOrder] = order_of(model);
  if (patience.due) state.metadata[kDue] = "yes";
  if (patience.best) {
    state.metadata[kBest] = fmt::format("{}", *patience.best);  // enough digits to read it back
    state.metadata[kBestStep] = std::to_string(patience.best_step);
    state.metadata[kWaited] = std::to_string(patience.waited);
  }
  save_checkpoint(directory, to_json(config), state);
}

}  // namespace longspan
