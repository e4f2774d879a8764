#include "longspan/training/training_run.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <utility>

#include "longspan/base/error.h"
#include "longspan/io/atomic_file.h"

namespace longspan {

void fit(const ModelNeeds& needs, std::size_t hidden, ModelConfig& model) {
  model.family = needs.family;
  model.head = needs.head;
  model.pool = needs.pool;
  model.loss = needs.loss;
  model.vocab = needs.vocabulary;
  model.classes = needs.classes;
  model.inputs = needs.inputs;
  model.max_length = std::max({needs.length, needs.source_length, needs.judged_length});
  if (needs.family == Family::kPerceptron) model.d_model = hidden;
  if (needs.family == Family::kEncoderDecoder && model.decoder_layers == 0) {
    model.decoder_layers = model.layers;
  }
}

namespace {

constexpr const char* kTeacherField = "teacher/teacher";

std::string absolute_path(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::absolute(path, ignored).lexically_normal().string();
}

// What a run may change on its way: how far it goes and what it shows, and the learning rate of the
// steps to come, on which neither model nor batches nor the optimiser's averages depend.
bool may_change(std::string_view path) {
  constexpr std::array<std::string_view, 6> kRates = {
      "training/schedule",       "training/learning_rate", "training/learning_rate_floor",
      "training/schedule_steps", "training/warmup",        "training/clip"};
  return path.starts_with("course/") || std::ranges::find(kRates, path) != kRates.end();
}

std::string shown(const nlohmann::json& value) {
  // Floats as they were typed, not as doubles.
  if (value.is_number_float()) return fmt::format("{}", value.get<float>());
  if (value.is_string() && value.get_ref<const std::string&>().empty()) return "none";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

TrainingRun::TrainingRun(const TrainingOptions& options) : options_(options) {
  if (options_.saves) check_place();
  if (options_.resume) {
    go_on();
  } else {
    begin();
  }
  if (options_.review) options_.review(config_);
  const CourseConfig& course = config_.course;
  require(course.eval_every > 0 || (course.patience == 0 && !course.keep_best),
          "[train] --patience or --keep-best without validations; need --eval-every above 0");
  require(course.eval_every <= course.steps || (course.patience == 0 && !course.keep_best),
          "[train] --patience or --keep-best with {} steps and a validation after every {}; need "
          "--eval-every of at most {}",
          course.steps, course.eval_every, course.steps);
  if (course.keep_best && options_.saves) check_best();
  const auto data = config_.options.find("data");
  std::string_view examined = task_->name();
  if (data != config_.options.end()) examined = data->second;
  require(course.eval_every == 0 || course.eval_every > course.steps ||
              task_->examples(task_->held_out()) > 0,
          "[train] {} has no examples that are held out to judge by; need more of them, or "
          "--eval-every 0",
          examined);
  const ModelNeeds needs = task_->needs();
  shape_ = {.batch = config_.data.batch * config_.model.sequences_each(),
            .length = needs.length,
            .source_length = needs.source_length};
  batch_memory_.resize(config_.data.batches_per_update);
  packings_.resize(config_.data.batches_per_update);
  tasked_.resize(config_.data.batches_per_update);
  batches_.resize(config_.data.batches_per_update);
  model_ = std::make_unique<Model>(config_.model);
  require(model_->parameters().count() > 0,
          "[train] no parameter of this model is trained; need fewer --frozen-layers");
  if (config_.teacher.given()) teacher_.emplace(config_.teacher.path, config_);
  if (options_.resume) check_weights(options_.out, *model_);
  model_->allocate(config_.train.seed);
  trainer_ = std::make_unique<Trainer>(*model_, config_.train);
  trainer_->rule().prepare(shape_);
  if (options_.resume) restore(options_.out, *model_, *trainer_, patience_);
  first_step_ = trainer_->steps();
}

void TrainingRun::check_place() {
  require(!options_.out.empty(), "[train] --out has no name; need a directory");
  std::error_code ignored;
  const auto status = std::filesystem::symlink_status(options_.out, ignored);
  const bool there = std::filesystem::exists(options_.out, ignored);
  require(there || !std::filesystem::is_symlink(status),
          "[train] {} is a link that leads nowhere; need a directory", options_.out);
  require(!there || std::filesystem::is_directory(options_.out, ignored),
          "[train] {} is a file; need a directory", options_.out);
  if (there) lock();
}

void TrainingRun::check_best() const {
  const std::filesystem::path best = std::filesystem::path(options_.out) / "best";
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::symlink_status(best, ignored);
  require(!std::filesystem::exists(status) || std::filesystem::is_directory(best, ignored),
          "[train] --keep-best, and {} is no directory; need it away, or another --out",
          best.string());
}

void TrainingRun::require_free() const {
  if (options_.resume || !options_.saves) return;
  const auto& out = options_.out;
  require(!is_foreign(out),
          "[train] {} has a config.json of another program; need another place in --out", out);
  require(options_.overwrite || !checkpoint_exists(out),
          "[train] {} already holds a checkpoint; use --resume to go on with it, --out for another "
          "place, or --overwrite",
          out);
  // A run writes its log behind its first checkpoint.
  const std::filesystem::path log = std::filesystem::path(out) / "metrics.jsonl";
  std::error_code ignored;
  require(options_.overwrite || checkpoint_exists(out) || !std::filesystem::exists(log, ignored),
          "[train] {} is there without a checkpoint; need another place in --out, or --overwrite",
          log.string());
}

void TrainingRun::begin() {
  require_free();
  config_ = options_.run;
  const auto data = config_.options.find("data");
  const bool given = data != config_.options.end() && !data->second.empty();
  task_ = config_.make_task();
  require(given || !task_->needs_data(),
          "[train] no data; need --data FILE, or a directory of images");
  task_->open();
  config_.options = task_->options();
  config_.data.checksum = task_->checksum();
  if (given) config_.data.data_path = absolute_path(config_.options["data"]);
  if (const Vocabulary* vocabulary = task_->vocabulary()) config_.vocabulary = *vocabulary;
  config_.classes = task_->class_names();
  config_.learned = task_->learned();
  if (config_.teacher.given()) {
    config_.teacher.path = absolute_path(config_.teacher.directory);
    const std::filesystem::path out = options_.out;
    for (const std::filesystem::path& own : {out, out / "best"}) {
      std::error_code ignored;
      require(!options_.saves || !std::filesystem::equivalent(config_.teacher.path, own, ignored),
              "[train] --teacher {} is in --out, where the student replaces it; need another "
              "directory",
              config_.teacher.directory);
    }
    config_.teacher.checksum = checkpoint_checksum(config_.teacher.path);
  }
  complete(config_);
}

void TrainingRun::complete(RunConfig& config) const {
  const ModelNeeds needs = task_->needs();
  const std::size_t per_step = config.data.batch * config.data.batches_per_update;
  require(needs.length > 0 && per_step > 0,
          "[train] length {}, batch {}, accumulate {}; need at least 1 of each", needs.length,
          config.data.batch, config.data.batches_per_update);
  const std::size_t examples = task_->examples(Split::kTraining);
  require(options_.epochs == 0 || !task_->endless(),
          "[train] --epochs with {}, whose sequences are drawn anew for ever; need --steps",
          task_->name());
  if (options_.epochs > 0) config.course.steps = options_.epochs * examples / per_step;
  fit(needs, options_.hidden, config.model);
  if (config.teacher.given()) {
    require(config.model.loss == "cross-entropy",
            "[train] --teacher with {}, whose loss is {}; need a task of cross-entropy",
            task_->name(), config.model.loss);
    config.model.loss = config.teacher.distillation.loss();
  }
  require(config.model.positions != PositionKind::kTemporal || task_->timed(),
          "[train] --positions temporal with {}, whose tokens have no times; need another",
          task_->name());
  ScheduleConfig& schedule = config.train.schedule;
  require(
      !options_.asked.contains("training/learning_rate_floor") || schedule.floor <= schedule.peak,
      "[train] --lr-floor {} above --lr {}; need at most that", schedule.floor, schedule.peak);
  schedule.total = options_.schedule_steps == 0 ? config.course.steps : options_.schedule_steps;
  schedule.floor = std::min(schedule.floor, schedule.peak);
}

void TrainingRun::go_on() {
  const nlohmann::json saved = open_run(options_.out).config();
  config_ = run_config_from(saved, options_.out);
  require(config_.data.task == options_.run.data.task,
          "[train] {} was trained on {}; need the same task to resume, not {}", options_.out,
          config_.data.task, options_.run.data.task);
  open_saved_task();
  find_saved_teacher();
  take_changes(saved.contains("course"));
}

void TrainingRun::open_saved_task() {
  RunConfig found = config_;
  const auto given = options_.run.options.find("data");
  if (given != options_.run.options.end() && !given->second.empty()) {
    found.options["data"] = given->second;
    config_.options["data"] = given->second;
    config_.data.data_path = absolute_path(given->second);
  } else {
    found.find_data();
  }
  task_ = found.make_task();
  require(config_.data.checksum.empty() || task_->checksum() == config_.data.checksum,
          "[train] {} is not what {} was trained on; need the same data to resume",
          found.options["data"], options_.out);
  task_->open();
  // Of runs that earlier versions began.
  if (config_.classes.empty()) config_.classes = task_->class_names();
  if (config_.learned.empty()) config_.learned = task_->learned();
}

void TrainingRun::find_saved_teacher() {
  TeacherConfig& teacher = config_.teacher;
  if (!teacher.given()) return;
  if (options_.asked.contains(kTeacherField)) {
    teacher.directory = options_.run.teacher.directory;
    teacher.path = absolute_path(teacher.directory);
  }
  require(checkpoint_exists(teacher.path),
          "[train] {}, from which {} learned, is gone; need --teacher with the same run",
          teacher.path, options_.out);
  require(checkpoint_checksum(teacher.path) == teacher.checksum,
          "[train] {} is not what {} learned from; need the same teacher to resume", teacher.path,
          options_.out);
}

// What was asked for is completed as a fresh run's configuration is, so that the command which began
// a run also goes on with it.
void TrainingRun::take_changes(bool had_course) {
  using nlohmann::json;
  const auto at = [](const std::string& path) { return json::json_pointer("/" + path); };
  json run = to_json(config_);
  const json asked = to_json(options_.run);
  json wanted = run;
  for (const auto& [path, name] : options_.asked) wanted[at(path)] = asked.at(at(path));
  RunConfig whole = run_config_from(wanted, options_.out);
  complete(whole);
  const json completed = to_json(whole);
  for (const auto& [path, name] : options_.asked) {
    // They were compared by their checksums.
    if (path == "data/data" || (path == kTeacherField && config_.teacher.given())) continue;
    const json& want = (path.starts_with("data/") ? wanted : completed).at(at(path));
    json& has = run[at(path)];
    if (want == has) continue;
    require(may_change(path),
            "[train] {} {} on resuming {}, which has {} and cannot change that; leave it out, or "
            "begin another run",
            name, shown(want), options_.out, shown(has));
    if (had_course || !path.starts_with("course/")) {
      changes_.push_back({name, shown(has), shown(want)});
    }
    has = want;
  }
  config_ = run_config_from(run, options_.out);
  ScheduleConfig& schedule = config_.train.schedule;
  schedule.floor = std::min(schedule.floor, schedule.peak);
}

std::span<const Batch> TrainingRun::batches(std::uint64_t step) {
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    tasked_[i] = task_->training_batch(config_.train.seed, step * batches_.size() + i,
                                       config_.data.batch, batch_memory_[i]);
    if (teacher_) teacher_->teach(tasked_[i], batch_memory_[i]);
    batches_[i] = trainer_->rule().packs() ? packings_[i].pack(*model_, tasked_[i]) : tasked_[i];
  }
  return batches_;
}

Judgement TrainingRun::evaluate(Split split, TrainingObserver& observer) {
  return longspan::evaluate(*model_, *task_, split, {.batch = config_.data.batch, .stops = [&] {
                                                       return observer.stops();
                                                     }});
}

// Units of the task since the run began.
struct TrainingRun::Pace {
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  std::size_t units = 0;

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start).count(); }
  double per_second(double took) const {
    return took > 0 ? static_cast<double>(units) / took : 0.0;
  }
};

void TrainingRun::judge(TrainingObserver& observer, const Pace& pace, TrainingResult& result) {
  const EvaluateOptions options{.batch = config_.data.batch,
                                .limit = config_.course.eval_examples,
                                .stops = [&] { return observer.stops(); }};
  try {
    patience_.due = true;
    result.judged.push_back(
        {trainer_->steps(), longspan::evaluate(*model_, *task_, task_->held_out(), options)});
  } catch (const EvaluationStopped&) {
    result.interrupted = true;
    return;
  }
  patience_.due = false;
  const JudgedStep& judged = result.judged.back();
  observer.judged(judged);
  if (log_) log_->add(judged, pace.seconds());
  const bool better = patience_.improved(judged.judgement.loss(), judged.step);
  if (better && config_.course.keep_best && options_.saves) {
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

void TrainingRun::save_now(TrainingResult& result) {
  result.divergence = diverged_weights(*model_, trainer_->steps());
  if (result.divergence) return;
  if (log_) log_->sync();
  if (options_.saves) save(options_.out, config_, *model_, *trainer_, patience_);
  result.saved = trainer_->steps();
}

void TrainingRun::advance(TrainingObserver& observer, Pace& pace, TrainingResult& result) {
  const CourseConfig& course = config_.course;
  const auto step_batches = batches(trainer_->steps());
  if (course.align_every > 0 && trainer_->steps() % course.align_every == 0) {
    align(observer, step_batches, result);
  }
  const auto proven = [&] {
    if (std::exchange(save_due_, false)) save_now(result);
  };
  const StepReport report =
      trainer_->step(step_batches, {}, proven, [&] { return observer.stops(); });
  result.interrupted = report.stopped;
  if (report.stopped) return;
  result.last = report;
  if (!result.last.finite) {
    result.divergence = find_divergence(*model_, result.last, step_batches);
  }
  if (result.divergence) return;
  for (const Batch& batch : tasked_) pace.units += task_->units(batch);
  const std::uint64_t step = result.last.step;
  observer.stepped(result.last, pace.per_second(pace.seconds()));
  if (log_ && course.report_every > 0 && step % course.report_every == 0) {
    log_->add(result.last, pace.seconds());
  }
  if (course.eval_every > 0 && step % course.eval_every == 0) judge(observer, pace, result);
  save_due_ = course.save_every > 0 && step % course.save_every == 0;
}

// The best one of the run that this one replaces is not this one's, which may have its own later.
void TrainingRun::forget_best() const {
  const std::filesystem::path out = options_.out;
  if (config_.course.keep_best || !checkpoint_exists(out / "best")) return;
  std::error_code failed;
  std::filesystem::rename(out / "best", out / "best.replaced", failed);  // gone at once, or not
  if (!failed) std::filesystem::remove_all(out / "best.replaced", failed);
}

void TrainingRun::lock() {
  const std::filesystem::path directory = options_.out;
  lock_.emplace("train", directory / "training.lock", directory);
}

TrainingResult TrainingRun::run(TrainingObserver& observer) {
  TrainingResult result;
  result.last.step = result.saved = first_step_;
  result.patience = patience_;
  if (was_done()) {
    lock_.reset();
    return result;
  }
  if (!lock_ && options_.saves) {
    make_directory("train", options_.out);
    lock();
    if (trainer_->steps() == 0) require_free();  // another one may have come and gone
  }
  if (first_step_ == 0) {
    save_now(result);
    if (options_.saves) forget_best();
  }
  if (options_.saves) log_.emplace(options_.out, first_step_, patience_.due);
  Pace pace;
  if (patience_.due) judge(observer, pace, result);
  const auto ends = [&] {
    // One step at least, so that it goes on whatever the time.
    result.out_of_time = options_.seconds > 0.0 && trainer_->steps() > first_step_ &&
                         pace.seconds() >= options_.seconds;
    return result.interrupted || result.divergence || trainer_->steps() >= steps() || exhausted() ||
           result.out_of_time;
  };
  while (!ends()) {
    result.interrupted = observer.stops();
    if (!result.interrupted) advance(observer, pace, result);
  }
  if (!result.divergence) save_now(result);
  lock_.reset();
  result.seconds = pace.seconds();
  result.per_second = pace.per_second(result.seconds);
  result.out_of_time = result.out_of_time && trainer_->steps() < steps();
  result.out_of_patience = !result.divergence && exhausted() && trainer_->steps() < steps();
  result.patience = patience_;
  return result;
}

std::size_t TrainingRun::weight_bytes() const {
  const std::size_t trained =
      1 + trainer_->optimizer().state().size();  // gradients, and the states
  const Parameters& parameters = model_->parameters();
  return sizeof(float) * (parameters.total() + trained * parameters.count());
}

Work TrainingRun::step_work() const {
  Work work;
  for (const auto& [layer, cost] : trainer_->rule().cost(shape_)) {
    work += cost.forward + cost.backward + cost.update;
  }
  return config_.data.batches_per_update * work;
}

Work TrainingRun::teacher_work() const {
  return teacher_ ? config_.data.batches_per_update * teacher_->work(shape_) : Work{};
}

}  // namespace longspan
