#include "longspan/training/training_run.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "longspan/base/error.h"
#include "longspan/io/atomic_file.h"

namespace longspan {

namespace {

// What the task says of the model; the rest is the user's.
void fit(const ModelNeeds& needs, std::size_t hidden, ModelConfig& model) {
  model.family = needs.family;
  model.head = needs.head;
  model.loss = needs.loss;
  model.vocab = needs.vocabulary;
  model.classes = needs.classes;
  model.inputs = needs.inputs;
  model.max_length = std::max(needs.length, needs.source_length);
  if (needs.family == Family::kPerceptron) model.d_model = hidden;
  if (needs.family == Family::kEncoderDecoder && model.decoder_layers == 0) {
    model.decoder_layers = model.layers;
  }
}

}  // namespace

TrainingRun::TrainingRun(const TrainingOptions& options) : options_(options) {
  require(options.eval_every > 0 || (options.patience == 0 && !options.keep_best),
          "[train] --patience or --keep-best without validations; need --eval-every above 0");
  std::error_code ignored;
  const bool there = std::filesystem::exists(options_.out, ignored);
  require(!there || std::filesystem::is_directory(options_.out, ignored),
          "[train] {} is a file; need a directory", options_.out);
  if (there) lock_.emplace(options_.out);
  if (options_.resume) {
    go_on();
  } else {
    begin();
  }
  const ModelNeeds needs = task_->needs();
  shape_ = {
      .batch = config_.data.batch, .length = needs.length, .source_length = needs.source_length};
  batch_memory_.resize(config_.data.batches_per_update);
  batches_.resize(config_.data.batches_per_update);
  model_ = std::make_unique<Model>(config_.model);
  if (options_.resume) check_weights(options_.out, *model_);
  model_->allocate(config_.train.seed);
  trainer_ = std::make_unique<Trainer>(*model_, config_.train);
  trainer_->rule().prepare(shape_);
  if (options_.resume) restore(options_.out, *model_, *trainer_, patience_);
  first_step_ = trainer_->steps();
}

void TrainingRun::require_free() const {
  require(options_.resume || options_.overwrite || !checkpoint_exists(options_.out),
          "[train] {} already holds a checkpoint; use --resume to go on with it, --out for another "
          "place, or --overwrite",
          options_.out);
}

void TrainingRun::begin() {
  require_free();
  config_ = options_.run;
  const auto data = config_.options.find("data");
  require(!find_task(config_.data.task).has_option("data") ||
              (data != config_.options.end() && !data->second.empty()),
          "[train] no data; need --data FILE, or a directory of images");
  task_ = config_.make_task();
  task_->open();
  const ModelNeeds needs = task_->needs();
  const std::size_t per_step = config_.data.batch * config_.data.batches_per_update;
  require(needs.length > 0 && per_step > 0,
          "[train] length {}, batch {}, accumulate {}; need at least 1 of each", needs.length,
          config_.data.batch, config_.data.batches_per_update);
  const std::size_t examples = task_->examples(Split::kTraining);
  require(options_.epochs == 0 || !task_->endless(),
          "[train] {} epochs of {}, whose sequences are drawn anew for ever; need --steps",
          options_.epochs, task_->name());
  if (options_.epochs > 0) options_.steps = options_.epochs * examples / per_step;
  config_.options = task_->options();
  config_.data.checksum = task_->checksum();
  if (const Vocabulary* vocabulary = task_->vocabulary()) config_.vocabulary = *vocabulary;
  fit(needs, options_.hidden, config_.model);
  ScheduleConfig& schedule = config_.train.schedule;
  schedule.total = options_.schedule_steps == 0 ? options_.steps : options_.schedule_steps;
  schedule.floor = std::min(schedule.floor, schedule.peak);
}

void TrainingRun::go_on() {
  config_ = run_config_from(Checkpoint(options_.out).config(), options_.out);
  require(config_.data.task == options_.run.data.task,
          "[train] {} was trained on {}; need the same task to resume, not {}", options_.out,
          config_.data.task, options_.run.data.task);
  const auto given = options_.run.options.find("data");
  if (given != options_.run.options.end() && !given->second.empty()) {
    config_.options["data"] = given->second;
  }
  task_ = config_.make_task();
  require(task_->checksum() == config_.data.checksum,
          "[train] {} is not the file that {} was trained on; need the same data to resume",
          config_.options["data"], options_.out);
  task_->open();
}

std::span<const Batch> TrainingRun::batches(std::uint64_t step) {
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    batches_[i] = task_->training_batch(config_.train.seed, step * batches_.size() + i,
                                        config_.data.batch, batch_memory_[i]);
  }
  return batches_;
}

void TrainingRun::judge(TrainingObserver& observer, TrainingResult& result) {
  const EvaluateOptions options{.batch = config_.data.batch,
                                .limit = options_.eval_examples,
                                .stops = [&] { return observer.stops(); }};
  try {
    patience_.due = true;
    result.judged.push_back(
        {trainer_->steps(), evaluate(*model_, *task_, task_->held_out(), options)});
  } catch (const EvaluationStopped&) {
    result.interrupted = true;
    return;
  }
  patience_.due = false;
  const JudgedStep& judged = result.judged.back();
  observer.judged(judged);
  const bool better = patience_.improved(judged.judgement.loss(), judged.step);
  if (better && options_.keep_best) {
    save(std::filesystem::path(options_.out) / "best", config_, *model_, *trainer_, patience_);
  }
}

void TrainingRun::align(TrainingObserver& observer, std::span<const Batch> step_batches,
                        TrainingResult& result) {
  AlignedStep aligned{.step = trainer_->steps()};
  aligned.parameters = measure_alignment(*model_, trainer_->rule(), step_batches.front(),
                                         derive(config_.train.seed, "alignment"));
  aligned.mean_cosine = mean_cosine(*model_, aligned.parameters);
  observer.aligned(aligned);
  result.aligned.push_back(std::move(aligned));
}

TrainingResult TrainingRun::run(TrainingObserver& observer) {
  if (!lock_) {
    make_directory("train", options_.out);
    lock_.emplace(options_.out);
    if (trainer_->steps() == 0) require_free();  // another one may have come and gone
  }
  if (first_step_ == 0) save_now();
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  TrainingResult result;
  result.last.step = first_step_;
  std::size_t tokens = 0;
  const auto exhausted = [&] {
    return options_.patience > 0 && patience_.waited >= options_.patience;
  };
  if (patience_.due) judge(observer, result);
  while (!result.interrupted && trainer_->steps() < options_.steps && !exhausted()) {
    if (observer.stops()) {
      result.interrupted = true;
      break;
    }
    const auto step_batches = batches(trainer_->steps());
    if (options_.align_every > 0 && trainer_->steps() % options_.align_every == 0) {
      align(observer, step_batches, result);
    }
    result.last = trainer_->step(step_batches);
    if (!result.last.finite) break;
    tokens += result.last.tokens;
    const std::uint64_t step = result.last.step;
    observer.stepped(result.last, static_cast<double>(tokens) / seconds());
    if (options_.eval_every > 0 && step % options_.eval_every == 0) judge(observer, result);
    if (!result.interrupted && options_.save_every > 0 && step % options_.save_every == 0) {
      save_now();
    }
  }
  save_now();
  lock_.reset();
  result.seconds = seconds();
  result.tokens_per_second =
      result.seconds > 0 ? static_cast<double>(tokens) / result.seconds : 0.0;
  result.out_of_patience = exhausted() && trainer_->steps() < options_.steps;
  result.patience = patience_;
  return result;
}

std::size_t TrainingRun::weight_bytes() const {
  const std::size_t blocks = 2 + trainer_->optimizer().state().size();
  return blocks * sizeof(float) * model_->parameters().count();
}

Work TrainingRun::step_work() const {
  Work work;
  for (const auto& [layer, cost] : trainer_->rule().cost(shape_)) {
    work += cost.forward + cost.backward + cost.update;
  }
  return config_.data.batches_per_update * work;
}

}  // namespace longspan
