#include "longspan/measure/calibrate.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <vector>

#include "longspan/attention/registry.h"
#include "longspan/base/error.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/fma_peak.h"
#include "longspan/measure/kernel_calls.h"
#include "longspan/measure/least_squares.h"
#include "longspan/measure/model_run.h"
#include "longspan/measure/predict.h"

namespace longspan {

namespace {

constexpr double kMebibyte = 1024.0 * 1024.0;

double cache_bytes(int level, double otherwise) {
  const long size = sysconf(level);
  return size > 0 ? static_cast<double>(size) : otherwise;
}

struct Caches {
  double second = cache_bytes(_SC_LEVEL2_CACHE_SIZE, kMebibyte);
  double last = std::max(cache_bytes(_SC_LEVEL3_CACHE_SIZE, 16 * kMebibyte), second);
};

// Measures the calls in turn and fits each rate.
std::map<std::string, Fit> fit_calls(std::span<const TimedCall> calls) {
  std::vector<Job> jobs;
  for (const TimedCall& call : calls) jobs.push_back(call.run);
  const std::vector<Samples> samples = sample(jobs);
  std::map<std::string, std::vector<TimedPoint>> points;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    points[calls[i].rate].push_back({calls[i].x, samples[i].undisturbed()});
  }
  std::map<std::string, Fit> fits;
  for (const auto& [rate, measured] : points) fits[rate] = fit_seconds(measured);
  return fits;
}

void calibrate_kernels(Calibration& c, const Caches& caches) {
  const auto threads = static_cast<double>(thread_count());
  c.caches = caches.second * threads;
  c.memory = 2.0 * caches.last;
  const auto cold_bytes = static_cast<std::size_t>(std::min(3.0 * caches.last, 256 * kMebibyte));
  for (const bool cold : {false, true}) {
    OperandPool pool(cold ? cold_bytes : static_cast<std::size_t>(16 * kMebibyte), cold);
    OperandPool steps(cold ? cold_bytes : static_cast<std::size_t>(c.caches), cold);
    std::vector<TimedCall> calls;
    add_products(pool, calls);
    add_row_calls(pool, calls);
    add_optimizer_calls(steps, calls);
    for (auto& [rate, fit] : fit_calls(calls)) {
      Rates& rates = c.rates[rate];
      (cold ? rates.cold : rates.warm) = fit.coefficients;
      rates.error = std::max(rates.error, fit.error);
    }
  }
  // An addition reads two floats and writes one.
  c.bandwidth = 12.0 * threads / std::max(c.rates["add"].cold[0], 1e-15);
  c.call_seconds = c.rates["add"].warm[2];
}

struct AttentionPoint {
  std::size_t heads, d, length, batch;
  bool causal;
};
// Short and long, narrow and wide heads: a mechanism's quantities vary differently along each.
constexpr std::array kAttentionPoints = {
    AttentionPoint{4, 32, 128, 4, false},  AttentionPoint{2, 64, 256, 1, false},
    AttentionPoint{4, 32, 512, 1, false},  AttentionPoint{2, 64, 1024, 1, false},
    AttentionPoint{2, 32, 2048, 1, false}, AttentionPoint{2, 128, 512, 1, false},
    AttentionPoint{2, 64, 768, 2, true},   AttentionPoint{4, 32, 256, 4, true},
    AttentionPoint{8, 16, 384, 1, false},  AttentionPoint{4, 16, 1280, 1, false},
    AttentionPoint{4, 24, 112, 3, false},  AttentionPoint{4, 64, 80, 2, false},
    AttentionPoint{2, 24, 600, 2, false},  AttentionPoint{4, 64, 288, 2, true},
    AttentionPoint{8, 64, 40, 2, false},
};

// One attention layer with next to nothing around it.
ModelConfig attention_model(std::string_view mechanism, const AttentionPoint& p) {
  ModelConfig c;
  c.family = p.causal ? "decoder" : "encoder";
  c.layers = 1;
  c.heads = p.heads;
  c.d_model = p.heads * p.d;
  c.d_ff = 16;
  c.vocab = 16;
  c.max_length = p.length;
  c.positions = "none";
  c.bias = false;
  c.attention = mechanism;
  return c;
}

// The mechanism's call among the others, and the seconds of those.
struct Split {
  std::vector<double> x;
  double others = 0.0;
};

Split split(const Calibration& c, std::span<const Operation> operations, const std::string& rate,
            double bytes) {
  Split s;
  for (const Operation& o : operations) {
    if (o.rate == rate) {
      s.x = o.x;
    } else {
      s.others += seconds_of(c, o, bytes);
    }
  }
  return s;
}

std::vector<std::unique_ptr<ModelRun>> attention_runs(const Mechanism& mechanism) {
  std::vector<std::unique_ptr<ModelRun>> runs;
  for (const AttentionPoint& p : kAttentionPoints) {
    if (p.causal && !mechanism.make("")->abilities().causal) continue;
    try {
      runs.push_back(std::make_unique<ModelRun>(attention_model(mechanism.name, p),
                                                RunShape{p.batch, p.length, 0}));
      runs.back()->forward();
      runs.back()->gradients();
    } catch (const Error&) {  // this mechanism cannot do that
      if (!runs.empty()) runs.pop_back();
    }
  }
  return runs;
}

// A mechanism on each of its shapes, and what was measured: forward, then forward and backward.
struct MeasuredAttention {
  std::string_view name;
  std::vector<std::unique_ptr<ModelRun>> runs;
  std::vector<Samples> forward;
  std::vector<Samples> gradients;
};

// All mechanisms take their turns together: what disturbs one of them disturbs all.
std::vector<MeasuredAttention> measure_attention() {
  std::vector<MeasuredAttention> all;
  std::vector<Job> jobs;
  for (const Mechanism& mechanism : mechanisms()) {
    all.push_back({mechanism.name, attention_runs(mechanism), {}, {}});
    require(!all.back().runs.empty(), "[calibrate] {} ran on no shape; need one", mechanism.name);
    for (const auto& run : all.back().runs) {
      jobs.emplace_back([&run = *run] { run.forward(); });
      jobs.emplace_back([&run = *run] { run.gradients(); });
    }
  }
  const std::vector<Samples> samples = sample(jobs);
  auto next = samples.begin();
  for (MeasuredAttention& m : all) {
    for (std::size_t i = 0; i < m.runs.size(); ++i) {
      m.forward.push_back(*next++);
      m.gradients.push_back(*next++);
    }
  }
  return all;
}

// Everything but the mechanism's call is taken off by what is known of it. Errors count as parts of
// the whole: where the mechanism is little of it, little is known of the mechanism.
TimedPoint attention_point(const Calibration& c, std::span<const Operation> operations,
                           const std::string& rate, std::size_t bytes, const Samples& samples) {
  const Split s = split(c, operations, rate, static_cast<double>(bytes));
  const double all = samples.undisturbed();
  return {s.x, all - s.others, all};
}

void fit_attention(Calibration& c, const MeasuredAttention& m) {
  for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
    const std::string rate = attention_rate(m.name, phase);
    std::vector<TimedPoint> points;
    for (std::size_t i = 0; i < m.runs.size(); ++i) {
      Model& model = m.runs[i]->model();
      const Batch& batch = m.runs[i]->batch();
      if (phase == Phase::kForward) {
        points.push_back(attention_point(c, forward_operations(model, batch), rate,
                                         model.inference_bytes(batch), m.forward[i]));
        continue;
      }
      auto operations = step_operations(model, batch, m.runs[i]->train_config().optimizer);
      std::erase_if(operations, [](const Operation& o) { return o.phase == Phase::kOptimizer; });
      points.push_back(
          attention_point(c, operations, rate, model.training_bytes(batch), m.gradients[i]));
    }
    const Fit f = fit_seconds(points);
    c.rates[rate] = {f.coefficients, {}, f.error};
  }
}

struct ClosingPoint {
  const char* family;
  std::size_t layers, heads, d, length, batch;
  const char* attention;
};
constexpr std::array kClosingPoints = {
    ClosingPoint{"decoder", 2, 4, 128, 128, 4, "flash"},
    ClosingPoint{"encoder", 2, 4, 256, 512, 1, "full"},
    ClosingPoint{"decoder", 1, 8, 512, 256, 2, "flash"},
    ClosingPoint{"encoder", 4, 2, 64, 1024, 1, "flash"},
    ClosingPoint{"decoder", 3, 6, 192, 64, 8, "full"},
    ClosingPoint{"encoder", 2, 12, 768, 64, 1, "flash"},
};

Closing closing(std::span<const double> ratios) {
  double mean = 0.0;
  for (const double r : ratios) mean += std::log(r) / static_cast<double>(ratios.size());
  double square = 0.0;
  for (const double r : ratios) square += std::pow(std::log(r) - mean, 2);
  return {std::exp(mean), std::sqrt(square / static_cast<double>(ratios.size() - 1))};
}

void calibrate_models(Calibration& c) {
  std::vector<std::unique_ptr<ModelRun>> runs;
  std::vector<Job> jobs;
  for (const ClosingPoint& p : kClosingPoints) {
    ModelConfig config;
    config.family = p.family;
    config.layers = p.layers;
    config.heads = p.heads;
    config.d_model = p.d;
    config.max_length = p.length;
    config.attention = p.attention;
    runs.push_back(std::make_unique<ModelRun>(config, RunShape{p.batch, p.length, 0}));
    jobs.emplace_back([&run = *runs.back()] { run.forward(); });
    jobs.emplace_back([&run = *runs.back()] { run.step(); });
  }
  const std::vector<Samples> samples = sample(jobs);
  std::vector<double> forward;
  std::vector<double> training;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Model& model = runs[i]->model();
    const Batch& batch = runs[i]->batch();
    const OptimizerConfig& optimizer = runs[i]->train_config().optimizer;
    forward.push_back(samples[2 * i].undisturbed() / predict_forward(c, model, batch).seconds);
    training.push_back(samples[2 * i + 1].undisturbed() /
                       predict_step(c, model, batch, optimizer).seconds);
  }
  c.forward = closing(forward);
  c.training = closing(training);
}

}  // namespace

Calibration calibrate(const std::function<void(std::string_view)>& report) {
  const auto start = std::chrono::steady_clock::now();
  Calibration c;
  c.machine = this_machine();
  c.fma_peak = fma_peak();
  report("kernels");
  calibrate_kernels(c, Caches{});
  report("attention");
  for (const MeasuredAttention& m : measure_attention()) fit_attention(c, m);
  report("whole models");
  calibrate_models(c);
  c.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return c;
}

}  // namespace longspan
