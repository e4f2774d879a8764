// longspan eval: how good a trained model is.
#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>

#include "command.h"
#include "image_runs.h"
#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "run_directory.h"
#include "text_runs.h"

namespace longspan::cli {

namespace {

struct EvalOptions {
  std::string directory;
  std::string data;
  std::string split = "validation";
  std::size_t length = 0;
  std::size_t batch = 0;
  std::size_t memory = 0;
};

void check_memory(Model& model) {
  for (std::size_t i = 0; i < model.config().layers; ++i) {
    require(model.mixer(i).remembers(),
            "[eval] --memory with {}, which remembers nothing; need transformer-xl",
            model.mechanism(i).name());
  }
  require(model.config().positions == "none",
          "[eval] --memory with {} positions, which begin anew in every segment; need none",
          model.config().positions);
}

void eval_images(const EvalOptions& o, LoadedRun& run, const Common& common) {
  const ImageCorpus corpus(o.data.empty() ? run.config.data.data : o.data);
  const std::size_t batch = o.batch == 0 ? run.config.data.batch : o.batch;
  const ImageQuality q = evaluate_images(*run.model, corpus.test(), batch, run.config.data.patch);
  if (common.json) {
    const nlohmann::json result = {{"checkpoint", o.directory}, {"step", run.step},
                                   {"images", q.images},        {"loss", q.loss},
                                   {"accuracy", q.accuracy},    {"majority", corpus.majority()}};
    fmt::print("{}\n", result.dump(2));
    return;
  }
  fmt::print("{} test images, step {}\n", q.images, run.step);
  fmt::print("  loss      {:.4f}\n", q.loss);
  fmt::print("  accuracy  {:.2f} % (the most common class: {:.2f} %)\n", 100.0 * q.accuracy,
             100.0 * corpus.majority());
}

void run_eval(const EvalOptions& o, const Common& common) {
  if (o.split != "validation" && o.split != "all") {
    throw_unknown("eval", "split", o.split, {"validation", "all"});
  }
  LoadedRun run = load_run(o.directory);
  if (run.config.data.task == "images") return eval_images(o, run, common);
  const std::string data = o.data.empty() ? run.config.data.data : o.data;
  const std::size_t length = o.length == 0 ? run.config.data.length : o.length;
  const std::size_t batch = o.batch == 0 ? run.config.data.batch : o.batch;
  require(length <= run.config.model.max_length, "[eval] length {}; the model takes at most {}",
          length, run.config.model.max_length);
  const TextCorpus corpus(data, run.config.vocabulary);
  corpus.require_length(length);
  if (o.memory > 0) check_memory(*run.model);
  const Split split = o.split == "all" ? Split::kAll : Split::kValidation;
  const TextQuality q = o.memory > 0
                            ? evaluate_segments(*run.model, corpus, split, length, batch, o.memory)
                            : evaluate_text(*run.model, corpus, split, length, batch, /*limit=*/0);
  if (common.json) {
    const nlohmann::json result = {{"checkpoint", o.directory},
                                   {"step", run.step},
                                   {"data", data},
                                   {"split", o.split},
                                   {"tokens", q.tokens},
                                   {"loss", q.loss()},
                                   {"perplexity", q.perplexity()},
                                   {"bits_per_byte", q.bits_per_byte()},
                                   {"memory", o.memory},
                                   {"accuracy", q.accuracy()}};
    fmt::print("{}\n", result.dump(2));
    return;
  }
  fmt::print("{} of {}, {} tokens, step {}\n", o.split, data, q.tokens, run.step);
  fmt::print("  loss           {:.4f} nats per token\n", q.loss());
  fmt::print("  perplexity     {:.3f}\n", q.perplexity());
  fmt::print("  bits per byte  {:.4f}\n", q.bits_per_byte());
  fmt::print("  accuracy       {:.2f} %\n", 100.0 * q.accuracy());
}

}  // namespace

void add_eval(CLI::App& app, const Common& common) {
  CLI::App* command = app.add_subcommand("eval", "Loss, perplexity and bits per byte of a model");
  auto o = std::make_shared<EvalOptions>();
  command->add_option("checkpoint", o->directory, "Directory of the trained model")->required();
  command->add_option("--data", o->data, "Another text than the one it was trained on");
  add_text(*command, "--split", o->split, "validation (the last tenth) or all");
  add_number(*command, "--length", o->length, "Tokens per sequence; 0: as trained");
  add_number(*command, "--batch", o->batch, "Sequences per batch; 0: as trained");
  add_number(*command, "--memory", o->memory,
             "Tokens that each sequence remembers of those before it (transformer-xl)");
  command->footer(
      "Examples:\n"
      "  longspan eval model\n"
      "  longspan eval model --length 32 --memory 128\n"
      "  longspan eval model --data other.txt --split all --json");
  command->callback([o, &common] { run_eval(*o, common); });
}

}  // namespace longspan::cli
