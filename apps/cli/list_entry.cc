#include "list_entry.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "longspan/base/config.h"
#include "longspan/layers/branches.h"
#include "longspan/learning/rule.h"
#include "longspan/models/presets.h"
#include "longspan/report/quality_summary.h"
#include "longspan/report/shipped_quality.h"
#include "longspan/tasks/registry.h"
#include "table.h"
#include "terminal.h"

namespace longspan::cli {

namespace {

// What is said of any entry: facts by name, a table of options, commands to try.
struct Explanation {
  std::string name;
  std::string what;  // it is: "attention", "task", …
  std::string summary;
  std::vector<std::pair<std::string, std::string>> facts = {};
  std::vector<std::string> equations = {};
  std::vector<OptionText> options = {};
  std::string option_of = {};  // how options are given
  std::vector<std::string> examples = {};
  std::string page = {};
};

struct Ability {
  bool Abilities::*has;
  std::string_view words;
  bool missed = true;  // where it is not there
};
constexpr std::array<Ability, 12> kAbilities = {{
    {&Abilities::exact, "exact", false},
    {&Abilities::causal, "causal"},
    {&Abilities::cross, "cross-attention"},
    {&Abilities::decode, "decoding"},
    {&Abilities::key_lengths, "padding"},
    {&Abilities::bias, "bias"},
    {&Abilities::boolean_mask, "boolean masks"},
    {&Abilities::dropout, "dropout"},
    {&Abilities::grouped_heads, "grouped heads"},
    {&Abilities::value_heads, "more value heads", false},
    {&Abilities::pooled, "pooled queries", false},
    {&Abilities::shared_qk, "keys that are the queries", false},
}};

std::string with_ability(const Abilities& abilities, bool wanted) {
  std::string list;
  for (const Ability& ability : kAbilities) {
    if (abilities.*ability.has != wanted || (!wanted && !ability.missed)) continue;
    list += (list.empty() ? "" : ", ") + std::string(ability.words);
  }
  return list;
}

std::vector<std::string> lines_in(std::string_view text) {
  if (text.empty()) return {};
  return split_list(text, '\n');
}

Explanation explained(const Mechanism& m) {
  const Abilities abilities = m.abilities("");
  const std::size_t own = own_parameters(m);
  Explanation e{
      .name = std::string(m.name), .what = "attention", .summary = std::string(m.summary)};
  e.facts = {{"class", std::string(name_of(m.kind))},
             {"time", std::string(m.complexity)},
             {"memory", std::string(m.memory)},
             {"gives up", m.gives_up.empty() ? "nothing" : std::string(m.gives_up)},
             {"can", with_ability(abilities, true)},
             {"parameters", own == 0 ? "none of its own"
                                     : fmt::format("{} of its own in a layer of 8 heads of 64 and "
                                                   "up to 4096 tokens",
                                                   own)}};
  const std::string missing = with_ability(abilities, false);
  if (!missing.empty()) e.facts.insert(e.facts.end() - 1, {"cannot", missing});
  if (!abilities.not_causal.empty()) e.facts.emplace_back("not causal", abilities.not_causal);
  e.equations = lines_in(m.equations);
  if (m.options != nullptr) e.options = m.options();
  e.option_of = e.name + ":key=value,…";
  const std::string setting = m.settings[0].empty() ? "" : ":" + std::string(m.settings[0]);
  e.examples = {fmt::format("longspan pattern {}", m.name),
                fmt::format("longspan cost --model bert-base --attention {}{}", m.name, setting)};
  if (abilities.causal) {
    e.examples.push_back(fmt::format(
        "longspan train text --data book.txt --out model --attention {}{}", m.name, setting));
  }
  e.page = fmt::format("docs/attention/{}.md", m.name);
  return e;
}

Explanation explained(const BranchKind& b) {
  constexpr std::array<std::string_view, 3> kRoles = {"mixes tokens", "reads another sequence",
                                                      "works on each token"};
  Explanation e{.name = std::string(b.name), .what = "branch", .summary = std::string(b.summary)};
  e.facts = {{"role", std::string(kRoles[static_cast<std::size_t>(b.role)])}};
  if (b.options != nullptr) {
    e.options = b.options();
    e.option_of = e.name + ":key=value,…";
  }
  e.page = b.page;
  return e;
}

Explanation explained(const Preset& p) {
  Explanation e{.name = std::string(p.name), .what = "model", .summary = std::string(p.summary)};
  e.facts = {{"source", std::string(p.source)}, {"length", fmt::format("{} tokens", p.length)}};
  e.examples = {fmt::format("longspan cost --model {}", p.name)};
  return e;
}

// What the records that ship say of a task: "flash 99.04 %, …, the best first".
std::string judged_text(const QualityRecord& r) {
  std::string list;
  for (const Standing& standing : standings(r)) {
    if (standing.trained == 0) continue;
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", standing.mechanism,
                        quality_text(r.settings, standing.mean));
  }
  return fmt::format("{} on {}: {}", r.settings.metric, r.created.substr(0, r.created.find('T')),
                     list);
}

Explanation explained(const TaskEntry& t) {
  Explanation e{.name = std::string(t.name), .what = "task", .summary = std::string(t.summary)};
  for (const TaskOption& o : t.options()) {
    std::string flag = o.name;
    std::ranges::replace(flag, '_', '-');
    e.options.push_back({flag, o.standard, o.is_text ? "text" : "a number", o.purpose});
  }
  e.option_of = fmt::format("longspan train {} --key value", t.name);
  const bool needs_data = t.make({})->needs_data();
  e.examples = {
      fmt::format("longspan train {} --help", t.name),
      fmt::format("longspan compare --task {}{}", t.name, needs_data ? ":data=FILE" : "")};
  for (const QualityRecord& r : shipped_quality()) {
    if (r.settings.task != t.name) continue;
    e.facts.emplace_back("judged", judged_text(r));
    e.examples.push_back(fmt::format("longspan advise --task {} --length 16384", t.name));
  }
  e.page = fmt::format("docs/tasks/{}.md", t.name);
  return e;
}

Explanation explained(const RuleEntry& r) {
  Explanation e{.name = std::string(r.name), .what = "rule", .summary = std::string(r.summary)};
  e.examples = {fmt::format("longspan train text --data book.txt --out model --rule {}", r.name)};
  e.page = "docs/learning/index.md";
  return e;
}

// The entry of that name in any of the registries, in the order in which they are listed.
Explanation find_entry(std::string_view name) {
  std::vector<std::string_view> known;
  std::vector<Explanation> found;
  const auto look = [&](const auto& entries) {
    for (const auto& entry : entries) {
      known.push_back(entry.name);
      if (entry.name == name && found.empty()) found.push_back(explained(entry));
    }
  };
  look(mechanisms());
  look(branch_kinds());
  look(presets());
  look(tasks());
  look(rules());
  if (found.empty()) throw_unknown("list", "name", name, known);
  return found.front();
}

nlohmann::json as_json(const Explanation& e) {
  nlohmann::json json = {{"name", e.name}, {"kind", e.what}, {"summary", e.summary}};
  for (const auto& [name, text] : e.facts) json[name] = text;
  if (!e.equations.empty()) json["equations"] = e.equations;
  json["options"] = nlohmann::json::array();
  for (const OptionText& o : e.options) {
    json["options"].push_back(
        {{"name", o.name}, {"default", o.standard}, {"values", o.values}, {"purpose", o.purpose}});
  }
  json["examples"] = e.examples;
  if (!e.page.empty()) json["page"] = e.page;
  return json;
}

void print_text(const Explanation& e) {
  print_wrapped("", fmt::format("{}, {}: {}", e.name, e.what, e.summary));
  for (const auto& [name, text] : e.facts) print_wrapped(fmt::format("  {:<12}", name), text);
  if (!e.equations.empty()) fmt::print("\nequations\n");
  for (const std::string& line : e.equations) print_wrapped("  ", line);
  if (!e.options.empty()) {
    fmt::print("\n");
    print_wrapped("", "options, " + e.option_of);
    Table table({{"option"}, {"default"}, {"what for", false, true}, {"values", false, true}}, 2);
    for (const OptionText& o : e.options) table.add({o.name, o.standard, o.purpose, o.values});
    table.print();
  } else if (!e.option_of.empty()) {
    fmt::print("\nno options\n");
  }
  if (!e.examples.empty()) fmt::print("\nexamples\n");
  for (const std::string& line : e.examples) print_wrapped("  ", line);
  if (!e.page.empty()) fmt::print("\nmore in {}\n", e.page);
}

}  // namespace

std::size_t own_parameters(const Mechanism& mechanism) {
  const LoneAttention alone(
      mechanism.name,
      {.d_model = 512, .heads = 8, .kv_heads = 8, .d_head = 64, .max_length = 4096});
  std::size_t own = 0;
  for (const Parameter& p : alone.parameters().all()) {
    // What a layer has without it: a mechanism may call upon its projections.
    const bool given = std::ranges::any_of(alone.streams().given, [&](const Stream& s) {
      return p.name.starts_with(fmt::format("attention.{}.", s.group));
    });
    own += given || p.constant ? 0 : p.size();
  }
  return own;
}

void print_entry(const std::string& name, bool json) {
  const Explanation e = find_entry(name.substr(0, name.find(':')));
  if (json) {
    fmt::print("{}\n", as_json(e).dump(2));
  } else {
    print_text(e);
  }
}

}  // namespace longspan::cli
