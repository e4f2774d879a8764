#include "benchmarks/model_jobs.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "longspan/base/error.h"
#include "longspan/base/packed_batch.h"
#include "longspan/base/random.h"
#include "longspan/learning/trainer.h"
#include "longspan/models/model.h"

namespace longspan::bench {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kVocab = 1000;
constexpr std::size_t kHeadWidth = 64;

// As in peers/model_weights.py.
void fill_weights(Model& model) {
  for (Parameter& p : model.parameters().all()) {
    std::uint32_t seed = 2166136261U;  // FNV-1a of the name
    for (const char c : p.name) seed = (seed ^ static_cast<unsigned char>(c)) * 16777619U;
    const bool gain = p.name.ends_with("norm.weight");
    const float scale = p.cols > 1 && !p.is_vector ? 1.0F : 0.1F;
    for (std::size_t i = 0; i < p.size(); ++i) {
      const float x = value(seed, static_cast<std::uint32_t>(i));
      p.value[i] = gain ? 1.0F + 0.05F * x : 0.03F * scale * x;
    }
  }
}

std::vector<std::int32_t> draw_tokens(std::size_t count) {
  std::vector<std::int32_t> tokens(count);
  for (std::size_t i = 0; i < count; ++i) {
    const float x = value(7, static_cast<std::uint32_t>(i));
    tokens[i] = static_cast<std::int32_t>((x + 2.0F) / 4.0F * kVocab);
  }
  return tokens;
}

// BERT's block, or GPT-2's, with nothing around it that costs.
ModelConfig model_config(const Json& job, Family family, std::size_t max_length) {
  ModelConfig config;
  config.family = family;
  config.layers = job.at("layers");
  config.d_model = job.at("width");
  config.heads = config.d_model / kHeadWidth;
  config.vocab = kVocab;
  config.max_length = max_length;
  config.activation = Activation::kGelu;
  config.positions = PositionKind::kNone;
  if (family == Family::kEncoder) {
    config.wiring = Wiring::kPostNorm;
    config.head = HeadKind::kClassifier;
    config.classes = 2;
  }
  return config;
}

std::vector<float> probe_of(ConstMatrix x) {
  std::vector<float> out;
  for (std::size_t j = 0; j < 16; ++j) {
    out.push_back(x.row_data(j * (x.rows - 1) / 15)[j * 7 % x.cols]);
  }
  return out;
}

class EncodeJob : public Job {
 public:
  explicit EncodeJob(const Json& job)
      : lengths_(job.at("lengths").get<std::vector<std::int32_t>>()),
        model_(model_config(job, Family::kEncoder, std::ranges::max(lengths_))) {
    model_.allocate(1, Purpose::kInference);
    fill_weights(model_);
    model_.pack();
    const auto length = static_cast<std::size_t>(std::ranges::max(lengths_));
    tokens_ = draw_tokens(lengths_.size() * length);
    batch_ = {.batch = lengths_.size(), .length = length, .tokens = tokens_};
    const bool equal = std::ranges::min(lengths_) == std::ranges::max(lengths_);
    if (equal) return;
    batch_.lengths = lengths_;
    batch_ = pack(batch_, Answers::kOfSequences, packed_);
  }

  void run() override { states_ = model_.outputs(batch_).states; }
  // Of the first text.
  std::vector<float> probe() const override {
    return probe_of(states_.slice_rows(0, static_cast<std::size_t>(lengths_[0])));
  }
  Work work() const override { return {}; }

 private:
  std::vector<std::int32_t> lengths_;
  Model model_;
  std::vector<std::int32_t> tokens_;
  PackedMemory packed_;
  Batch batch_;
  ConstMatrix states_;
};

// One token behind `cached` others, again and again at the same place.
class DecodeJob : public Job {
 public:
  explicit DecodeJob(const Json& job)
      : cached_(job.at("cached")),
        model_(model_config(job, Family::kDecoder, cached_ + 1)),
        tokens_(draw_tokens(job.at("batch").get<std::size_t>() * (cached_ + 1))) {
    const std::size_t batch = job.at("batch");
    model_.allocate(1, Purpose::kInference);
    fill_weights(model_);
    model_.pack();
    memory_ = Arena(model_.cache_bytes(batch, cached_ + 1));
    caches_ = model_.make_caches(batch, cached_ + 1, memory_);
    const std::span<const std::int32_t> all = tokens_;
    if (cached_ > 0) {
      model_.decode({.batch = batch, .length = cached_, .tokens = all.first(batch * cached_)},
                    caches_);
    }
    batch_ = {.batch = batch, .length = 1, .tokens = all.last(batch)};
  }

  void run() override {
    for (DecodeCache& cache : caches_) cache.used = cached_;
    logits_ = model_.decode(batch_, caches_);
  }
  std::vector<float> probe() const override { return probe_of(logits_); }
  Work work() const override { return {}; }

 private:
  std::size_t cached_;
  Model model_;
  std::vector<std::int32_t> tokens_;
  Arena memory_;
  std::vector<DecodeCache> caches_;
  Batch batch_;
  ConstMatrix logits_;
};

struct Recipe {
  std::string_view name;
  std::size_t layers, heads, width, context, batch, vocab;
};
// As in peers/torch_language_model.py.
constexpr Recipe kRecipes[] = {
    {"R1", 4, 4, 128, 64, 12, 65}, {"R2", 6, 6, 384, 256, 8, 256}, {"R3", 4, 8, 512, 32, 256, 256}};

// One step of a decoder-only language model: forward, backward, clip at 1, AdamW.
class TrainingJob : public Job {
 public:
  explicit TrainingJob(const Recipe& r)
      : model_(model_config(r)), tokens_(r.batch * r.context), targets_(r.batch * r.context) {
    model_.allocate(1);
    TrainConfig config;
    config.schedule.kind = "constant";
    config.schedule.warmup = 0;
    trainer_ = std::make_unique<Trainer>(model_, config);
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      tokens_[i] = static_cast<std::int32_t>(random_below(1, i, r.vocab));
      targets_[i] = static_cast<std::int32_t>(random_below(1, i + 1, r.vocab));
    }
    batch_ = {.batch = r.batch, .length = r.context, .tokens = tokens_, .targets = targets_};
  }

  void run() override {
    const StepReport report = trainer_->step({&batch_, 1});
    require(report.finite, "[bench] the training step diverged");
    loss_ = static_cast<float>(report.loss);
  }
  std::vector<float> probe() const override { return {loss_}; }
  Work work() const override { return {}; }

 private:
  static ModelConfig model_config(const Recipe& r) {
    ModelConfig config;
    config.layers = r.layers;
    config.heads = r.heads;
    config.d_model = r.width;
    config.max_length = r.context;
    config.vocab = r.vocab;
    config.activation = Activation::kGelu;
    return config;
  }

  Model model_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> targets_;
  std::unique_ptr<Trainer> trainer_;
  Batch batch_;
  float loss_ = 0.0F;
};

}  // namespace

std::unique_ptr<Job> encode_job(const Json& job) { return std::make_unique<EncodeJob>(job); }
std::unique_ptr<Job> decode_job(const Json& job) { return std::make_unique<DecodeJob>(job); }
std::unique_ptr<Job> training_job(const Json& job) {
  const std::string name = job.at("recipe");
  const auto recipe = std::ranges::find(kRecipes, name, &Recipe::name);
  require(recipe != std::end(kRecipes), "[bench] unknown recipe {}", name);
  return std::make_unique<TrainingJob>(*recipe);
}

}  // namespace longspan::bench
