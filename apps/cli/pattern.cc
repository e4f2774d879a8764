// longspan pattern: which keys each query sees, and why.
#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"
#include "longspan/base/error.h"
#include "longspan/io/atomic_file.h"
#include "modes.h"
#include "output_file.h"
#include "pattern_draw.h"
#include "terminal.h"

namespace longspan::cli {

namespace {

struct Options {
  PatternRequest request;
  std::string out;
  Existing existing = Existing::kKept;
};

// Cells a side of what is not printed on a terminal.
constexpr std::size_t kMostPictured = 448;
constexpr std::size_t kMostListed = 1024;

nlohmann::json as_json(const Options& o, const Picture& picture) {
  nlohmann::json json = {{"attention", o.request.attention}, {"shown", picture.title()},
                         {"length", o.request.length},       {"head", o.request.head},
                         {"causal", o.request.causal},       {"rows", nlohmann::json::array()}};
  for (std::size_t i = 0; i < picture.cells(); ++i) {
    nlohmann::json row = nlohmann::json::array();
    std::uint8_t last = 0;
    for (const Picture::Run& run : picture.runs(i)) {
      const std::size_t begin = picture.token(run.begin);
      const std::size_t end = picture.token(run.end);
      if (run.cell.reason == last && row.back()["end"] == begin) {
        row.back()["end"] = end;
      } else {
        row.push_back({{"begin", begin}, {"end", end}, {"reason", picture.reason(run.cell)}});
      }
      last = run.cell.reason;
    }
    json["rows"].push_back(row);
  }
  if (picture.sampled()) {
    json["sampled"] = picture.cells();
    return json;
  }
  for (const auto& [cell, count] : picture.counts()) {
    auto& pairs = json["pairs"][std::string(picture.reason(cell))];
    pairs = pairs.is_null() ? count : pairs.get<std::size_t>() + count;
  }
  return json;
}

void check_place(const Options& o) {
  const std::string extension = std::filesystem::path(o.out).extension().string();
  require(extension == ".svg" || extension == ".png",
          "[pattern] --out is '{}'; need a name that ends in .svg or .png", o.out);
  check_output("pattern", o.out, o.existing);
}

void save(const Options& o, const Picture& picture) {
  AtomicFile file("pattern", o.out);
  file.write(o.out.ends_with(".svg") ? picture.svg() : picture.png());
  file.commit();
}

void print(const Options& o, const Picture& picture) {
  fmt::print("{}", picture.text(has_colours(STDOUT_FILENO)));
  if (picture.title() != o.request.attention) {
    print_wrapped("", fmt::format("drawn as {}: sizes that are not given scale with the length",
                                  picture.title()));
  }
}

void run(const Options& o, const Common& common) {
  const PatternRequest& r = o.request;
  require(r.head < r.heads, "[pattern] head {} of {}; need one from 0 to {}", r.head, r.heads,
          r.heads - 1);
  require_mechanism("pattern", r.attention);
  if (!o.out.empty()) {
    check_place(o);
    save(o, draw_pattern(r, kMostPictured));
  }
  if (common.json) {
    fmt::print("{}\n", as_json(o, draw_pattern(r, kMostListed)).dump());
  } else {
    print(o, draw_pattern(r, terminal_width(STDOUT_FILENO)));
  }
}

}  // namespace

void add_pattern(CLI::App& app, const Common& common) {
  CLI::App* command = app.add_subcommand("pattern", "Which keys each query attends to, and why");
  const auto o = std::make_shared<Options>();
  command
      ->add_option("attention", o->request.attention,
                   "KIND[:key=value,…], as longspan list names it; sizes that are not given scale "
                   "with the length")
      ->required();
  add_number(*command, "--length", o->request.length, "Tokens", from_to(1, 1e9));
  add_number(*command, "--heads", o->request.heads, "Heads", from_to(1, 1024));
  add_number(*command, "--head", o->request.head, "The head to show", from_to(0, 1023));
  command->add_flag("--causal", o->request.causal, "With a causal mask");
  add_text(*command, "--out", o->out, "Also write the picture: file.svg or file.png");
  add_overwrite(*command, o->existing);
  command->footer(
      "Examples:\n"
      "  longspan pattern bigbird\n"
      "  longspan pattern reformer --length 200 --out reformer.svg\n"
      "  longspan pattern window:window=512 --length 8192 --causal --out window.png");
  const Modes modes = Modes().needs({"--overwrite"}, {"--out"});
  command->callback([o, command, modes, &common] {
    modes.check(*command);
    run(*o, common);
  });
}

}  // namespace longspan::cli
