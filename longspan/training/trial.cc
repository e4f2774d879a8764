#include "longspan/training/trial.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "longspan/base/error.h"

namespace longspan {

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The median time of a step, without that of the evaluations between them: whoever takes the core
// away for a moment lengthens a few steps and decides nothing.
class TrialClock final : public TrainingObserver {
 public:
  TrialClock(const TrialObserver& observer, std::uint64_t steps) : observer_(observer) {
    constexpr std::uint64_t kRoom = 1U << 20U;
    seconds_.reserve(std::min(steps, kRoom));
  }

  bool stops() override { return stopped_ = stopped_ || observer_(steps_); }
  void stepped(const StepReport& report, double /*per_second*/) override {
    seconds_.push_back(since(last_));
    steps_ = report.step;
    stopped_ = observer_(report.step);
    last_ = Clock::now();
  }
  void judged(const JudgedStep& /*judged*/) override { last_ = Clock::now(); }

  double step_seconds() const { return median_of(seconds_); }
  void begin() { last_ = Clock::now(); }

 private:
  const TrialObserver& observer_;
  Clock::time_point last_ = Clock::now();
  std::vector<double> seconds_;  // of each step
  std::uint64_t steps_ = 0;
  bool stopped_ = false;
};

TrainingOptions options_of(const RunConfig& config) {
  TrainingOptions options;
  options.run = config;
  options.saves = false;
  return options;
}

}  // namespace

double median_of(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return 0.5 * (*middle + *std::max_element(values.begin(), middle));
}

std::optional<double> guessed(const Judgement& judgement, std::string_view metric) {
  struct Guess {
    std::string_view of, by;
  };
  constexpr std::array<Guess, 3> kGuesses = {
      {{"accuracy", "majority"}, {"loss", "unigram_loss"}, {"log_likelihood", "poisson"}}};
  for (const Guess& guess : kGuesses) {
    if (guess.of != metric) continue;
    const auto known = std::ranges::find(judgement.metrics, guess.by, &Metric::name);
    if (known != judgement.metrics.end()) return known->value;
  }
  return std::nullopt;
}

RunConfig trial_config(std::string_view task, const TaskOptions& options, const Protocol& protocol,
                       std::string_view attention, std::uint64_t seed) {
  RunConfig run;
  run.data.task = task;
  run.data.batch = protocol.batch;
  run.options = options;
  run.model.layers = protocol.layers;
  run.model.d_model = protocol.d_model;
  run.model.heads = protocol.heads;
  run.model.positions = protocol.positions;
  run.model.init_deviation = 1.0F / std::sqrt(static_cast<float>(protocol.d_model));
  run.model.attention = attention;
  if (!protocol.before.empty()) run.model.attention = protocol.before + "|" + run.model.attention;
  run.train.seed = seed;
  run.train.schedule.peak = static_cast<float>(protocol.learning_rate);
  run.course.steps = protocol.steps;
  // Ten points of a curve.
  run.course.eval_every = std::max<std::uint64_t>(1, protocol.steps / 10);
  return run;
}

TrialModel trial_model(const RunConfig& config) {
  const std::unique_ptr<Task> task = config.make_task();
  task->open();
  require(task->examples(Split::kTest) + task->examples(task->held_out()) > 0,
          "[{}] no examples are held out to judge by; need some", task->name());
  ModelConfig model = config.model;
  const ModelNeeds needs = task->needs();
  require(needs.family != Family::kPerceptron,
          "[{}] a perceptron has no attention that could be compared; need model=encoder",
          task->name());
  fit(needs, /*hidden=*/config.model.d_model, model);
  return {std::make_unique<Model>(model),
          {.batch = config.data.batch * model.sequences_each(),
           .length = needs.length,
           .source_length = needs.source_length}};
}

TrialResult run_trial(const RunConfig& config, const TrialObserver& observer) {
  const Clock::time_point start = Clock::now();
  TrialClock clock(observer, config.course.steps);
  TrainingRun run(options_of(config));
  clock.begin();
  TrainingResult trained = run.run(clock);
  TrialResult result;
  result.curve = std::move(trained.judged);
  result.interrupted = trained.interrupted;
  result.divergence = trained.divergence;
  result.step_seconds = clock.step_seconds();
  const Model& model = run.model();
  result.parameters = model.parameters().count();
  result.memory = run.weight_bytes() + run.activation_bytes();
  const ModelNeeds needs = run.task().needs();
  if (model.decodes()) result.state = model.cache_bytes(1, needs.length, needs.source_length);
  const bool has_test = run.task().examples(Split::kTest) > 0;
  if (!result.interrupted && !result.divergence) {
    try {
      result.judgement = run.evaluate(has_test ? Split::kTest : run.task().held_out(), clock);
    } catch (const EvaluationStopped&) {
      result.interrupted = true;
    }
  }
  result.seconds = since(start);
  return result;
}

}  // namespace longspan
