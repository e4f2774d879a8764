// longspan generate: text from a trained model, token by token; events of one of events.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "applies.h"
#include "command.h"
#include "longspan/base/error.h"
#include "longspan/training/beam_search.h"
#include "longspan/training/event_writer.h"
#include "longspan/training/run_directory.h"
#include "longspan/training/sampler.h"
#include "longspan/training/writer.h"
#include "output.h"

namespace longspan::cli {

namespace {

struct GenerateOptions {
  std::string directory;
  std::string prompt = "\n";
  std::size_t tokens = 500;
  SamplerConfig sampler;
  std::optional<std::size_t> beams;  // none: tokens are drawn
  BeamConfig search;
  Applies applies;
};

// What was written, and how long it took.
struct Written {
  std::vector<std::int32_t> tokens;
  double seconds = 0.0;
  std::optional<FoundText> found = {};  // of a search
};

void draw_tokens(const GenerateOptions& o, Writer writer, const Task& task, bool shows,
                 Written& written) {
  Sampler sampler(o.sampler);
  while (written.tokens.size() < o.tokens && writer.room() > 0) {
    const std::int32_t token = sampler.draw(writer.scores().row(0), written.tokens.size());
    if (token == task.boundary()) break;
    written.tokens.push_back(token);
    writer.append({&token, 1});
    if (shows) {
      fmt::print("{}", task.decode(std::span(written.tokens).last(1)));
      flush_output();
    }
  }
}

Written write(const GenerateOptions& o, Model& model, const Task& task, bool shows) {
  std::vector<std::int32_t> prompt = task.encode(o.prompt);
  require(!prompt.empty(), "[generate] the prompt is empty; need at least one character");
  // An answer stands alone; a text goes on from its prompt.
  const bool begins = shows && task.boundary() < 0;
  const std::string beginning =
      begins ? task.decode(std::span(prompt).subspan(task.prelude())) : std::string();
  Written written;
  const auto start = std::chrono::steady_clock::now();
  if (o.beams) {
    BeamConfig config = o.search;
    config.beams = *o.beams;
    written.found = BeamSearch(model, config).find(std::move(prompt), task.boundary(), o.tokens);
    fmt::print("{}", beginning);
    written.tokens = written.found->tokens;
    if (shows) fmt::print("{}", task.decode(written.tokens));
  } else {
    Writer writer(model, std::move(prompt), task.boundary());  // which may refuse it
    fmt::print("{}", beginning);
    draw_tokens(o, std::move(writer), task, shows, written);
  }
  written.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return written;
}

// One sequence as a line of JSON.
void generate_events(const GenerateOptions& o, const LoadedRun& run, const Common& common) {
  RunConfig config = run.config;
  config.find_data();
  const std::unique_ptr<Task> task = config.make_task();
  task->open();
  const TimedTokens begin = task->begin(o.prompt);
  const TimedTokens written = write_events(*run.model, *task, begin, o.tokens, o.sampler.seed);
  fmt::print("{}\n", task->tell(written));
  flush_output();
  if (!common.quiet && !common.json) {
    fmt::print(stderr, "{} events\n", written.tokens.size() - begin.tokens.size());
  }
}

void run_generate(const GenerateOptions& o, const Common& common) {
  print_verbatim();  // the text is the model's
  check(o.sampler);
  LoadedRun run = load_run(o.directory);
  o.applies.check("generate", run.config);
  const std::unique_ptr<Task> task = run.config.make_task();
  if (task->timed()) {
    generate_events(o, run, common);
    return;
  }
  const Written written = write(o, *run.model, *task, !common.json);
  if (common.json) {
    nlohmann::json result = {{"prompt", o.prompt},
                             {"text", task->decode(written.tokens)},
                             {"tokens", written.tokens.size()},
                             {"seconds", written.seconds}};
    if (written.found) {
      result["log_probability"] = written.found->log_probability;
      result["score"] = written.found->score;
      result["ended"] = written.found->ended;
    }
    fmt::print("{}\n", result.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  fmt::print("\n");
  flush_output();  // before what goes to the other stream
  if (!common.quiet) {
    fmt::print(stderr, "{} tokens, {:.0f} a second\n", written.tokens.size(),
               static_cast<double>(written.tokens.size()) / std::max(written.seconds, 1e-9));
  }
}

}  // namespace

void add_generate(CLI::App& app, const Common& common) {
  CLI::App* command = app.add_subcommand("generate", "Text from a trained model");
  auto o = std::make_shared<GenerateOptions>();
  command->add_option("checkpoint", o->directory, "Directory of the trained model")->required();
  command->add_option("--prompt", o->prompt,
                      "How the text begins, or the events as JSON; a line break unless given");
  add_number(*command, "--tokens", o->tokens, "How many tokens to write, or events",
             from_to(0, 1e9));
  add_number(*command, "--temperature", o->sampler.temperature, "0: always the likeliest token",
             bounds_of(o->sampler, o->sampler.temperature));
  add_number(*command, "--top-k", o->sampler.top_k, "Only the k likeliest tokens; 0: all",
             bounds_of(o->sampler, o->sampler.top_k));
  add_number(*command, "--top-p", o->sampler.top_p, "Only the likeliest tokens of this total",
             bounds_of(o->sampler, o->sampler.top_p));
  add_number(*command, "--seed", o->sampler.seed, "Seed of the draws",
             bounds_of(o->sampler, o->sampler.seed));
  add_number(*command, "--beams", o->beams,
             "Search for the likeliest text with so many side by side, and draw nothing",
             bounds_of(o->search, o->search.beams));
  add_number(*command, "--length-penalty", o->search.length_penalty,
             "A search divides log P by ((5 + tokens)/6)^this; 0: by nothing",
             bounds_of(o->search, o->search.length_penalty));
  o->applies.only(*command, {"--temperature", "--top-k", "--top-p", "--seed"},
                  only_where([o = o.get()](const RunConfig& /*run*/) { return !o->beams; },
                             "--beams, which draws nothing; need one or the other"));
  o->applies.only(
      *command, {"--length-penalty"},
      only_where([o = o.get()](const RunConfig& /*run*/) { return o->beams.has_value(); },
                 "no search to weigh; need --beams"));
  o->applies.only(
      *command, {"--top-k", "--top-p", "--seed"},
      only_where([o = o.get()](const RunConfig& /*run*/) { return o->sampler.temperature != 0.0; },
                 "--temperature 0, which draws nothing; need more than 0"));
  o->applies.only(*command, {"--temperature", "--top-k", "--top-p", "--beams", "--length-penalty"},
                  only_where([](const RunConfig& run) { return !run.make_task()->timed(); },
                             "events, which are drawn from intensities; need a model of tokens"));
  command->footer(
      "Examples:\n"
      "  longspan generate model --prompt 'ROMEO:' --tokens 300\n"
      "  longspan generate model --temperature 0\n"
      "  longspan generate reverse --prompt '3 1 4 1 5' --temperature 0\n"
      "  longspan generate reverse --prompt '3 1 4 1 5' --beams 4\n"
      "  longspan generate events --prompt '{\"t\": [0.5, 2], \"m\": [0, 1]}'");
  command->callback([o, &common] { run_generate(*o, common); });
}

}  // namespace longspan::cli
