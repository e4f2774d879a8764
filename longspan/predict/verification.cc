#include "longspan/predict/verification.h"

#include <algorithm>
#include <array>

#include "longspan/base/cost.h"
#include "longspan/base/resident.h"

namespace longspan {

namespace {

Cost total(const CostTable& table) {
  Cost sum;
  for (const auto& [layer, cost] : table) sum += cost;
  return sum;
}

template <class Body>
Meter metered(Body body) {
  Meter meter;
  const Meter::Use use(meter);
  body();
  return meter;
}

void count(ModelRun& run, Verification& v) {
  // How many rows each expert has is a fact that comes with the batch: that of the run.
  std::vector<std::int32_t> loads;
  const auto predicted = [&](bool training) {
    Batch batch = run.batch();
    loads = run.model().loads();
    batch.loads = loads;
    return total(run.model().cost(batch, training));
  };
  const Meter inference = metered([&] { run.forward(); });
  const Cost once = predicted(/*training=*/false);
  v.counts.push_back({"inference", once.forward, inference.total(Phase::kForward)});
  v.inference_arena = {run.model().inference_bytes(run.batch()), run.model().arena().peak()};

  const Meter training = metered([&] { run.gradients(); });
  const Cost step = predicted(/*training=*/true);
  v.counts.push_back({"forward", step.forward, training.total(Phase::kForward)});
  v.counts.push_back({"backward", step.backward, training.total(Phase::kBackward)});
  v.counts.push_back({"update", step.update, training.total(Phase::kUpdate)});
  v.training_arena = {run.model().training_bytes(run.batch()), run.model().arena().peak()};
}

}  // namespace

void warm_up_process() {
  ModelConfig small;
  small.layers = 1;
  ModelRun run(small, {.batch = 2, .length = 64});
  run.step();
}

bool CountCheck::equal() const { return same_arithmetic(predicted, measured); }

std::optional<double> MemoryCheck::error() const {
  if (std::min(predicted(), resident) < kTellingGrowth) return std::nullopt;
  return static_cast<double>(predicted()) / static_cast<double>(resident) - 1.0;
}

bool Verification::counts_equal() const {
  return std::ranges::all_of(counts, [](const CountCheck& c) { return c.equal(); });
}

MemoryCheck check_memory(const ModelConfig& config, const RunShape& shape) {
  warm_up_process();
  const std::size_t before = resident_bytes();
  ModelRun run(config, shape);
  const Parameters& parameters = run.model().parameters();
  const std::size_t trained = sizeof(float) * parameters.count();
  MemoryCheck check;
  check.arena.predicted = run.model().training_bytes(run.batch());
  check.weights = sizeof(float) * parameters.total();
  check.gradients = trained;
  check.optimizer = Optimizer::state_blocks(run.train_config().optimizer.kind) * trained;
  run.step();
  check.arena.measured = run.model().arena().peak();
  check.resident = std::max(peak_resident_bytes(), before + 1) - before;
  return check;
}

Verification verify(const ModelConfig& config, const RunShape& shape,
                    const Calibration* calibration) {
  Verification v;
  ModelRun run(config, shape);
  count(run, v);
  ModelRun inference(config, shape, Purpose::kInference);
  const std::array<Job, 2> jobs = {[&] { inference.forward(); }, [&] { run.step(); }};
  const std::vector<Samples> samples = sample(jobs);
  v.forward = samples[0];
  v.step = samples[1];
  if (calibration != nullptr) {
    const OptimizerConfig& optimizer = run.train_config().optimizer;
    v.predicted_forward = predict_forward(*calibration, inference.model(), inference.batch());
    v.predicted_step = predict_step(*calibration, run.model(), run.batch(), optimizer);
  }
  return v;
}

}  // namespace longspan
