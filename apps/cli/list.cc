// longspan list: the registries.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "command.h"
#include "longspan/attention/registry.h"
#include "longspan/layers/branches.h"
#include "longspan/learning/rule.h"
#include "longspan/models/presets.h"
#include "longspan/tasks/registry.h"

namespace longspan::cli {

namespace {

// Weights that a mechanism itself adds to a layer of 8 heads of 64 and sequences of up to 4096.
std::size_t own_parameters(const Mechanism& mechanism) {
  const LoneAttention alone(
      mechanism.name,
      {.d_model = 512, .heads = 8, .kv_heads = 8, .d_head = 64, .max_length = 4096});
  return alone.parameters().count();
}

nlohmann::json as_json() {
  nlohmann::json json = {{"attention", nlohmann::json::array()},
                         {"branches", nlohmann::json::array()},
                         {"models", nlohmann::json::array()},
                         {"tasks", nlohmann::json::array()},
                         {"rules", nlohmann::json::array()}};
  for (const Mechanism& m : mechanisms()) {
    const Abilities a = m.abilities("");
    json["attention"].push_back({{"name", m.name},
                                 {"class", name_of(m.kind)},
                                 {"complexity", m.complexity},
                                 {"exact", a.exact},
                                 {"causal", a.causal},
                                 {"cross", a.cross},
                                 {"decode", a.decode},
                                 {"parameters", own_parameters(m)},
                                 {"summary", m.summary}});
  }
  for (const BranchKind& b : branch_kinds()) {
    json["branches"].push_back({{"name", b.name}, {"summary", b.summary}});
  }
  for (const Preset& p : presets()) {
    json["models"].push_back({{"name", p.name}, {"summary", p.summary}, {"source", p.source}});
  }
  for (const TaskEntry& t : tasks())
    json["tasks"].push_back({{"name", t.name}, {"summary", t.summary}});
  for (const RuleEntry& r : rules()) {
    json["rules"].push_back({{"name", r.name}, {"summary", r.summary}});
  }
  return json;
}

void print_tables() {
  const auto mark = [](bool yes) { return yes ? "✓" : "✗"; };
  fmt::print("{:<20} {:<18} {:<13} {:<6} {:<7} {:<6} {:<7} {:>10}\n", "attention", "class",
             "complexity", "exact", "causal", "cross", "decode", "parameters");
  for (const Mechanism& m : mechanisms()) {
    const Abilities a = m.abilities("");
    const std::size_t own = own_parameters(m);
    fmt::print("{:<20} {:<18} {:<13} {:<6} {:<7} {:<6} {:<7} {:>10}\n", m.name, name_of(m.kind),
               m.complexity, mark(a.exact), mark(a.causal), mark(a.cross), mark(a.decode),
               own == 0 ? "none" : fmt::format("{}", own));
  }
  fmt::print("parameters: its own, for a layer of 8 heads of 64 and up to 4096 tokens\n");
  fmt::print("\n{:<20} {}\n", "attention", "what it computes");
  for (const Mechanism& m : mechanisms()) fmt::print("{:<20} {}\n", m.name, m.summary);
  fmt::print("\n{:<20} {}\n", "branch of a block", "what it computes");
  for (const BranchKind& b : branch_kinds()) fmt::print("{:<20} {}\n", b.name, b.summary);
  fmt::print("\n{:<20} {:<50} {}\n", "model", "what it is", "source");
  for (const Preset& p : presets()) {
    fmt::print("{:<20} {:<50} {}\n", p.name, p.summary, p.source);
  }
  fmt::print("\n{:<20} {}\n", "task", "what is learned");
  for (const TaskEntry& t : tasks()) fmt::print("{:<20} {}\n", t.name, t.summary);
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
