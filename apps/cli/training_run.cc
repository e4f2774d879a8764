#include "training_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <csignal>

#include "longspan/base/error.h"
#include "longspan/base/memory.h"
#include "longspan/learning/alignment.h"
#include "longspan/measure/memory.h"

namespace longspan::cli {

namespace {

volatile std::sig_atomic_t stop_requested = 0;
void request_stop(int /*signal*/) { stop_requested = 1; }

}  // namespace

RunConfig TrainingRun::resumed() const {
  RunConfig config = run_config_from(Checkpoint(options_.out).config(), options_.out);
  if (!options_.run.data.data.empty()) config.data.data = options_.run.data.data;
  return config;
}

RunConfig TrainingRun::fresh(const RunConfig& given) const {
  require(options_.overwrite || !checkpoint_exists(options_.out),
          "[train] {} already holds a checkpoint; use --resume to go on with it, --out for another "
          "place, or --overwrite",
          options_.out);
  require(!given.data.data.empty(), "[train] no data; need --data FILE, or a directory of images");
  RunConfig config = given;
  require(config.data.length > 0 && config.data.batch > 0 && config.data.accumulate > 0,
          "[train] length {}, batch {}, accumulate {}; need at least 1 of each", config.data.length,
          config.data.batch, config.data.accumulate);
  config.model.bias = !options_.no_bias;
  config.model.tied = !options_.untied;
  config.train.schedule.total =
      options_.schedule_steps == 0 ? options_.steps : options_.schedule_steps;
  config.train.schedule.floor = std::min(config.train.schedule.floor, config.train.schedule.peak);
  return config;
}

void TrainingRun::build(const RunConfig& config, const Batch& shape) {
  config_ = config;
  shape_ = shape;
  model_ = std::make_unique<Model>(config_.model);
  model_->allocate(config_.train.seed);
  trainer_ = std::make_unique<Trainer>(*model_, config_.train);
  // Refused here, before anything is written, if it cannot be.
  trainer_->rule().prepare(shape);
  if (options_.resume) restore(options_.out, *model_, *trainer_);
  first_step_ = trainer_->steps();
}

void TrainingRun::report_model() {
  const std::size_t blocks = 2 + trainer_->optimizer().state().size();
  fmt::print(stderr,
             "{}; {} parameters; weights, gradients and optimiser {}; activations {} ({})\n",
             describe_data(), model_->parameters().count(),
             format_bytes(blocks * sizeof(float) * model_->parameters().count()),
             format_bytes(trainer_->rule().walk(shape_).peak), config_.train.rule);
  if (first_step_ > 0) fmt::print(stderr, "resuming {} at step {}\n", options_.out, first_step_);
}

void TrainingRun::evaluate(Progress& progress) {
  Judgement found = judge();
  found.json["step"] = trainer_->steps();
  history_.push_back(found.json);
  progress.note(fmt::format("step {}: {}", trainer_->steps(), found.text));
}

void TrainingRun::report_alignment(Progress& progress, std::span<const Batch> step_batches) {
  const auto all = measure_alignment(*model_, trainer_->rule(), step_batches.front(),
                                     derive(config_.train.seed, "alignment"));
  nlohmann::json by_parameter = nlohmann::json::object();
  const double mean = mean_cosine(*model_, all);
  progress.note(fmt::format("step {}: cos(ΔW_{}, ΔW_bp), mean over the matrices {:.4f}",
                            trainer_->steps(), config_.train.rule, mean));
  for (const Alignment& a : all) {
    by_parameter[a.parameter] = {{"cosine", a.cosine}, {"norm_ratio", a.ratio}};
    progress.note(fmt::format("  {:<40} {:>8.4f}   norm × {:.3g}", a.parameter, a.cosine, a.ratio));
  }
  alignments_.push_back(
      {{"step", trainer_->steps()}, {"mean_cosine", mean}, {"parameters", by_parameter}});
}

void TrainingRun::run() {
  if (!common_.quiet) report_model();
  std::signal(SIGINT, request_stop);
  std::signal(SIGTERM, request_stop);
  if (first_step_ == 0) save_now();
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  StepReport last;
  last.step = first_step_;
  {
    Progress progress(options_.steps, first_step_, common_.quiet);
    while (trainer_->steps() < options_.steps && stop_requested == 0) {
      const auto step_batches = batches(trainer_->steps());
      if (options_.align_every > 0 && trainer_->steps() % options_.align_every == 0) {
        report_alignment(progress, step_batches);
      }
      last = trainer_->step(step_batches);
      if (!last.finite) break;
      tokens_ += last.tokens;
      progress.update(last.step, fmt::format("loss {:.4f}  {:.0f} tokens/s  {}", last.loss,
                                             static_cast<double>(tokens_) / seconds(),
                                             format_bytes(resident_bytes())));
      if (options_.eval_every > 0 && last.step % options_.eval_every == 0) evaluate(progress);
      if (options_.save_every > 0 && last.step % options_.save_every == 0) save_now();
    }
  }
  save_now();
  finish(last, seconds());
}

void TrainingRun::finish(const StepReport& last, double seconds) {
  const bool interrupted = stop_requested != 0 && last.step < options_.steps;
  const double rate = seconds > 0 ? static_cast<double>(tokens_) / seconds : 0.0;
  if (common_.json) {
    Work work;
    for (const auto& [layer, cost] : trainer_->rule().cost(shape_)) {
      work += cost.forward + cost.backward + cost.update;
    }
    work = config_.data.accumulate * work;
    nlohmann::json result = {{"checkpoint", options_.out},
                             {"step", last.step},
                             {"loss", last.loss},
                             {"rule", config_.train.rule},
                             {"diverged", !last.finite},
                             {"interrupted", interrupted},
                             {"seconds", seconds},
                             {"tokens_per_second", rate},
                             {"parameters", model_->parameters().count()},
                             {"maccs_per_step", work.maccs},
                             {"flops_per_step", work.flops()},
                             {"peak_resident_bytes", peak_resident_bytes()},
                             {"validation", history_}};
    if (!alignments_.empty()) result["alignment"] = alignments_;
    fmt::print("{}\n", result.dump(2));
    return;
  }
  if (!last.finite) {
    fmt::print("diverged after step {}: the loss or gradient is not finite; try a lower --lr\n",
               last.step);
  }
  if (interrupted) {
    fmt::print("stopped at step {}; go on with: longspan train {} --out {} --resume --steps {}\n",
               last.step, options_.task, options_.out, options_.steps);
  }
  fmt::print("checkpoint of step {} in {} ({} at {:.0f} tokens/s)\n", last.step, options_.out,
             human_seconds(seconds), rate);
}

}  // namespace longspan::cli
