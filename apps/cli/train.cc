// longspan train: a model from data, resumable bit for bit.
#include "train.h"

#include <memory>
#include <string>

#include "longspan/tasks/registry.h"

namespace longspan::cli {

namespace {

void add_model_options(CLI::App& command, TrainOptions& o) {
  ModelConfig& m = o.run.model;
  const std::string group = "Model";
  add_text(command, "--model", o.model, "Of images: mlp, or encoder (of patches)", group);
  add_number(command, "--layers", m.layers, "Layers", group);
  add_number(command, "--hidden", o.hidden, "Width of a perceptron's layers", group);
  add_number(command, "--patch", o.run.data.patch, "Side of an encoder's patches", group);
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
  add_text(command, "--branch-signal", t.feedback.branch_signal,
           "likewise: what a residual branch's last matrix compares: its output, or the sum",
           group);
  add_text(command, "--learners", t.feedback.learners,
           "likewise: all, or stream: only what writes into the residual stream, and the head",
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
  command.add_option("task", o.task, "What to learn: text or images")->required();
  command.add_option("--data", o.run.data.data, "The text file, or the directory of images");
  add_text(command, "--out", o.out, "Where the checkpoint goes");
  add_number(command, "--steps", o.steps, "Steps in all");
  add_number(command, "--epochs", o.epochs, "Images: passes over them, instead of --steps");
  add_text(command, "--vocabulary", o.vocabulary, "characters or bytes");
  add_number(command, "--length", o.run.data.length, "Tokens per sequence");
  add_number(command, "--batch", o.run.data.batch, "Sequences per batch");
  add_number(command, "--accumulate", o.run.data.accumulate, "Batches per update");
  add_number(command, "--eval-every", o.eval_every, "Steps between validations; 0: never");
  add_number(command, "--eval-windows", o.eval_windows, "Windows of each validation; 0: all");
  add_number(command, "--align-every", o.align_every,
             "Steps between comparisons of the rule's gradients with backpropagation's; 0: never");
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
      "  longspan train text --data book.txt --wiring reversible --length 1024 --batch 2\n"
      "  longspan train images --data mnist --rule pepita --layers 1 --hidden 1024 --epochs 10");
  command->callback([o, &common] {
    find_task(o->task);
    (o->task == "images" ? train_images : train_text)(*o, common);
  });
}

}  // namespace longspan::cli
