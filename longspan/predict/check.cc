#include "longspan/predict/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "longspan/attention/registry.h"
#include "longspan/base/integers.h"
#include "longspan/base/median.h"

namespace longspan {

namespace {

void gate(ModelConfig& c) {
  c.gated = true;
  c.activation = Activation::kSilu;
  c.norm = NormKind::kRms;
  c.positions = PositionKind::kRotary;
  c.bias = false;
  c.d_ff = 512;
}

void classify(ModelConfig& c) {
  c.wiring = Wiring::kPostNorm;
  c.activation = Activation::kGelu;
  c.head = HeadKind::kClassifier;
  c.classes = 10;
  c.tied = false;
}

void enlarge_vocabulary(ModelConfig& c) { c.vocab = 1000; }
void reverse(ModelConfig& c) { c.wiring = Wiring::kReversible; }
void change_nothing(ModelConfig& /*c*/) {}

struct Scale {
  const char* name;
  Family family;
  std::size_t layers, heads, d_model, batch;
  std::array<std::size_t, 4> lengths;
  void (*change)(ModelConfig&) = change_nothing;
};
constexpr std::array kScales = {
    Scale{"narrow", Family::kEncoder, 2, 3, 72, 2, {120, 260, 810, 1700}},
    Scale{"gated", Family::kDecoder, 3, 4, 160, 2, {56, 210, 450, 800}, gate},
    Scale{"post", Family::kEncoder, 2, 8, 320, 1, {110, 280, 512, 1100}, classify},
    Scale{"words", Family::kDecoder, 1, 4, 256, 6, {36, 90, 150, 280}, enlarge_vocabulary},
    Scale{"reversible", Family::kEncoder, 3, 4, 80, 1, {180, 520, 1000, 2000}, reverse},
    Scale{"wide", Family::kEncoder, 1, 9, 576, 1, {48, 130, 280, 440}},
};

ModelConfig config_of(const Scale& s, std::string_view attention, std::size_t length) {
  ModelConfig c;
  c.family = s.family;
  c.layers = s.layers;
  c.heads = s.heads;
  c.d_model = s.d_model;
  c.max_length = length;
  c.attention = attention;
  s.change(c);
  return c;
}

}  // namespace

std::vector<GridPoint> check_grid() {
  constexpr std::size_t kMost = 72;  // so that it stays within minutes
  const std::size_t all = mechanisms().size() * kScales.size() * kScales[0].lengths.size();
  const std::size_t stride = std::max<std::size_t>(1, divide_up(all, kMost));
  std::vector<GridPoint> grid;
  std::size_t index = 0;
  std::size_t shift = 0;
  for (const Mechanism& m : mechanisms()) {
    ++shift;
    const bool causal = m.abilities("").causal;
    for (std::size_t n = 0; n < kScales[0].lengths.size(); ++n) {
      for (const Scale& s : kScales) {
        // Shifted by length and mechanism, so that no scale is always passed over.
        if ((index++ + n + shift) % stride != 0) continue;
        Scale own = s;
        if (!causal) own.family = Family::kEncoder;
        const std::size_t length = s.lengths[n];
        grid.push_back({s.name, config_of(own, m.name, length), {s.batch, length, 0}});
      }
    }
  }
  return grid;
}

std::vector<CheckedPoint> check_times(const Calibration& c,
                                      const std::function<void(std::string_view)>& report) {
  std::vector<CheckedPoint> checked;
  std::vector<std::unique_ptr<ModelRun>> runs;
  std::vector<Job> jobs;
  for (const GridPoint& p : check_grid()) {
    runs.push_back(std::make_unique<ModelRun>(p.config, p.shape, Purpose::kInference));
    ModelRun& inference = *runs.back();
    runs.push_back(std::make_unique<ModelRun>(p.config, p.shape));
    ModelRun& run = *runs.back();
    const OptimizerConfig& optimizer = run.train_config().optimizer;
    checked.push_back({p,
                       {predict_forward(c, inference.model(), inference.batch()), {}},
                       {predict_step(c, run.model(), run.batch(), optimizer), {}}});
    jobs.emplace_back([&inference] { inference.forward(); });
    jobs.emplace_back([&run] { run.step(); });
  }
  report(fmt::format("{} points, forward and training step", checked.size()));
  const std::vector<Samples> samples = sample(jobs);
  for (std::size_t i = 0; i < checked.size(); ++i) {
    checked[i].forward.measured = samples[2 * i];
    checked[i].step.measured = samples[2 * i + 1];
  }
  return checked;
}

ErrorSummary summarize(const std::vector<CheckedPoint>& points, bool step) {
  std::vector<double> errors;
  std::vector<double> spreads;
  for (const CheckedPoint& p : points) {
    const TimeCheck& check = step ? p.step : p.forward;
    errors.push_back(std::abs(check.error()));
    spreads.push_back(check.measured.spread());
  }
  return {median(errors), *std::ranges::max_element(errors), median(spreads)};
}

}  // namespace longspan
