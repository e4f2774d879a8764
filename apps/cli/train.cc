// longspan train: a model from data, resumable bit for bit.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "longspan/base/error.h"
#include "longspan/base/memory.h"
#include "longspan/io/checksum.h"
#include "longspan/io/file.h"
#include "longspan/measure/memory.h"
#include "longspan/tasks/registry.h"
#include "progress.h"
#include "run_directory.h"
#include "text_runs.h"

namespace longspan::cli {

namespace {

volatile std::sig_atomic_t stop_requested = 0;
void request_stop(int /*signal*/) { stop_requested = 1; }

struct TrainOptions {
  TrainOptions() { run.model.positions = "rotary"; }

  std::string task = "text";
  RunConfig run;
  std::string vocabulary = "characters";
  std::string out = "longspan-model";
  std::uint64_t steps = 2000;
  std::uint64_t schedule_steps = 0;  // 0: as many as steps
  std::uint64_t save_every = 500;
  std::uint64_t eval_every = 500;
  std::size_t eval_windows = 200;
  bool resume = false;
  bool overwrite = false;
  bool no_bias = false;
  bool untied = false;
};

std::string file_checksum(const std::string& path) {
  Checksum checksum;
  const std::string text = read_file("train", path);
  checksum.add(std::as_bytes(std::span(text)));
  return checksum.hex();
}

// What is being trained, put together from the options or from the checkpoint that is resumed.
class TextTraining {
 public:
  TextTraining(const TrainOptions& options, const Common& common);
  void run();

 private:
  RunConfig configure(const TrainOptions& options);
  Batch shape() const { return {.batch = config_.data.batch, .length = config_.data.length}; }
  void report_model();
  StepReport one_step();
  void evaluate(Progress& progress);
  void save_now() { save(options_.out, config_, *model_, *trainer_); }
  void finish(const StepReport& last, double seconds);

  TrainOptions options_;
  const Common& common_;
  std::optional<TextCorpus> corpus_;
  RunConfig config_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Trainer> trainer_;
  std::vector<WindowBuffer> buffers_;
  std::vector<Batch> batches_;
  nlohmann::json history_ = nlohmann::json::array();
  std::uint64_t first_step_ = 0;
};

TextTraining::TextTraining(const TrainOptions& options, const Common& common)
    : options_(options), common_(common), config_(configure(options)) {
  corpus_->require_length(config_.data.length);
  model_ = std::make_unique<Model>(config_.model);
  model_->allocate(config_.train.seed);
  trainer_ = std::make_unique<Trainer>(*model_, config_.train);
  // Refused here, before anything is written, if it cannot be.
  trainer_->rule().prepare(shape());
  if (options.resume) restore(options.out, *model_, *trainer_);
  first_step_ = trainer_->steps();
  for (std::size_t i = 0; i < config_.data.accumulate; ++i) {
    buffers_.emplace_back(config_.data.batch, config_.data.length);
  }
  batches_.resize(config_.data.accumulate);
}

RunConfig TextTraining::configure(const TrainOptions& options) {
  if (options.resume) {
    RunConfig config = run_config_from(Checkpoint(options.out).config(), options.out);
    if (!options.run.data.data.empty()) config.data.data = options.run.data.data;
    require(file_checksum(config.data.data) == config.data.checksum,
            "[train] {} is not the file that {} was trained on; need the same data to resume",
            config.data.data, options.out);
    corpus_.emplace(config.data.data, config.vocabulary);
    return config;
  }
  require(options.overwrite || !checkpoint_exists(options.out),
          "[train] {} already holds a checkpoint; use --resume to go on with it, --out for another "
          "place, or --overwrite",
          options.out);
  require(!options.run.data.data.empty(), "[train] no data; need --data FILE");
  RunConfig config = options.run;
  require(config.data.length > 0 && config.data.batch > 0 && config.data.accumulate > 0,
          "[train] length {}, batch {}, accumulate {}; need at least 1 of each", config.data.length,
          config.data.batch, config.data.accumulate);
  corpus_.emplace(config.data.data, options.vocabulary);
  config.data.checksum = file_checksum(config.data.data);
  config.vocabulary = corpus_->vocabulary();
  config.model.vocab = config.vocabulary.size();
  config.model.max_length = config.data.length;
  config.model.bias = !options.no_bias;
  config.model.tied = !options.untied;
  config.train.schedule.total =
      options.schedule_steps == 0 ? options.steps : options.schedule_steps;
  config.train.schedule.floor = std::min(config.train.schedule.floor, config.train.schedule.peak);
  return config;
}

void TextTraining::report_model() {
  const std::size_t blocks = 2 + trainer_->optimizer().state().size();
  fmt::print(
      stderr,
      "{} tokens of {} kinds; {} parameters; weights, gradients and optimiser {}; activations "
      "{}\n",
      corpus_->size(), config_.model.vocab, model_->parameters().count(),
      format_bytes(blocks * sizeof(float) * model_->parameters().count()),
      format_bytes(trainer_->rule().memory(shape()).peak));
  if (first_step_ > 0) fmt::print(stderr, "resuming {} at step {}\n", options_.out, first_step_);
}

StepReport TextTraining::one_step() {
  const std::uint64_t step = trainer_->steps();
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    corpus_->training_batch(config_.train.seed, step * buffers_.size() + i,
                            buffers_[i].fill_view(config_.data.batch));
    batches_[i] = buffers_[i].batch(config_.data.batch);
  }
  return trainer_->step(batches_);
}

void TextTraining::evaluate(Progress& progress) {
  const TextQuality q = evaluate_text(*model_, *corpus_, Split::kValidation, config_.data.length,
                                      config_.data.batch, options_.eval_windows);
  history_.push_back({{"step", trainer_->steps()}, {"validation_loss", q.loss()}});
  progress.note(fmt::format("step {}: validation loss {:.4f}, perplexity {:.2f}", trainer_->steps(),
                            q.loss(), q.perplexity()));
}

void TextTraining::run() {
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
    std::size_t tokens = 0;
    while (trainer_->steps() < options_.steps && stop_requested == 0) {
      last = one_step();
      if (!last.finite) break;
      tokens += last.tokens;
      progress.update(last.step, fmt::format("loss {:.4f}  {:.0f} tokens/s  {}", last.loss,
                                             static_cast<double>(tokens) / seconds(),
                                             format_bytes(resident_bytes())));
      if (options_.eval_every > 0 && last.step % options_.eval_every == 0) evaluate(progress);
      if (options_.save_every > 0 && last.step % options_.save_every == 0) save_now();
    }
  }
  save_now();
  finish(last, seconds());
}

void TextTraining::finish(const StepReport& last, double seconds) {
  const bool interrupted = stop_requested != 0 && last.step < options_.steps;
  const double tokens = static_cast<double>((last.step - first_step_) * config_.data.batch *
                                            config_.data.length * config_.data.accumulate);
  if (common_.json) {
    const nlohmann::json result = {{"checkpoint", options_.out},
                                   {"step", last.step},
                                   {"loss", last.loss},
                                   {"diverged", !last.finite},
                                   {"interrupted", interrupted},
                                   {"seconds", seconds},
                                   {"tokens_per_second", seconds > 0 ? tokens / seconds : 0.0},
                                   {"parameters", model_->parameters().count()},
                                   {"peak_resident_bytes", peak_resident_bytes()},
                                   {"validation", history_}};
    fmt::print("{}\n", result.dump(2));
    return;
  }
  if (!last.finite) {
    fmt::print("diverged after step {}: the loss or gradient is not finite; try a lower --lr\n",
               last.step);
  }
  if (interrupted) {
    fmt::print("stopped at step {}; go on with: longspan train text --out {} --resume --steps {}\n",
               last.step, options_.out, options_.steps);
  }
  fmt::print("checkpoint of step {} in {} ({} at {:.0f} tokens/s)\n", last.step, options_.out,
             human_seconds(seconds), seconds > 0 ? tokens / seconds : 0.0);
}

void add_model_options(CLI::App& command, TrainOptions& o) {
  ModelConfig& m = o.run.model;
  const std::string group = "Model";
  add_number(command, "--layers", m.layers, "Layers", group);
  add_number(command, "--d-model", m.d_model, "Width", group);
  add_number(command, "--heads", m.heads, "Attention heads", group);
  add_number(command, "--kv-heads", m.kv_heads, "Key-value heads; 0: as many as heads", group);
  add_number(command, "--d-ff", m.d_ff, "Feed-forward width; 0: 4 × width", group);
  add_text(command, "--attention", m.attention, "Mechanism, KIND[:key=value,…]; see longspan list",
           group);
  add_text(command, "--wiring", m.wiring, "post, pre or reversible", group);
  add_text(command, "--norm", m.norm, "layer or rms", group);
  add_text(command, "--activation", m.activation, "relu, gelu, gelu-tanh or silu", group);
  command.add_flag("--gated", m.gated, "Gated feed-forward (SwiGLU with --activation silu)")
      ->group(group);
  add_text(command, "--positions", m.positions, "none, sinusoidal, learned or rotary", group);
  add_number(command, "--dropout", m.dropout, "Dropout", group);
  command.add_flag("--no-bias", o.no_bias, "No biases in linear layers")->group(group);
  command
      .add_flag("--checkpointing", m.checkpointing,
                "Layers keep their input only and are computed again")
      ->group(group);
  add_number(command, "--frozen-layers", m.frozen_layers,
             "The embedding and so many first layers are not trained", group);
  add_number(command, "--lora-rank", m.lora_rank,
             "Only adapters of this rank in the attention are trained; 0: everything is", group);
  add_number(command, "--lora-alpha", m.lora_alpha, "Adapters are scaled by alpha / rank", group);
  command.add_flag("--untied", o.untied, "A softmax layer of its own")->group(group);
}

void add_learning_options(CLI::App& command, TrainOptions& o) {
  TrainConfig& t = o.run.train;
  const std::string group = "Learning";
  add_text(command, "--rule", t.rule, "Learning rule; see longspan list", group);
  add_text(command, "--last-layer", t.feedback.last_layer,
           "pepita, mempepita: what the last layer learns from: difference, modulated or standard "
           "(error)",
           group);
  add_text(command, "--injection", t.feedback.injection,
           "likewise: where a language model's error is added: input, or embedding through F",
           group);
  add_number(command, "--feedback-scale", t.feedback.scale,
             "likewise: scale of F, or of the error where there is no F", group);
  add_text(command, "--optimizer", t.optimizer.kind, "sgd, momentum, adam or adamw", group);
  add_number(command, "--lr", t.schedule.peak, "Highest learning rate", group);
  add_number(command, "--lr-floor", t.schedule.floor, "Last learning rate", group);
  add_text(command, "--schedule", t.schedule.kind, "constant, linear or cosine", group);
  add_number(command, "--schedule-steps", o.schedule_steps,
             "Steps until the last learning rate; 0: --steps", group);
  add_number(command, "--warmup", t.schedule.warmup, "Steps of linear warm-up", group);
  add_number(command, "--weight-decay", t.optimizer.weight_decay, "Weight decay of matrices",
             group);
  add_number(command, "--momentum", t.optimizer.momentum, "Momentum", group);
  add_number(command, "--beta1", t.optimizer.beta1, "Adam's first decay", group);
  add_number(command, "--beta2", t.optimizer.beta2, "Adam's second decay", group);
  add_number(command, "--clip", t.clip, "Largest gradient norm; 0: none", group);
  add_number(command, "--seed", t.seed, "Seed of weights, batches and dropout", group);
}

void add_run_options(CLI::App& command, TrainOptions& o) {
  command.add_option("task", o.task, "What to learn: text")->required();
  command.add_option("--data", o.run.data.data, "The text file to learn");
  add_text(command, "--out", o.out, "Where the checkpoint goes");
  add_number(command, "--steps", o.steps, "Steps in all");
  add_text(command, "--vocabulary", o.vocabulary, "characters or bytes");
  add_number(command, "--length", o.run.data.length, "Tokens per sequence");
  add_number(command, "--batch", o.run.data.batch, "Sequences per batch");
  add_number(command, "--accumulate", o.run.data.accumulate, "Batches per update");
  add_number(command, "--eval-every", o.eval_every, "Steps between validations; 0: never");
  add_number(command, "--eval-windows", o.eval_windows, "Windows of each validation; 0: all");
  add_number(command, "--save-every", o.save_every,
             "Steps between checkpoints; 0: at the end only");
  command.add_flag("--resume", o.resume, "Go on with the checkpoint in --out");
  command.add_flag("--overwrite", o.overwrite, "Replace a checkpoint in --out");
}

}  // namespace

void add_train(CLI::App& app, const Common& common) {
  CLI::App* command = app.add_subcommand("train", "Train a model; Ctrl-C saves, --resume goes on");
  auto o = std::make_shared<TrainOptions>();
  add_run_options(*command, *o);
  add_model_options(*command, *o);
  add_learning_options(*command, *o);
  command->footer(
      "Examples:\n"
      "  longspan train text --data data/tinyshakespeare.txt --out model --steps 2000\n"
      "  longspan train text --out model --resume --steps 4000\n"
      "  longspan train text --data book.txt --wiring reversible --length 1024 --batch 2");
  command->callback([o, &common] {
    find_task(o->task);
    TextTraining(*o, common).run();
  });
}

}  // namespace longspan::cli
