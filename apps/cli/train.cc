// longspan train: a model from data, resumable bit for bit.
#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"
#include "longspan/base/memory.h"
#include "longspan/base/resident.h"
#include "longspan/training/training_run.h"
#include "progress.h"
#include "stage_flags.h"
#include "stop.h"
#include "task_flags.h"

namespace longspan::cli {

namespace {

struct TrainOptions {
  TrainOptions() { training.run.model.positions = PositionKind::kRotary; }

  TrainingOptions training;
  TaskFlags task;
  StageFlags stages;
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
  add_number(command, "--dropout", m.dropout, "Dropout", from_below(0, 1), group);
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
             "Steps until the last learning rate; 0: --steps", kSteps, group);
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

void add_run_options(CLI::App& command, TrainOptions& o) {
  TrainingOptions& t = o.training;
  command.add_option("task", t.run.data.task, "What to learn; see longspan list")->required();
  add_text(command, "--out", t.out, "Where the checkpoint goes");
  add_number(command, "--steps", t.steps, "Steps in all", kSteps);
  add_number(command, "--epochs", t.epochs, "Passes over the examples, instead of --steps",
             from_to(0, 1e9));
  add_number(command, "--batch", t.run.data.batch, "Sequences per batch",
             bounds_of(t.run.data, t.run.data.batch));
  add_number(command, "--accumulate", t.run.data.batches_per_update, "Batches per update",
             bounds_of(t.run.data, t.run.data.batches_per_update));
  add_number(command, "--eval-every", t.eval_every, "Steps between validations; 0: never", kSteps);
  add_number(command, "--eval-windows", t.eval_examples, "Sequences of each validation; 0: all",
             from_to(0, 1e9));
  add_number(command, "--align-every", t.align_every,
             "Steps between comparisons of the rule's gradients with backpropagation's; 0: never",
             kSteps);
  add_number(command, "--save-every", t.save_every, "Steps between checkpoints; 0: at the end only",
             kSteps);
  add_number(command, "--patience", t.patience,
             "Validations without a better loss until it stops; 0: never", from_to(0, 1e9));
  command.add_flag("--keep-best", t.keep_best,
                   "The checkpoint of the best validation stays in OUT/best");
  command.add_flag("--resume", t.resume, "Go on with the checkpoint in --out");
  command.add_flag("--overwrite", t.overwrite, "Replace a checkpoint in --out");
}

// Shows how a run goes, on stderr.
class Showing final : public TrainingObserver {
 public:
  Showing(const TrainingRun& run, bool quiet)
      : rule_(run.config().train.rule), progress_(run.steps(), run.first_step(), quiet) {}

  bool stops() override { return StopGuard::signal() != 0; }
  void stepped(const StepReport& report, double tokens_per_second) override {
    progress_.update(report.step, fmt::format("loss {:.4f}  {:.0f} tokens/s  {}", report.loss,
                                              tokens_per_second, format_bytes(resident_bytes())));
  }
  void judged(const JudgedStep& judged) override {
    progress_.note(fmt::format("step {}: {} {}", judged.step, name_of(judged.judgement.split),
                               judged.judgement.line));
  }
  void aligned(const AlignedStep& aligned) override {
    progress_.note(fmt::format("step {}: cos(ΔW_{}, ΔW_bp), mean over the matrices {:.4f}",
                               aligned.step, rule_, aligned.mean_cosine));
    for (const Alignment& a : aligned.parameters) {
      progress_.note(
          fmt::format("  {:<40} {:>8.4f}   norm × {:.3g}", a.parameter, a.cosine, a.ratio));
    }
  }

 private:
  std::string rule_;
  Progress progress_;
};

void report_model(const TrainingRun& run, const std::string& out) {
  fmt::print(
      stderr, "{}; {} parameters; weights, gradients and optimiser {}; activations {} ({})\n",
      run.task().describe(), run.model().parameters().count(), format_bytes(run.weight_bytes()),
      format_bytes(run.activation_bytes()), run.config().train.rule);
  if (run.first_step() > 0) {
    fmt::print(stderr, "resuming {} at step {}\n", out, run.first_step());
  }
}

nlohmann::json validations(const TrainingResult& result) {
  nlohmann::json all = nlohmann::json::array();
  for (const JudgedStep& judged : result.judged) {
    nlohmann::json one = {{"step", judged.step}};
    for (const Metric& m : judged.judgement.metrics) {
      one[fmt::format("{}_{}", name_of(judged.judgement.split), m.name)] = m.value;
    }
    all.push_back(one);
  }
  return all;
}

nlohmann::json alignments(const TrainingResult& result) {
  nlohmann::json all = nlohmann::json::array();
  for (const AlignedStep& aligned : result.aligned) {
    nlohmann::json by_parameter = nlohmann::json::object();
    for (const Alignment& a : aligned.parameters) {
      by_parameter[a.parameter] = {{"cosine", a.cosine}, {"norm_ratio", a.ratio}};
    }
    all.push_back({{"step", aligned.step},
                   {"mean_cosine", aligned.mean_cosine},
                   {"parameters", by_parameter}});
  }
  return all;
}

void print_json(const TrainingRun& run, const TrainingResult& result, const std::string& out) {
  const Work work = run.step_work();
  nlohmann::json json = {{"checkpoint", out},
                         {"step", result.last.step},
                         {"loss", result.last.loss},
                         {"rule", run.config().train.rule},
                         {"diverged", !result.last.finite},
                         {"interrupted", result.interrupted},
                         {"out_of_patience", result.out_of_patience},
                         {"seconds", result.seconds},
                         {"tokens_per_second", result.tokens_per_second},
                         {"parameters", run.model().parameters().count()},
                         {"maccs_per_step", work.maccs},
                         {"flops_per_step", work.flops()},
                         {"peak_resident_bytes", peak_resident_bytes()},
                         {"validation", validations(result)}};
  if (!result.aligned.empty()) json["alignment"] = alignments(result);
  if (result.patience.best) {
    json["best"] = {{"step", result.patience.best_step}, {"loss", *result.patience.best}};
  }
  fmt::print("{}\n", json.dump(2));
}

void print_text(const TrainingRun& run, const TrainingResult& result, const std::string& out) {
  const std::uint64_t step = result.last.step;
  if (!result.last.finite) {
    fmt::print("diverged after step {}: the loss or gradient is not finite; try a lower --lr\n",
               step);
  }
  if (result.interrupted) {
    fmt::print("stopped at step {}; go on with: longspan train {} --out {} --resume --steps {}\n",
               step, run.task().name(), out, run.steps());
  }
  if (result.out_of_patience) {
    fmt::print("stopped at step {}: {} validations were no better than that of step {} ({:.4f})\n",
               step, result.patience.waited, result.patience.best_step, *result.patience.best);
  }
  fmt::print("checkpoint of step {} in {} ({} at {:.0f} tokens/s)\n", step, out,
             human_seconds(result.seconds), result.tokens_per_second);
}

void run_train(TrainOptions& o, const Common& common) {
  TrainingOptions& options = o.training;
  options.run.options = o.task.of(find_task(options.run.data.task));
  options.run.model.bias = !o.no_bias;
  options.run.model.tied = !o.untied;
  o.stages.set(options.run.model);
  TrainingRun run(options);
  if (!common.quiet) report_model(run, options.out);
  const StopGuard guard;
  TrainingResult result;
  {
    Showing showing(run, common.quiet);
    result = run.run(showing);
  }
  if (common.json) {
    print_json(run, result, options.out);
  } else {
    print_text(run, result, options.out);
  }
  if (result.interrupted) throw Stopped{StopGuard::signal(), ""};
}

}  // namespace

void add_train(CLI::App& app, const Common& common) {
  CLI::App* command = app.add_subcommand("train", "Train a model; Ctrl-C saves, --resume goes on");
  auto o = std::make_shared<TrainOptions>();
  add_run_options(*command, *o);
  o->task.add(*command);
  add_model_options(*command, *o);
  add_learning_options(*command, *o);
  command->footer(
      "Examples:\n"
      "  longspan train text --data data/tinyshakespeare.txt --out model --steps 2000\n"
      "  longspan train text --out model --resume --steps 4000\n"
      "  longspan train text --data book.txt --wiring reversible --length 1024 --batch 2\n"
      "  longspan train images --data mnist --rule pepita --layers 1 --hidden 1024 --epochs 10\n"
      "  longspan train copy --out copy --length 256 --attention reformer --steps 3000\n"
      "  longspan train reverse --out reverse --layers 2 --patience 3 --keep-best");
  command->callback([o, &common] { run_train(*o, common); });
}

}  // namespace longspan::cli
