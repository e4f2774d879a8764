// longspan list: the registries.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "command.h"
#include "list_entry.h"
#include "longspan/attention/registry.h"
#include "longspan/layers/branches.h"
#include "longspan/learning/rule.h"
#include "longspan/models/families/family.h"
#include "longspan/models/presets.h"
#include "longspan/tasks/registry.h"
#include "table.h"
#include "terminal.h"

namespace longspan::cli {

namespace {

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

void print_mechanisms() {
  const auto mark = [](bool yes) { return yes ? "✓" : "✗"; };
  Table abilities({{"attention"},
                   {"complexity"},
                   {"exact"},
                   {"causal"},
                   {"cross"},
                   {"decode"},
                   {"parameters", true}});
  Table summaries({{"attention"}, {"class"}, {"what it computes", false, true}});
  for (const Mechanism& m : mechanisms()) {
    const Abilities a = m.abilities("");
    const std::size_t own = own_parameters(m);
    abilities.add({std::string(m.name), std::string(m.complexity), mark(a.exact), mark(a.causal),
                   mark(a.cross), mark(a.decode), own == 0 ? "none" : fmt::format("{}", own)});
    summaries.add({std::string(m.name), std::string(name_of(m.kind)), std::string(m.summary)});
  }
  abilities.print();
  print_wrapped("", "parameters: its own, for a layer of 8 heads of 64 and up to 4096 tokens");
  fmt::print("\n");
  summaries.print();
}

// Names and summaries of a registry.
template <class Entries>
void print_summaries(const char* what, const char* summary, const Entries& entries) {
  Table table({{what}, {summary, false, true}});
  for (const auto& entry : entries) {
    table.add({std::string(entry.name), std::string(entry.summary)});
  }
  fmt::print("\n");
  table.print();
}

void print_tables() {
  print_mechanisms();
  print_summaries("branch of a block", "what it computes", branch_kinds());
  Table models({{"model"}, {"what it is", false, true}, {"source", false, true}});
  for (const Preset& p : presets()) {
    models.add({std::string(p.name), std::string(p.summary), std::string(p.source)});
  }
  fmt::print("\n");
  models.print();
  print_summaries("task", "what is learned", tasks());
  print_summaries("rule", "how", rules());
  fmt::print("\n");
  print_wrapped("", "longspan list NAME explains one of them");
}

// "ForMaskedLM, Model, …" of the classes of a family: their names without what all begin with.
std::string heads_of(const CheckpointFamily& family) {
  const auto beginning = [&](std::size_t length) {
    const std::string_view first = family.heads.front().architecture.substr(0, length);
    return std::ranges::all_of(family.heads, [&](const CheckpointHead& head) {
      return head.architecture.size() > length && head.architecture.starts_with(first);
    });
  };
  std::size_t common = 0;
  if (family.heads.size() > 1) {
    while (beginning(common + 1)) ++common;
    const auto cuts_words = [&] {
      return std::ranges::any_of(family.heads, [&](const CheckpointHead& head) {
        return head.architecture[common] < 'A' || head.architecture[common] > 'Z';
      });
    };
    while (common > 0 && cuts_words()) --common;
  }
  std::string all;
  for (const CheckpointHead& head : family.heads) {
    all += (all.empty() ? "" : ", ") + std::string(head.architecture.substr(common));
  }
  return all;
}

nlohmann::json families_as_json() {
  nlohmann::json all = nlohmann::json::array();
  for (const CheckpointFamily* family : checkpoint_families()) {
    nlohmann::json heads = nlohmann::json::array();
    for (const CheckpointHead& head : family->heads) heads.push_back(head.architecture);
    all.push_back({{"model_type", family->model_type}, {"architectures", heads}});
  }
  return {{"families", all}};
}

void print_families(bool json) {
  if (json) {
    fmt::print("{}\n", families_as_json().dump(2));
    return;
  }
  Table table({{"model_type"}, {"classes", false, true}});
  for (const CheckpointFamily* family : checkpoint_families()) {
    table.add({std::string(family->model_type), heads_of(*family)});
  }
  table.print();
  fmt::print("\n");
  print_wrapped("",
                "longspan cost DIR counts a model by its config.json; classes are what follows "
                "the family's name in its \"architectures\"");
}

}  // namespace

void add_list(CLI::App& app, const Common& common) {
  CLI::App* command =
      app.add_subcommand("list", "The attention mechanisms, models, tasks and learning rules");
  const auto name = std::make_shared<std::string>();
  const auto families = std::make_shared<bool>(false);
  command->add_option("name", *name, "One of them, to be explained");
  command->add_flag("--families", *families,
                    "The families of released models whose config.json is understood");
  command->footer(
      "Examples:\n"
      "  longspan list\n"
      "  longspan list bigbird\n"
      "  longspan list --families");
  command->callback([name, families, &common] {
    require(name->empty() || !*families, "[list] --families and '{}'; need the one or the other",
            *name);
    if (*families) {
      print_families(common.json);
    } else if (!name->empty()) {
      print_entry(*name, common.json);
    } else if (common.json) {
      fmt::print("{}\n", as_json().dump(2));
    } else {
      print_tables();
    }
  });
}

}  // namespace longspan::cli
