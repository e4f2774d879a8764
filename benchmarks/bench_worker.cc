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

#include "benchmarks/model_jobs.h"
#include "longspan/attention/registry.h"
#include "longspan/base/error.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/gemm/fma_peak.h"
#include "longspan/kernels/rows/vector.h"

namespace longspan::bench {
namespace {

using Json = nlohmann::json;

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

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
  if (kind == "encode") return encode_job(job);
  if (kind == "decode") return decode_job(job);
  if (kind == "train_step") return training_job(job);
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

// Bytes per second that all threads read together, of more than any cache holds.
double read_bandwidth() {
  static const std::vector<float> data(std::size_t{1} << 27U, 1.0F);
  double best = 0.0;
  for (int round = 0; round < 2; ++round) {
    const double start = wall_seconds();
    const double sum = sum_of_squares(data);
    require(sum > 0.0, "[bench] the squares add up to {}", sum);
    best =
        std::max(best, sizeof(float) * static_cast<double>(data.size()) / (wall_seconds() - start));
  }
  return best;
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
    const bool reads = job.at("kind") == "decode";  // as fast as memory
    double peak = fma_peak();
    double bandwidth = reads ? read_bandwidth() : 0.0;
    std::vector<double> seconds;
    const auto clock = thread_count() == 1 ? processor_seconds : wall_seconds;
    const double begin = wall_seconds();
    do {
      const double start = clock();
      job_->run();
      seconds.push_back(clock() - start);
    } while (wall_seconds() - begin < budget);
    peak = std::max(peak, fma_peak());
    if (reads) bandwidth = std::max(bandwidth, read_bandwidth());
    return {{"seconds", seconds},
            {"probe", job_->probe()},
            {"peak_flops", peak},
            {"bandwidth", bandwidth},
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
}  // namespace longspan::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: bench_worker THREADS\n";
    return 2;
  }
  return longspan::bench::serve(std::stoi(argv[1]));
}
