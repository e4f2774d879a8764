#include "compare_task.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "calibration_cache.h"
#include "compare_make.h"
#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/base/number.h"
#include "longspan/base/parallel.h"
#include "longspan/io/json_file.h"
#include "longspan/predict/predict.h"
#include "longspan/predict/sampling.h"
#include "longspan/report/html.h"
#include "longspan/report/quality_page.h"
#include "longspan/report/quality_summary.h"
#include "longspan/report/quality_table.h"
#include "longspan/tasks/registry.h"
#include "longspan/training/trial.h"
#include "output.h"
#include "output_file.h"
#include "progress.h"
#include "stop.h"
#include "terminal.h"

namespace longspan::cli {

namespace {

// Where --budget is not given.
constexpr double kUsualBudget = 600.0;

QualityRecord read_quality(const std::string& path) {
  QualityRecord record = quality_record_from("[compare] " + path, read_json(path));
  summarize(record);
  return record;
}

// One that is set beside another.
QualityRecord read_against(const std::string& path, const QualitySettings& own) {
  QualityRecord other = read_quality(path);
  require(other.settings.task == own.task && other.settings.metric == own.metric,
          "[compare] --against {} is of {}; need one of {}", path, other.settings.task, own.task);
  return other;
}

// "recall:pairs=4,length=32" → recall and its options.
std::pair<std::string, TaskOptions> parse_task(const std::string& text) {
  const std::size_t colon = text.find(':');
  TaskOptions options;
  if (colon != std::string::npos) {
    for (const std::string& part : split_list(text.substr(colon + 1), ',')) {
      const std::size_t equals = part.find('=');
      require(equals != std::string::npos && equals > 0,
              "[compare] --task has '{}'; need NAME:key=value,…", part);
      // As a flag of train, held-out, or as in a config.
      std::string name = part.substr(0, equals);
      std::ranges::replace(name, '-', '_');
      require(options.emplace(name, part.substr(equals + 1)).second,
              "[compare] --task has {} twice; need it once", name);
    }
  }
  return {text.substr(0, colon), options};
}

void take_typed(const CompareTaskOptions& o, Protocol& p) {
  const auto take = [&](const char* flag, auto& field, auto value) {
    if (o.typed(flag)) field = value;
  };
  take("--layers", p.layers, o.settings.layers);
  take("--d-model", p.d_model, o.settings.d_model);
  take("--heads", p.heads, o.settings.heads);
  take("--batch", p.batch, o.settings.batch);
  take("--steps", p.steps, o.steps);
  take("--lr", p.learning_rate, o.learning_rate);
  require(p.d_model % p.heads == 0,
          "[compare] width {} does not divide into {} heads; need a multiple", p.d_model, p.heads);
}

Protocol protocol_from(const QualitySettings& s) {
  return {.layers = s.layers,
          .d_model = s.d_model,
          .heads = s.heads,
          .positions = s.positions,
          .before = s.before,
          .steps = s.steps,
          .batch = s.batch,
          .learning_rate = s.learning_rate};
}

QualitySettings settings_of(const Protocol& p, const Task& task) {
  QualitySettings s;
  s.task = task.name();
  s.options = task.options();
  const auto data = s.options.find("data");
  if (data != s.options.end() && !data->second.empty()) {
    std::erase_if(s.options, [&](const auto& option) { return !task.idle(option.first).empty(); });
  }
  s.layers = p.layers;
  s.d_model = p.d_model;
  s.heads = p.heads;
  s.positions = p.positions.name();
  s.before = p.before;
  s.steps = p.steps;
  s.batch = p.batch;
  s.learning_rate = p.learning_rate;
  const Criterion criterion = task.criterion();
  s.metric = criterion.metric;
  s.higher = criterion.higher;
  s.share = criterion.share;
  s.threads = static_cast<std::uint64_t>(thread_count());
  return s;
}

struct PlannedTrial {
  QualityTrial trial;
  RunConfig run;
  double seconds = 0.0;  // predicted
  bool due = false;
};

// Seconds of a step and of a whole trial with its evaluations.
void predict(const Calibration& calibration, const TrialModel& m, PlannedTrial& p) {
  const double step = predict_step(calibration, *m.model, m.shape, p.run.train.optimizer).seconds;
  const double forward = predict_forward(calibration, *m.model, m.shape).seconds;
  constexpr double kEvaluations = 10.0;
  const double batches = std::max(
      1.0, static_cast<double>(p.run.course.eval_examples) / static_cast<double>(m.shape.batch));
  p.trial.predicted = step;
  p.seconds = static_cast<double>(p.run.course.steps) * step + kEvaluations * batches * forward;
}

class QualityRun {
 public:
  QualityRun(const CompareTaskOptions& o, const Common& common) : o_(o), common_(common) {}

  void run();

 private:
  void find_seeds();
  void prepare();
  void plan(const Calibration& calibration);
  void train(Results& results);
  void train_one(PlannedTrial& planned, double& spent, Progress& progress);
  QualityRecord current() const;

  const CompareTaskOptions& o_;
  const Common& common_;
  std::optional<QualityRecord> known_;
  QualityRecord record_;
  std::vector<std::string> attention_;
  std::vector<PlannedTrial> planned_;
  std::vector<std::uint64_t> seeds_;
  double budget_ = kUsualBudget;
  double predicted_ = 0.0;  // seconds of all that fits
  bool interrupted_ = false;
};

void QualityRun::find_seeds() {
  if (known_ && !o_.typed("--seeds") && !o_.typed("--seed")) {
    std::set<std::uint64_t> seeds;  // the rest of what it has
    for (const QualityTrial& t : known_->trials) seeds.insert(t.seed);
    seeds_.assign(seeds.begin(), seeds.end());
    return;
  }
  const std::uint64_t first = o_.settings.seed;
  constexpr std::uint64_t kLast = std::numeric_limits<std::uint64_t>::max();
  require(o_.seeds - 1 <= kLast - first,
          "[compare] --seed {} and {} from there on; need seeds up to {}", first,
          counted(o_.seeds, "seed"), kLast);
  for (std::uint64_t i = 0; i < o_.seeds; ++i) seeds_.push_back(first + i);
}

void QualityRun::prepare() {
  if (o_.typed("--budget")) budget_ = o_.budget;
  if (!o_.places.add.empty()) {
    known_ = read_quality(o_.places.add);
    if (common_.threads == 0) set_thread_count(static_cast<int>(known_->settings.threads));
  }
  const auto [name, typed] = known_ && o_.task.empty()
                                 ? std::pair(known_->settings.task, known_->settings.options)
                                 : parse_task(o_.task);
  TaskOptions options = typed;
  options.merge(find_task(name).make(options)->protocol().options);
  const std::unique_ptr<Task> task = find_task(name).make(options);
  const auto data = options.find("data");
  const bool given = data != options.end() && !data->second.empty();
  require(!task->needs_data() || given, "[compare] {} and no data; need --task {}:data=FILE", name,
          name);
  for (const auto& [option, value] : typed) {
    const std::string_view idle = o_.task.empty() ? "" : task->idle(option);
    require(idle.empty(), "[compare] {} with {}", option, idle);
  }
  Protocol protocol = known_ ? protocol_from(known_->settings) : task->protocol();
  take_typed(o_, protocol);
  require(protocol.before.empty() || protocol.layers > 1,
          "[compare] one layer, of {}, in which no mechanism has its turn; need --layers 2 or more",
          protocol.before);
  find_seeds();
  static_cast<RecordHead&>(record_) = record_head();
  record_.settings = settings_of(protocol, *task);
  if (given) record_.settings.data_checksum = task->checksum();
  record_.settings.budget_seconds = budget_;
  if (known_) check_alike(known_->settings, record_.settings);
  if (o_.attention.empty() && known_) {
    for (const QualityTrial& t : known_->trials) {
      if (std::ranges::find(attention_, t.mechanism) == attention_.end()) {
        attention_.push_back(t.mechanism);
      }
    }
  } else {
    attention_ = attention_list(o_.attention);
  }
}

// The first seed of all mechanisms, then the next: a budget that ends early has compared them all.
void QualityRun::plan(const Calibration& calibration) {
  const QualitySettings& s = record_.settings;
  const Protocol protocol = protocol_from(s);
  std::size_t fits = 0;
  for (const std::uint64_t seed : seeds_) {
    for (const std::string& attention : attention_) {
      const QualityTrial* has = known_ ? known_->find(attention, seed) : nullptr;
      if (has != nullptr && has->status == PointStatus::kOk) continue;
      PlannedTrial p;
      p.trial.mechanism = attention;
      p.trial.seed = seed;
      try {
        p.run = trial_config(s.task, s.options, protocol, attention, seed);
        const TrialModel model = trial_model(p.run);
        record_.settings.length = std::max(model.shape.length, model.shape.source_length);
        predict(calibration, model, p);
        if (predicted_ + p.seconds > budget_) {
          p.trial.reason =
              fmt::format("about {} more than the budget of {}",
                          human_seconds(predicted_ + p.seconds - budget_), human_seconds(budget_));
        } else {
          predicted_ += p.seconds;
          ++fits;
          p.due = true;
          p.trial.reason = "interrupted before its turn";
        }
      } catch (const SystemError&) {
        throw;
      } catch (const Error& e) {
        p.trial.status = PointStatus::kRefused;
        p.trial.reason = e.what();
      }
      record_.trials.push_back(p.trial);
      planned_.push_back(std::move(p));
    }
  }
  require(!planned_.empty(), "[compare] {} has all of that; need more --attention or --seeds",
          o_.places.add);
  const bool all_refused = std::ranges::all_of(
      record_.trials, [](const QualityTrial& t) { return t.status == PointStatus::kRefused; });
  require(!all_refused, "[compare] nothing can be trained: {}", record_.trials.front().reason);
  require(fits > 0, "[compare] no trial fits the budget of {}: {} takes about {}; need more",
          seconds_text(budget_), planned_.front().trial.mechanism,
          seconds_text(planned_.front().seconds));
  note(common_, fmt::format("{} of {} trials fit the budget of {}: about {}", fits, planned_.size(),
                            human_seconds(budget_), human_seconds(predicted_)));
}

void QualityRun::train_one(PlannedTrial& planned, double& spent, Progress& progress) {
  QualityTrial& t = planned.trial;
  const auto steps = static_cast<double>(planned.run.course.steps);
  const double before = spent;
  const auto shown = [&](std::uint64_t step) {
    const double share = static_cast<double>(step) / steps;
    const double done = before + share * planned.seconds;
    progress.update_share(std::min(1.0, done / predicted_), std::max(0.0, predicted_ - done),
                          fmt::format("{} seed {}", t.mechanism, t.seed));
    return StopGuard::signal() != 0;
  };
  const TrialResult result = run_trial(planned.run, shown);
  spent = before + planned.seconds;
  interrupted_ = result.interrupted;
  if (interrupted_) return;
  t.parameters = result.parameters;
  t.memory = static_cast<double>(result.memory);
  if (result.state) t.state = static_cast<double>(*result.state);
  t.step_seconds = result.step_seconds;
  t.seconds = result.seconds;
  bool finite = true;
  for (const JudgedStep& j : result.curve) {
    finite = finite && std::isfinite(j.judgement.loss());
    if (finite)
      t.curve.push_back({j.step, j.judgement.loss(), j.judgement.at(record_.settings.metric)});
  }
  if (result.divergence || !finite || !std::isfinite(result.judgement.loss())) {
    t.status = PointStatus::kFailed;
    t.reason = result.divergence ? fmt::format("it diverged at step {}", result.divergence->step)
                                 : "it diverged: its loss is not finite";
    return;
  }
  t.status = PointStatus::kOk;
  t.reason.clear();
  t.loss = result.judgement.loss();
  t.quality = result.judgement.at(record_.settings.metric);
  t.guess = guessed(result.judgement, record_.settings.metric);
}

QualityRecord QualityRun::current() const {
  QualityRecord record = record_;
  for (std::size_t i = 0; i < planned_.size(); ++i) record.trials[i] = planned_[i].trial;
  summarize(record);
  return known_ ? merge(*known_, record) : record;
}

void QualityRun::train(Results& results) {
  const double start = stopwatch_seconds();
  const StopGuard guard;
  Progress progress(1000, 0, common_.quiet);
  double spent = 0.0;
  for (PlannedTrial& planned : planned_) {
    QualityTrial& t = planned.trial;
    if (!planned.due) continue;
    if (stopwatch_seconds() - start > budget_) {
      t.reason = "the budget was used up";
      continue;
    }
    try {
      train_one(planned, spent, progress);
    } catch (const std::bad_alloc&) {
      t.status = PointStatus::kFailed;
      t.reason = "the machine refused more memory";
    } catch (const Error& e) {
      t.status = PointStatus::kFailed;
      t.reason = e.what();
    }
    if (interrupted_) break;
    const QualityRecord now = current();
    results.save(to_json(now), quality_page(now));
  }
}

void show(const QualityRecord& record, const QualityRecord* against, bool csv,
          const Common& common) {
  if (common.json) return fmt::print("{}\n", to_json(record).dump(2));
  if (csv) {
    print_verbatim();
    return fmt::print("{}", quality_csv(record));
  }
  const std::size_t width = terminal_width(STDOUT_FILENO);
  fmt::print("{}", quality_table(record, width));
  if (against != nullptr) fmt::print("\n{}", quality_against(record, *against, width));
  flush_output();
}

void QualityRun::run() {
  prepare();
  std::optional<QualityRecord> against;
  if (!o_.places.against.empty()) {
    against = read_against(o_.places.against, record_.settings);
  }
  const std::filesystem::path place = place_of(o_.places);
  if (const auto data = record_.settings.options.find("data");
      data != record_.settings.options.end()) {
    check_not_read("compare", place, {data->second});
  }
  plan(calibration_for(common_));
  Results results(place, known_ ? read_json(o_.places.add) : nlohmann::json::object());
  train(results);
  const QualityRecord record = current();
  results.save(to_json(record), quality_page(record, against ? &*against : nullptr));
  show(record, against ? &*against : nullptr, o_.csv, common_);
  results.finish(common_);
  if (interrupted_) {
    throw Stopped{StopGuard::signal(), fmt::format("[compare] interrupted; go on with --add {}",
                                                   results.path().string())};
  }
  const auto failed =
      std::ranges::find(record.trials, PointStatus::kFailed,
                        [](const QualityTrial& t) -> PointStatus { return t.status; });
  const bool any = std::ranges::any_of(
      record.trials, [](const QualityTrial& t) { return t.status == PointStatus::kOk; });
  if (!any && failed != record.trials.end()) {
    throw SystemError(
        fmt::format("[compare] every trial failed; {}: {}", failed->mechanism, failed->reason));
  }
}

}  // namespace

void add_compare_task_options(CLI::App& command, CompareTaskOptions& o) {
  const std::string group = "Quality on a task (--task)";
  add_text(command, "--task", o.task,
           "Train every attention on NAME[:key=value,…], as longspan list names tasks", group);
  add_number(command, "--seeds", o.seeds, "Trainings of each, from --seed on", from_to(1, 1000),
             group);
}

void run_compare_task(const CompareTaskOptions& options, const Common& common) {
  QualityRun(options, common).run();
}

void render_quality(const CompareTaskOptions& o, const Common& common) {
  const RenderedPage page = rendered_page(o.places);
  const QualityRecord record = read_quality(o.places.render);
  std::optional<QualityRecord> against;
  if (!o.places.against.empty()) against = read_against(o.places.against, record.settings);
  const QualityRecord* beside = against ? &*against : nullptr;
  show(record, beside, o.csv, common);
  page.write(quality_page(record, beside), common);
}

}  // namespace longspan::cli
