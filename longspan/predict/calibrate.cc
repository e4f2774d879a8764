#include "longspan/predict/calibrate.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <vector>

#include "longspan/attention/registry.h"
#include "longspan/base/error.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/gemm/fma_peak.h"
#include "longspan/predict/kernel_calls.h"
#include "longspan/predict/least_squares.h"
#include "longspan/predict/model_run.h"
#include "longspan/predict/predict.h"

namespace longspan {

namespace {

constexpr double kMebibyte = 1024.0 * 1024.0;

// A quiet machine needs a part of this for each of the seven samplings; a busy one is told no more
// about itself by repeating them for an hour.
constexpr double kEnoughSeconds = 30.0;
constexpr double kMostSeconds = 120.0;

SampleOptions within_limits(SampleOptions options) {
  options.enough_seconds = kEnoughSeconds;
  options.most_seconds = kMostSeconds;
  return options;
}

// Of a core, by the system's own account, "32768K". What sysconf says of the last level is that of
// the whole package, of which a virtual machine has a part.
double cache_bytes(int level, double otherwise) {
  std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", level));
  double kibibytes = 0.0;
  return file >> kibibytes && kibibytes > 0.0 ? 1024.0 * kibibytes : otherwise;
}

struct Caches {
  double second = cache_bytes(2, kMebibyte);
  double last = std::max(cache_bytes(3, 16 * kMebibyte), second);
};

// While it lives, calls use this many threads.
class UsedThreads {
 public:
  explicit UsedThreads(int threads) : before_(thread_count()) { set_thread_count(threads); }
  ~UsedThreads() { set_thread_count(before_); }
  UsedThreads(const UsedThreads&) = delete;
  UsedThreads& operator=(const UsedThreads&) = delete;

 private:
  int before_;
};

// On one thread, whose own processor time is exact, the coefficients are fitted. On several they
// are those of one, all longer by one factor, near 1 unless the measurements say otherwise: whoever
// takes one of the cores for a moment lengthens every call that all cores share.
void learn(std::span<const TimedPoint> points, std::vector<double>& coefficients, double& error) {
  if (thread_count() == 1) {
    Fit fit = fit_seconds(points);
    coefficients = std::move(fit.coefficients);
    error = std::max(error, fit.error);
    return;
  }
  // argmin Σ ((factor·fitted − seconds)/scale)² + (factor − 1)²/2
  double top = 0.5;
  double bottom = 0.5;
  for (const TimedPoint& p : points) {
    const double fitted = dot(p.x, coefficients) / p.scale();
    top += fitted * p.seconds / p.scale();
    bottom += fitted * fitted;
  }
  const double factor = std::max(top / bottom, 0.5);
  for (double& c : coefficients) c *= factor;
}

// Measures the calls in turn. On several threads one factor of each kind of call is learned: some
// of the calls are enough.
std::map<std::string, std::vector<TimedPoint>> measure_calls(std::span<const TimedCall> calls) {
  const std::size_t one_of = thread_count() == 1 ? 1 : 2;
  std::vector<const TimedCall*> measured;
  std::vector<Job> jobs;
  std::map<std::string, std::size_t> seen;
  for (const TimedCall& call : calls) {
    if (seen[call.rate]++ % one_of != 0) continue;
    measured.push_back(&call);
    jobs.push_back(call.run);
  }
  const std::vector<Samples> samples = sample(jobs, within_limits({.rounds = 3, .most_rounds = 9}));
  std::map<std::string, std::vector<TimedPoint>> points;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    points[measured[i]->rate].push_back({measured[i]->x, samples[i].undisturbed()});
  }
  return points;
}

void calibrate_kernels(Calibration& c, const Caches& caches) {
  const auto threads = static_cast<double>(thread_count());
  c.caches = caches.second * threads;
  c.memory = 2.0 * std::max(caches.last, c.caches);
  const auto cold_bytes = static_cast<std::size_t>(std::min(3.0 * caches.last, 256 * kMebibyte));
  for (const bool cold : {false, true}) {
    OperandPool pool(cold ? cold_bytes : static_cast<std::size_t>(16 * kMebibyte), cold);
    OperandPool steps(cold ? cold_bytes : static_cast<std::size_t>(c.caches), cold);
    std::vector<TimedCall> calls;
    add_products(pool, calls);
    add_row_calls(pool, calls);
    add_transforms(pool, calls);
    add_optimizer_calls(steps, calls);
    for (const auto& [rate, points] : measure_calls(calls)) {
      Rates& rates = c.rates[rate];
      learn(points, cold ? rates.cold : rates.warm, rates.error);
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
  c.positions = PositionKind::kNone;
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
    const auto times = static_cast<double>(o.times);
    if (o.rate == rate) {
      s.x.resize(o.x.size());
      for (std::size_t i = 0; i < o.x.size(); ++i) s.x[i] += times * o.x[i];
    } else {
      s.others += times * seconds_of(c, o, bytes);
    }
  }
  return s;
}

std::vector<std::unique_ptr<ModelRun>> attention_runs(const Mechanism& mechanism,
                                                      std::chrono::steady_clock::time_point start) {
  std::vector<std::unique_ptr<ModelRun>> runs;
  for (const AttentionPoint& p : kAttentionPoints) {
    if (p.causal && !mechanism.abilities("").causal) continue;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (took.count() > kMostSeconds) {
      throw SystemError(
          fmt::format("[calibrate] the machine is too busy: building what is measured "
                      "took {:.0f} s; need a quieter one, or fewer --threads",
                      took.count()));
    }
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
  const auto start = std::chrono::steady_clock::now();
  for (const Mechanism& mechanism : mechanisms()) {
    all.push_back({mechanism.name, attention_runs(mechanism, start), {}, {}});
    require(!all.back().runs.empty(), "[calibrate] {} ran on no shape; need one", mechanism.name);
    for (const auto& run : all.back().runs) {
      jobs.emplace_back([&run = *run] { run.forward(); });
      jobs.emplace_back([&run = *run] { run.gradients(); });
    }
  }
  const std::size_t rounds = thread_count() == 1 ? 3 : 2;
  const std::vector<Samples> samples =
      sample(jobs, within_limits({.rounds = rounds, .most_rounds = 2 * rounds}));
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
    Rates& rates = c.rates[rate];
    learn(points, rates.warm, rates.error);
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
    ClosingPoint{"encoder", 3, 2, 64, 96, 1, "flash"},
    ClosingPoint{"decoder", 4, 4, 96, 48, 3, "full"},
    ClosingPoint{"encoder", 4, 6, 384, 16, 1, "flash"},
    ClosingPoint{"decoder", 2, 8, 512, 1, 1, "flash"},
};

// {seconds of the calls, their number} of a pass, and what it took.
TimedPoint closing_point(const Calibration& c, std::span<const Operation> operations,
                         std::size_t bytes, const Samples& samples) {
  double sum = 0.0;
  double calls = 0.0;
  for (const Operation& o : operations) {
    const auto times = static_cast<double>(o.times);
    sum += times * seconds_of(c, o, static_cast<double>(bytes));
    calls += times;
  }
  return {{sum, calls}, samples.undisturbed()};
}

Closing closing(std::span<const TimedPoint> points) {
  const Fit fit = fit_seconds(points);
  return {fit.coefficients[0], fit.coefficients[1], fit.error};
}

void calibrate_models(Calibration& c) {
  struct Runs {
    std::unique_ptr<ModelRun> inference;
    std::unique_ptr<ModelRun> training;
  };
  std::vector<Runs> runs;
  std::vector<Job> jobs;
  for (const ClosingPoint& p : kClosingPoints) {
    ModelConfig config;
    config.family = p.family;
    config.layers = p.layers;
    config.heads = p.heads;
    config.d_model = p.d;
    config.max_length = p.length;
    config.attention = p.attention;
    const RunShape shape{p.batch, p.length, 0};
    runs.push_back({std::make_unique<ModelRun>(config, shape, Purpose::kInference),
                    std::make_unique<ModelRun>(config, shape)});
    jobs.emplace_back([&run = *runs.back().inference] { run.forward(); });
    jobs.emplace_back([&run = *runs.back().training] { run.step(); });
  }
  const std::vector<Samples> samples = sample(jobs, within_limits({}));
  std::vector<TimedPoint> forward;
  std::vector<TimedPoint> training;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Model& packed = runs[i].inference->model();
    const Batch& batch = runs[i].inference->batch();
    forward.push_back(closing_point(c, forward_operations(packed, batch),
                                    forward_bytes(packed, batch), samples[2 * i]));
    const Model& model = runs[i].training->model();
    const OptimizerConfig& optimizer = runs[i].training->train_config().optimizer;
    training.push_back(closing_point(c, step_operations(model, batch, optimizer),
                                     step_bytes(model, batch, optimizer), samples[2 * i + 1]));
  }
  c.forward = closing(forward);
  c.training = closing(training);
}

}  // namespace

Calibration calibrate(const std::function<void(std::string_view)>& report) {
  const auto start = std::chrono::steady_clock::now();
  const int threads = thread_count();
  Calibration c;
  c.machine = this_machine();
  c.fma_peak = fma_peak();
  for (int stage = threads > 1 ? 0 : 1; stage < 2; ++stage) {
    const UsedThreads use(stage == 0 ? 1 : threads);
    const char* by = stage == 0 ? " on one thread" : "";
    report(fmt::format("kernels{}", by));
    calibrate_kernels(c, Caches{});
    report(fmt::format("attention{}", by));
    for (const MeasuredAttention& m : measure_attention()) fit_attention(c, m);
  }
  report("whole models");
  calibrate_models(c);
  c.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return c;
}

}  // namespace longspan
