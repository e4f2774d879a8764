// longspan's side of the comparison with its peers; the protocol is described in compare_peers.py.
//
// usage: bench_worker THREADS
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/attention/registry.h"
#include "longspan/base/error.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/gemm/fma_peak.h"
#include "longspan/learning/trainer.h"

namespace longspan {
namespace {

using Json = nlohmann::json;

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// A prepared job: does the work once.
class Job {
 public:
  virtual ~Job() = default;
  virtual void run() = 0;
  // Some elements of the result, for comparison with the peers'.
  virtual std::vector<float> probe() const = 0;
  // The operations that it is predicted to need.
  virtual Work work() const = 0;
};

// Uniform in [−2, 2): a hash of the flat index, the same in every peer.
float value(std::uint32_t seed, std::uint32_t i) {
  std::uint32_t u = i * 2654435761U + seed * 374761393U;
  u = (u ^ (u >> 15U)) * 2246822519U;
  u ^= u >> 13U;
  return static_cast<float>(u >> 8U) * 0x1p-22F - 2.0F;
}

// [1, heads, n, d], in memory [n, heads·d] as a layer's projections leave it: in an arena.
class Tensor {
 public:
  Tensor(std::size_t heads, std::size_t n, std::size_t d)
      : heads_(heads),
        d_(d),
        memory_(Arena::bytes_for(n * heads * d)),
        data_(memory_.take(n * heads * d)) {
    std::ranges::fill(data_, 0.0F);
  }
  Tensor(std::size_t heads, std::size_t n, std::size_t d, std::uint32_t seed)
      : Tensor(heads, n, d) {
    const Heads x = view();
    std::uint32_t flat = 0;
    for (std::size_t h = 0; h < heads; ++h) {
      for (std::size_t i = 0; i < n; ++i) {
        for (float& element : x.head(0, h).row(i)) element = value(seed, flat++);
      }
    }
  }
  Heads view() { return Heads::from_columns({data_.data(), rows(), heads_ * d_}, 1, heads_); }

  void append_probe(std::vector<float>& out) const {
    for (std::size_t j = 0; j < 16; ++j) {
      const std::size_t row = j * (rows() - 1) / 15;
      out.push_back(data_[(row * heads_ + j % heads_) * d_ + j * 7 % d_]);
    }
  }

 private:
  std::size_t rows() const { return data_.size() / (heads_ * d_); }

  std::size_t heads_;
  std::size_t d_;
  Arena memory_;
  std::span<float> data_;
};

struct AttentionJobOptions {
  std::string mechanism;
  std::size_t heads = 8;
  std::size_t n = 0;
  std::size_t d = 64;
  bool causal = false;
  bool backward = false;
};

class AttentionJob : public Job {
 public:
  explicit AttentionJob(const AttentionJobOptions& o)
      : attention_(o.mechanism, {.d_model = o.heads * o.d,
                                 .heads = o.heads,
                                 .kv_heads = o.heads,
                                 .d_head = o.d,
                                 .max_length = o.n}),
        backward_(o.backward),
        q_(o.heads, o.n, o.d, 1),
        k_(o.heads, o.n, o.d, 2),
        v_(o.heads, o.n, o.d, 3),
        y_(o.heads, o.n, o.d) {
    in_ = {.q = q_.view(),
           .k = k_.view(),
           .v = v_.view(),
           .mask = {.causal = o.causal},
           .dropout = {}};
    attention_.allocate();
    if (attention_->abilities().shared_qk) in_.k = in_.q;
    if (attention_.streams().calls(Source::kInput)) in_.x = {k_.view().data, o.n, o.heads * o.d};
    const AttentionCost cost = attention_->cost(shape_of(in_));
    std::size_t scratch = cost.forward_scratch;
    if (backward_) {
      gradients_ = {Tensor(o.heads, o.n, o.d, 4), Tensor(o.heads, o.n, o.d),
                    Tensor(o.heads, o.n, o.d), Tensor(o.heads, o.n, o.d)};
      saved_.resize(cost.saved);
      signals_.resize(cost.signals);
      if (attention_.streams().calls(Source::kInput)) dx_.resize(o.n * o.heads * o.d);
      scratch = std::max(scratch, cost.backward_scratch);
    }
    work_ = backward_ ? cost.forward + cost.backward + cost.update : cost.forward;
    arena_ = Arena(scratch);
  }

  void run() override {
    attention_->forward({in_, y_.view(), saved_, arena_});
    if (!backward_) return;
    auto& [dy, dq, dk, dv] = gradients_;
    AttentionGradients to{.q = dq.view(), .k = dk.view(), .v = dv.view()};
    if (!dx_.empty()) to.x = Matrix(dx_.data(), in_.x.rows, in_.x.cols);
    attention_->backward({in_, y_.view(), dy.view(), saved_, to, signals_, arena_});
    attention_->accumulate(in_, saved_, signals_);
  }

  std::vector<float> probe() const override {
    std::vector<float> out;
    y_.append_probe(out);
    if (backward_) {
      for (const Tensor* x : {&gradients_.dq, &gradients_.dk, &gradients_.dv}) x->append_probe(out);
    }
    return out;
  }
  Work work() const override { return work_; }

 private:
  struct Gradients {
    Tensor dy{0, 0, 0};
    Tensor dq{0, 0, 0};
    Tensor dk{0, 0, 0};
    Tensor dv{0, 0, 0};
  };

  LoneAttention attention_;
  bool backward_;
  Tensor q_, k_, v_, y_;
  Gradients gradients_;
  AttentionInputs in_;
  Work work_;
  std::vector<float> saved_;
  std::vector<float> signals_;
  std::vector<float> dx_;
  Arena arena_;
};

struct Recipe {
  std::string_view name;
  std::size_t layers, heads, width, context, batch, vocab;
};
// As in peers/torch_language_model.py.
constexpr Recipe kRecipes[] = {{"R1", 4, 4, 128, 64, 12, 65}, {"R2", 6, 6, 384, 256, 8, 256}};

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

std::unique_ptr<Job> prepare(const Json& job) {
  const std::string kind = job.at("kind");
  if (kind == "forward" || kind == "backward") {
    return std::make_unique<AttentionJob>(
        AttentionJobOptions{.mechanism = job.value("variant", "flash"),
                            .heads = job.value("heads", std::size_t{8}),
                            .n = job.at("n"),
                            .causal = job.at("causal"),
                            .backward = kind == "backward"});
  }
  if (kind == "train_step") {
    const std::string name = job.at("recipe");
    for (const Recipe& recipe : kRecipes) {
      if (recipe.name == name) return std::make_unique<TrainingJob>(recipe);
    }
  }
  throw Error("[bench] unknown job " + job.dump());
}

// The most memory the process ever had in RAM.
std::size_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return 1024 * std::stoull(line.substr(6));
  }
  return 0;
}

class Worker {
 public:
  Json answer(Json job) {
    const double budget = job.at("budget");
    job.erase("budget");
    if (job != last_) {
      job_ = nullptr;  // frees the last job's memory first
      last_ = nullptr;
      job_ = prepare(job);
      job_->run();
      last_ = job;
    }
    double peak = fma_peak();
    std::vector<double> seconds;
    const auto clock = thread_count() == 1 ? processor_seconds : wall_seconds;
    const double begin = wall_seconds();
    do {
      const double start = clock();
      job_->run();
      seconds.push_back(clock() - start);
    } while (wall_seconds() - begin < budget);
    peak = std::max(peak, fma_peak());
    return {{"seconds", seconds},
            {"probe", job_->probe()},
            {"peak_flops", peak},
            {"maccs", job_->work().maccs},
            {"flops", job_->work().flops()},
            {"resident", peak_resident_bytes()}};
  }

 private:
  Json last_;
  std::unique_ptr<Job> job_;
};

int serve(int threads) {
  set_thread_count(threads);
  Json names = Json::array();
  for (const Mechanism& mechanism : mechanisms()) names.push_back(mechanism.name);
  std::cout << Json{{"name", "longspan"},
                    {"mechanisms", names},
                    {"version", LONGSPAN_VERSION},
                    {"instruction_set", instruction_set()}}
            << std::endl;
  Worker worker;
  for (std::string line; std::getline(std::cin, line);) {
    Json reply;
    try {
      reply = worker.answer(Json::parse(line));
    } catch (const std::exception& error) {
      reply = {{"error", error.what()}};
    }
    std::cout << reply << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace longspan

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: bench_worker THREADS\n";
    return 2;
  }
  return longspan::serve(std::stoi(argv[1]));
}
