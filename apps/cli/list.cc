// longspan list: the registries.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "command.h"
#include "longspan/attention/registry.h"
#include "longspan/learning/rule.h"
#include "longspan/models/presets.h"
#include "longspan/tasks/registry.h"

namespace longspan::cli {

namespace {

nlohmann::json as_json() {
  nlohmann::json json = {{"attention", nlohmann::json::array()},
                         {"models", nlohmann::json::array()},
                         {"tasks", nlohmann::json::array()},
                         {"rules", nlohmann::json::array()}};
  for (const Mechanism& m : mechanisms()) {
    const Abilities a = m.make("")->abilities();
    json["attention"].push_back({{"name", m.name},
                                 {"class", m.kind},
                                 {"complexity", m.complexity},
                                 {"exact", a.exact},
                                 {"causal", a.causal},
                                 {"cross", a.cross},
                                 {"decode", a.decode},
                                 {"summary", m.summary}});
  }
  for (const Preset& p : presets()) {
    json["models"].push_back({{"name", p.name}, {"summary", p.summary}, {"source", p.source}});
  }
  for (const Task& t : tasks()) json["tasks"].push_back({{"name", t.name}, {"summary", t.summary}});
  for (const RuleEntry& r : rules()) {
    json["rules"].push_back({{"name", r.name}, {"summary", r.summary}});
  }
  return json;
}

void print_tables() {
  const auto mark = [](bool yes) { return yes ? "✓" : "✗"; };
  fmt::print("{:<20} {:<10} {:<11} {:<6} {:<7} {:<7} {}\n", "attention", "class", "complexity",
             "exact", "causal", "decode", "what it computes");
  for (const Mechanism& m : mechanisms()) {
    const Abilities a = m.make("")->abilities();
    fmt::print("{:<20} {:<10} {:<11} {:<6} {:<7} {:<7} {}\n", m.name, m.kind, m.complexity,
               mark(a.exact), mark(a.causal), mark(a.decode), m.summary);
  }
  fmt::print("\n{:<20} {:<50} {}\n", "model", "what it is", "source");
  for (const Preset& p : presets()) {
    fmt::print("{:<20} {:<50} {}\n", p.name, p.summary, p.source);
  }
  fmt::print("\n{:<20} {}\n", "task", "what is learned");
  for (const Task& t : tasks()) fmt::print("{:<20} {}\n", t.name, t.summary);
  fmt::print("\n{:<20} {}\n", "rule", "how");
  for (const RuleEntry& r : rules()) fmt::print("{:<20} {}\n", r.name, r.summary);
}

}  // namespace

void add_list(CLI::App& app, const Common& common) {
  CLI::App* command =
      app.add_subcommand("list", "The attention mechanisms, models, tasks and learning rules");
  command->callback([&common] {
    if (common.json) {
      fmt::print("{}\n", as_json().dump(2));
    } else {
      print_tables();
    }
  });
}

}  // namespace longspan::cli
