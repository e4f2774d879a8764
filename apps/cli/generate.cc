// longspan generate: text from a trained model, token by token.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command.h"
#include "longspan/base/error.h"
#include "run_directory.h"
#include "sampler.h"

namespace longspan::cli {

namespace {

struct GenerateOptions {
  std::string directory;
  std::string prompt = "\n";
  std::size_t tokens = 500;
  SamplerConfig sampler;
};

// A growing text and the cache behind it. When the model's context is full, it starts again with
// the newer half of it. A mechanism that cannot decode reads the whole context for each token.
class Writer {
 public:
  explicit Writer(Model& model)
      : model_(model), context_(model.config().max_length), decodes_(model.decodes()) {
    require(model.config().family == "decoder", "[generate] the model is an {}; need a decoder",
            model.config().family);
    if (!decodes_) return;
    memory_ = Arena(model.cache_bytes(1, context_));
    caches_ = model.make_caches(1, context_, memory_);
  }

  // Logits of what follows `tokens`, the last `fresh` of which are new to the cache.
  std::span<const float> read(std::span<const std::int32_t> tokens, std::size_t fresh) {
    Batch batch;
    batch.batch = 1;
    if (!decodes_) {
      batch.length = std::min(tokens.size(), context_);
      batch.tokens = tokens.last(batch.length);
      return model_.logits(batch).row(batch.length - 1);
    }
    if (caches_.front().used + fresh > context_) {
      for (DecodeCache& c : caches_) c.clear();
      fresh = std::min(tokens.size(), std::max<std::size_t>(1, context_ / 2));
    }
    batch.length = fresh;
    batch.tokens = tokens.last(fresh);
    return model_.decode(batch, caches_).row(0);
  }

 private:
  Model& model_;
  std::size_t context_;
  bool decodes_;
  Arena memory_;
  std::vector<DecodeCache> caches_;
};

void run_generate(const GenerateOptions& o, const Common& common) {
  check(o.sampler);
  LoadedRun run = load_run(o.directory);
  const Vocabulary& vocabulary = run.config.vocabulary;
  std::vector<std::int32_t> tokens = vocabulary.encode("the prompt", o.prompt);
  require(!tokens.empty(), "[generate] the prompt is empty; need at least one character");
  if (!common.json) fmt::print("{}", o.prompt);
  const std::size_t prompt_size = tokens.size();
  tokens.reserve(prompt_size + o.tokens);
  Writer writer(*run.model);
  Sampler sampler(o.sampler);
  const auto start = std::chrono::steady_clock::now();
  std::size_t fresh = prompt_size;
  for (std::size_t i = 0; i < o.tokens; ++i) {
    const auto logits = writer.read(tokens, fresh);
    tokens.push_back(sampler.draw(logits, i));
    fresh = 1;
    if (!common.json) {
      fmt::print("{}", vocabulary.decode(std::span(tokens).last(1)));
      std::fflush(stdout);
    }
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (common.json) {
    const nlohmann::json result = {
        {"prompt", o.prompt},
        {"text", vocabulary.decode(std::span(tokens).subspan(prompt_size))},
        {"tokens", o.tokens},
        {"seconds", seconds}};
    fmt::print("{}\n", result.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  fmt::print("\n");
  std::fflush(stdout);  // before what goes to the other stream
  if (!common.quiet) {
    fmt::print(stderr, "{} tokens, {:.0f} a second\n", o.tokens,
               static_cast<double>(o.tokens) / std::max(seconds, 1e-9));
  }
}

}  // namespace

void add_generate(CLI::App& app, const Common& common) {
  CLI::App* command = app.add_subcommand("generate", "Text from a trained model");
  auto o = std::make_shared<GenerateOptions>();
  command->add_option("checkpoint", o->directory, "Directory of the trained model")->required();
  command->add_option("--prompt", o->prompt, "How the text begins; a line break unless given");
  add_number(*command, "--tokens", o->tokens, "How many tokens to write");
  add_number(*command, "--temperature", o->sampler.temperature, "0: always the likeliest token");
  add_number(*command, "--top-k", o->sampler.top_k, "Only the k likeliest tokens; 0: all");
  add_number(*command, "--top-p", o->sampler.top_p, "Only the likeliest tokens of this total");
  add_number(*command, "--seed", o->sampler.seed, "Seed of the draws");
  command->footer(
      "Examples:\n"
      "  longspan generate model --prompt 'ROMEO:' --tokens 300\n"
      "  longspan generate model --temperature 0");
  command->callback([o, &common] { run_generate(*o, common); });
}

}  // namespace longspan::cli
