// longspan train: a model from data, resumable bit for bit.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "applies.h"
#include "command.h"
#include "longspan/base/config.h"
#include "longspan/training/training_run.h"
#include "stage_flags.h"
#include "stop.h"
#include "task_flags.h"
#include "train_report.h"

namespace longspan::cli {

namespace {

struct TrainOptions {
  TrainOptions() { training.run.model.positions = PositionKind::kRotary; }

  TrainingOptions training;
  TaskFlags task;
  StageFlags stages;
  Applies applies;
  bool no_bias = false;
  bool untied = false;
};

void add_model_options(CLI::App& command, TrainOptions& o) {
  ModelConfig& m = o.training.run.model;
  const std::string group = "Model";
  add_number(command, "--layers", m.layers, "Layers", kLayers, group);
  add_number(command, "--decoder-layers", m.decoder_layers,
             "Of an encoder–decoder's decoder; 0: as many", kSomeLayers, group);
  add_number(command, "--hidden", o.training.hidden, "Width of a perceptron's layers", kWidth,
             group);
  add_number(command, "--d-model", m.d_model, "Width", kWidth, group);
  add_number(command, "--heads", m.heads, "Attention heads", kHeads, group);
  add_number(command, "--kv-heads", m.kv_heads, "Key-value heads; 0: as many as heads", kSomeHeads,
             group);
  add_number(command, "--d-ff", m.d_ff, "Feed-forward width; 0: 4 × width", kSomeWidth, group);
  add_text(command, "--attention", m.attention, "Mechanism, KIND[:key=value,…]; see longspan list",
           group);
  add_text(command, "--feed-forward", m.feed_forward,
           "What follows it: dense, or experts:experts=8,top=2,…", group);
  o.stages.add(command, group);
  add_choice(command, "--wiring", m.wiring, "", group);
  add_choice(command, "--norm", m.norm, "", group);
  add_choice(command, "--activation", m.activation, "", group);
  command.add_flag("--gated", m.gated, "Gated feed-forward (SwiGLU with --activation silu)")
      ->group(group);
  add_choice(command, "--positions", m.positions, "", group);
  add_number(command, "--axial-rows", m.axial_rows, "Of axial positions", from_to(0, 1e6), group);
  add_number(command, "--axial-width", m.axial_width, "Of their rows; columns have the rest",
             from_to(0, 1e6), group);
  add_number(command, "--dropout", m.dropout, "Dropout", from_below(0, 1), group);
  add_number(command, "--init-deviation", m.init_deviation,
             "Deviation of the first weights; 1/√width unless given", above_to(0, 100), group)
      ->default_str("");
  command.add_flag("--no-bias", o.no_bias, "No biases in linear layers")->group(group);
  command
      .add_flag("--checkpointing", m.checkpointing,
                "Layers keep their input only and are computed again")
      ->group(group);
  add_number(command, "--frozen-layers", m.frozen_layers,
             "The embedding and so many first layers are not trained", kSomeLayers, group);
  add_number(command, "--lora-rank", m.lora_rank,
             "Only adapters of this rank in the attention are trained; 0: everything is",
             from_to(0, 1e6), group);
  add_number(command, "--lora-alpha", m.lora_alpha, "Adapters are scaled by alpha / rank",
             above_to(0, 1e6), group);
  command.add_flag("--untied", o.untied, "A softmax layer of its own")->group(group);
}

void add_learning_options(CLI::App& command, TrainOptions& o) {
  TrainConfig& t = o.training.run.train;
  const std::string group = "Learning";
  add_text(command, "--rule", t.rule, "Learning rule; see longspan list", group);
  add_choice(command, "--last-layer", t.feedback.last_layer,
             "pepita, mempepita: what the last layer learns from", group);
  add_choice(command, "--injection", t.feedback.injection,
             "likewise: where a language model's error is added, behind the embedding through F",
             group);
  add_choice(command, "--error-space", t.feedback.error_space,
             "likewise: where attention carries a decoder's error to the encoder", group);
  add_choice(command, "--branch-signal", t.feedback.branch_signal,
             "likewise: what a residual branch's last matrix compares", group);
  add_choice(command, "--learners", t.feedback.learners,
             "likewise: what learns beside the head, everything or what writes into the residual "
             "stream",
             group);
  add_number(command, "--feedback-scale", t.feedback.scale,
             "likewise: scale of F, or of the error where there is no F",
             bounds_of(t, t.feedback.scale), group);
  add_choice(command, "--optimizer", t.optimizer.kind, "", group);
  add_number(command, "--lr", t.schedule.peak, "Highest learning rate",
             bounds_of(t, t.schedule.peak), group);
  add_number(command, "--lr-floor", t.schedule.floor, "Last learning rate",
             bounds_of(t, t.schedule.floor), group);
  add_choice(command, "--schedule", t.schedule.kind, "", group);
  add_number(command, "--schedule-steps", o.training.schedule_steps,
             "Steps until the last learning rate; 0: --steps",
             bounds_of(o.training.run.course, o.training.run.course.steps), group);
  add_number(command, "--warmup", t.schedule.warmup, "Steps of linear warm-up",
             bounds_of(t, t.schedule.warmup), group);
  add_number(command, "--weight-decay", t.optimizer.weight_decay, "Weight decay of matrices",
             bounds_of(t, t.optimizer.weight_decay), group);
  add_number(command, "--momentum", t.optimizer.momentum, "Momentum",
             bounds_of(t, t.optimizer.momentum), group);
  add_number(command, "--beta1", t.optimizer.beta1, "Adam's first decay",
             bounds_of(t, t.optimizer.beta1), group);
  add_number(command, "--beta2", t.optimizer.beta2, "Adam's second decay",
             bounds_of(t, t.optimizer.beta2), group);
  add_number(command, "--clip", t.clip, "Largest gradient norm; 0: none", bounds_of(t, t.clip),
             group);
  add_number(command, "--seed", t.seed, "Seed of weights, batches and dropout",
             bounds_of(t, t.seed), group);
}

void add_teacher_options(CLI::App& command, TrainOptions& o) {
  TeacherConfig& t = o.training.run.teacher;
  DistillationConfig& d = t.distillation;
  const std::string group = "Teacher";
  add_text(command, "--teacher", t.directory, "Directory of a trained model to learn from", group);
  add_number(command, "--temperature", d.temperature, "At which it is compared with the teacher",
             bounds_of(d, d.temperature), group);
  add_number(command, "--teacher-weight", d.teacher_weight,
             "Of the teacher's scores; the targets have the rest", bounds_of(d, d.teacher_weight),
             group);
  add_number(command, "--hidden-weight", d.hidden_weight,
             "Of the cosine with the teacher's last hidden states", bounds_of(d, d.hidden_weight),
             group);
}

void add_run_options(CLI::App& command, TrainOptions& o) {
  CourseConfig& t = o.training.run.course;
  TrainingOptions& training = o.training;
  DataConfig& data = training.run.data;
  command.add_option("task", data.task, "What to learn; see longspan list")->required();
  add_text(command, "--out", training.out, "Where the checkpoint goes");
  add_number(command, "--steps", t.steps, "Steps in all", bounds_of(t, t.steps));
  add_number(command, "--epochs", training.epochs, "Passes over the examples, instead of --steps",
             from_to(1, 1e9))
      ->default_str("");
  add_duration(command, "--max-time", training.seconds,
               "It saves and ends after this time: 90s, 2m, 1h");
  add_number(command, "--batch", data.batch, "Sequences per batch", bounds_of(data, data.batch));
  add_number(command, "--accumulate", data.batches_per_update, "Batches per update",
             bounds_of(data, data.batches_per_update));
  add_number(command, "--eval-every", t.eval_every, "Steps between validations; 0: never",
             bounds_of(t, t.eval_every));
  add_number(command, "--eval-windows", t.eval_examples, "Sequences of each validation; 0: all",
             bounds_of(t, t.eval_examples));
  add_number(command, "--report-every", t.report_every,
             "Steps between lines of OUT/metrics.jsonl; 0: of validations only",
             bounds_of(t, t.report_every));
  add_number(command, "--align-every", t.align_every,
             "Steps between comparisons of the rule's gradients with backpropagation's; 0: never",
             bounds_of(t, t.align_every));
  add_number(command, "--save-every", t.save_every, "Steps between checkpoints; 0: at the end only",
             bounds_of(t, t.save_every));
  add_number(command, "--patience", t.patience,
             "Validations without a better loss until it stops; 0: never",
             bounds_of(t, t.patience));
  command.add_flag("--keep-best", t.keep_best,
                   "The checkpoint of the best validation stays in OUT/best");
  command.add_flag("--resume", training.resume, "Go on with the checkpoint in --out");
  command.add_flag("--overwrite", training.overwrite,
                   "Replace a checkpoint in --out, at once, and its best one");
}

// When the options above mean something.

// To rules that have choices of their own about the error they send forward, or to those without.
Meaning only_rules(bool with_feedback) {
  std::vector<std::string_view> right;
  for (const RuleEntry& rule : rules()) {
    if (rule.reads_feedback == with_feedback) right.push_back(rule.name);
  }
  return {[with_feedback, need = either(right)](const RunConfig& run) {
    const bool reads = find_rule(run.train.rule).reads_feedback == with_feedback;
    return reads ? "" : fmt::format("the rule {}; need {}", run.train.rule, need);
  }};
}

void limit_run_options(CLI::App& command, TrainOptions& o) {
  o.applies.only(command, {"--epochs"},
                 {[&](const RunConfig& /*run*/) {
                    return command.count("--steps") > 0 ? "--steps; need one of them" : "";
                  },
                  [](const TaskEntry& task) { return !task.make({})->endless(); }});
  o.applies.only(command, {"--eval-windows", "--patience", "--keep-best"},
                 only_where([](const RunConfig& run) { return run.course.eval_every > 0; },
                            "no validations; need --eval-every above 0"));
  o.applies.only(command, {"--overwrite"},
                 only_where([&](const RunConfig& /*run*/) { return !o.training.resume; },
                            "--resume; need one of them"));
}

void limit_model_options(CLI::App& command, TrainOptions& o) {
  o.applies.only(command, {"--hidden"}, only_families({Family::kPerceptron}));
  o.applies.only(
      command,
      {"--d-model", "--heads", "--kv-heads", "--d-ff", "--attention", "--feed-forward", "--wiring",
       "--norm", "--gated", "--positions", "--checkpointing", "--frozen-layers", "--lora-rank",
       "--lora-alpha", "--untied", "--branch-signal", "--learners", "--init-deviation"},
      only_families({Family::kEncoder, Family::kDecoder, Family::kEncoderDecoder}));
  o.applies.only(
      command, {"--axial-rows", "--axial-width"},
      only_kinds<PositionKind>(
          "positions", [](const RunConfig& run) -> PositionKind { return run.model.positions; },
          [](PositionKind kind) { return kind == PositionKind::kAxial; }));
  o.applies.only(command, {"--heads", "--kv-heads"},
                 only_where([](const RunConfig& run) { return attends(run.model); },
                            "mixers alone, which have no heads; need an attention in some layer"));
  o.applies.only(command, {"--decoder-layers", "--error-space"},
                 only_families({Family::kEncoderDecoder}));
  o.applies.only(
      command,
      {"--stages", "--stage-pool", "--no-stage-cls", "--no-stage-truncate", "--pooled-keys"},
      only_families({Family::kEncoder}));
  o.applies.only(command, {"--untied", "--injection"},
                 only_kinds<HeadKind>(
                     "head", [](const RunConfig& run) -> HeadKind { return run.model.head; },
                     [](HeadKind head) { return head == HeadKind::kLanguage; }));
  o.applies.only(command, {"--lora-alpha"},
                 only_where([](const RunConfig& run) { return run.model.lora_rank > 0; },
                            "no adapters; need --lora-rank above 0"));
}

void limit_learning_options(CLI::App& command, TrainOptions& o) {
  o.applies.only(command, {"--temperature", "--teacher-weight", "--hidden-weight"},
                 only_where([](const RunConfig& run) { return run.teacher.given(); },
                            "no teacher; need --teacher"));
  // Two passes forward keep no layers for a way back.
  o.applies.only(command, {"--checkpointing"}, only_rules(/*with_feedback=*/false));
  o.applies.only(command,
                 {"--last-layer", "--injection", "--error-space", "--branch-signal", "--learners",
                  "--feedback-scale"},
                 only_rules(/*with_feedback=*/true));
  for (const char* field : {"momentum", "beta1", "beta2"}) {
    o.applies.only(
        command, {fmt::format("--{}", field)},
        only_kinds<OptimizerKind>(
            "optimizer",
            [](const RunConfig& run) -> OptimizerKind { return run.train.optimizer.kind; },
            [field](OptimizerKind kind) { return reads(kind, field); }));
  }
  o.applies.only(
      command, {"--lr-floor", "--schedule-steps"},
      only_kinds<ScheduleKind>(
          "schedule", [](const RunConfig& run) -> ScheduleKind { return run.train.schedule.kind; },
          [](ScheduleKind kind) { return reads(kind, "schedule_steps"); }));
}

// What an option sets, as in config.json: "--lr" is training/learning_rate. Empty: it is of this
// command alone.
std::string field_of(const nlohmann::json& run, const std::string& flag) {
  static const std::map<std::string, std::string> kCalled = {
      {"lr", "learning_rate"},
      {"lr_floor", "learning_rate_floor"},
      {"hidden", "d_model"},
      {"no_bias", "bias"},
      {"untied", "tied"},
      {"no_stage_cls", "stage_cls"},
      {"pooled_keys", "unpooled_keys"},
      {"no_stage_truncate", "stage_truncate"},
      {"epochs", "steps"}};
  std::string name = flag.substr(flag.find_first_not_of('-'));
  std::ranges::replace(name, '-', '_');
  if (const auto called = kCalled.find(name); called != kCalled.end()) name = called->second;
  for (const char* section : {"model", "training", "data", "teacher", "course"}) {
    if (run.at(section).contains(name)) return fmt::format("{}/{}", section, name);
  }
  return "";
}

// The fields that were typed.
std::map<std::string, std::string> typed_fields(const CLI::App& command, const RunConfig& run) {
  std::map<std::string, std::string> typed;
  const nlohmann::json all = to_json(run);
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 || option->get_positional()) continue;
    const std::string field = field_of(all, flag_of(*option));
    if (!field.empty()) typed[field] = flag_of(*option);
  }
  return typed;
}

void run_train(TrainOptions& o, const CLI::App& command, const Common& common) {
  TrainingOptions& options = o.training;
  options.run.options = o.task.of(find_task(options.run.data.task));
  options.run.model.bias = !o.no_bias;
  options.run.model.tied = !o.untied;
  o.stages.set(options.run.model);
  // The usual 0.02 is that of wide models; a narrow one would take long to begin to learn.
  if (command.count("--init-deviation") == 0) {
    options.run.model.init_deviation =
        1.0F / std::sqrt(static_cast<float>(options.run.model.d_model));
  }
  if (command.count("--positions") == 0 &&
      find_task(options.run.data.task).make(options.run.options)->timed()) {
    options.run.model.positions = PositionKind::kTemporal;
  }
  options.asked = typed_fields(command, options.run);
  options.review = [&](const RunConfig& run) {
    o.applies.check("train", run);
    const auto layers = std::max(run.model.layers, run.model.decoder_layers);
    require(options.resume || split_list(run.model.attention, '|').size() <= layers,
            "[train] --attention {} for {}; need at most as many kinds as layers",
            run.model.attention, counted(layers, "layer"));
    // Which is what --positions is unless given.
    require(options.resume || run.model.family == Family::kPerceptron ||
                run.model.positions != PositionKind::kRotary || attends(run.model),
            "[train] rotary positions with mixers alone, which have no queries to rotate; need "
            "--positions learned or sinusoidal");
  };
  TrainingRun run(options);
  if (run.was_done()) return report_done(run, options.out, common);
  if (!common.quiet) report_beginning(run, options.out);
  const StopGuard guard;
  TrainingResult result;
  {
    Showing showing(run, common.quiet);
    result = run.run(showing);
  }
  report_result(run, result, options.out, common);
  if (result.interrupted) throw Stopped{StopGuard::signal(), ""};
  if (result.divergence) throw Diverged(*result.divergence, result.saved, options.out);
}

// Help of one task, or without one of what all have, and which there are.
void show_help(CLI::App& command, const TrainOptions& o, const TaskEntry* task) {
  constexpr std::array<std::string_view, 7> kExamples = {
      "longspan train text --data data/tinyshakespeare.txt --out model --steps 2000",
      "longspan train text --out model --resume --steps 4000",
      "longspan train text --data book.txt --wiring reversible --length 1024 --batch 2",
      "longspan train mlm --data book.txt --layers 2 --teacher bert --out student",
      "longspan train images --data mnist --rule pepita --hidden 1024 --epochs 10",
      "longspan train copy --out copy --length 256 --attention reformer --steps 3000",
      "longspan train reverse --out reverse --layers 2 --patience 3 --keep-best"};
  o.applies.show(task);
  if (task != nullptr) o.task.show(*task);
  std::string footer;
  if (task == nullptr) {
    footer = "Tasks (longspan train TASK --help has the options of each):\n";
    for (const TaskEntry& t : tasks()) footer += fmt::format("  {:<12}{}\n", t.name, t.summary);
  }
  footer += "Examples:";
  const std::string own = fmt::format("train {} ", task == nullptr ? "" : task->name);
  for (const std::string_view example : kExamples) {
    if (task != nullptr && example.find(own) == std::string_view::npos) continue;
    footer += fmt::format("\n  {}", example);
  }
  command.footer(footer);
}

// Hides what does not apply only where help is printed: hidden options have no name in what CLI11
// says of them.
class HelpOfTask final : public CLI::Formatter {
 public:
  explicit HelpOfTask(std::function<void()> prepare) : prepare_(std::move(prepare)) {}
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    prepare_();
    return CLI::Formatter::make_help(app, std::move(name), mode);
  }

 private:
  std::function<void()> prepare_;
};

}  // namespace

void add_train(CLI::App& app, const Common& common) {
  CLI::App* command = app.add_subcommand("train", "Train a model; Ctrl-C saves, --resume goes on");
  auto o = std::make_shared<TrainOptions>();
  add_run_options(*command, *o);
  o->task.add(*command, o->applies);
  add_model_options(*command, *o);
  add_learning_options(*command, *o);
  add_teacher_options(*command, *o);
  limit_run_options(*command, *o);
  limit_model_options(*command, *o);
  limit_learning_options(*command, *o);
  const auto shown = std::make_shared<const TaskEntry*>(nullptr);
  command->get_option("task")->each(
      [shown](const std::string& name) { *shown = &find_task(name); });
  command->formatter(
      std::make_shared<HelpOfTask>([o, command, shown] { show_help(*command, *o, *shown); }));
  command->callback([o, command, &common] { run_train(*o, *command, common); });
}

}  // namespace longspan::cli
