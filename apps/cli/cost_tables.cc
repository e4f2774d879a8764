// The report for people: tables that fit the terminal, with units, shares and reasons.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "cost.h"
#include "longspan/base/memory.h"
#include "longspan/cost/discrepancies.h"
#include "table.h"
#include "terminal.h"

namespace longspan::cli {

namespace {

double ratio(Integer part, Integer whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string percent(Integer part, Integer whole) {
  return fmt::format("{:.1f} %", 100.0 * ratio(part, whole));
}

// As sentences have it.
std::string_view title_of(LearningRule rule) {
  return rule == LearningRule::kBackprop ? "BP" : name_of(rule);
}

std::string bytes(Integer count) { return format_bytes(static_cast<std::uint64_t>(count)); }

void print_heading(const CostReport& report) {
  const Workload& w = report.workload;
  const ModelConfig& c = w.model;
  std::string blocks = fmt::format("{} block{}", c.layers, c.layers == 1 ? "" : "s");
  std::string tokens = fmt::format("{} × {} tokens", w.batch, w.length);
  if (w.has_both()) {
    blocks = fmt::format("{} + {} blocks", c.layers, c.decoder_layers);
    tokens = fmt::format("{} × ({} → {}) tokens", w.batch, w.length, w.target_length);
  }
  print_wrapped(
      "", fmt::format("{} of {}, width {}, {} heads, FFN {}, vocabulary {}; {} attention", c.family,
                      blocks, c.d_model, c.heads, w.d_ff(), c.vocab,
                      turns_in_words(c.attention, c.layers)) +
              (c.feed_forward == "dense" ? "" : ", " + turns_in_words(c.feed_forward, c.layers)) +
              (c.stages.empty() ? "" : ", stages " + c.stages));
  const ParameterCounts& p = report.parameters;
  const std::string trained =
      p.trained == p.total ? "" : fmt::format(", {} trained", to_grouped_decimal(p.trained));
  print_wrapped("", fmt::format("{} parameters{}; a step has {}", to_grouped_decimal(p.total),
                                trained, tokens));
  const std::string summary = in_words(report.summary);
  if (!summary.empty()) print_wrapped("", summary);
}

std::string_view meaning(CostView view) {
  static constexpr std::array<std::string_view, 3> kMeanings = {
      "what the paper prints", "the paper's formulas with their own sums put right",
      "what this engine does"};
  return kMeanings[static_cast<std::size_t>(view)];
}

// MACCs, FLOPs and what else there is of them, under one heading.
void add_columns(std::vector<Table::Column>& to, std::string_view group,
                 const char* last = nullptr) {
  for (const char* title : {"MACCs", "FLOPs", last}) {
    if (title != nullptr) to.push_back({title, true, false, std::string(group)});
  }
}

void print_view(const CostReport& report, CostView view) {
  // Without the paper's views beside it, a model has one count.
  const std::string title = report.beside_paper
                                ? fmt::format("{}: {}, one step", name_of(view), meaning(view))
                                : "one step";
  fmt::print("\n");
  print_wrapped("", title);
}

void print_layers(const CostReport& report, const ViewCounts& view) {
  print_view(report, view.view);
  std::vector<Table::Column> columns = {{"layer"}, {"×", true}};
  for (const char* phase : {"forward", "backward", "update"}) add_columns(columns, phase);
  columns.push_back({"FLOPs", true, false, "share"});
  Table table(std::move(columns));
  const CountValue forward = view.once(CostPhase::kForward, false);
  const CountValue backward = view.once(CostPhase::kBackward, false);
  const CountValue update = view.once(CostPhase::kUpdate, false);
  const Integer whole = (forward + backward + update).flops;
  const auto line = [&](const std::string& name, const std::string& count, const CountValue& f,
                        const CountValue& b, const CountValue& u) {
    table.add({name, count, with_unit(f.maccs), with_unit(f.flops), with_unit(b.maccs),
               with_unit(b.flops), with_unit(u.maccs), with_unit(u.flops),
               percent((f + b + u).flops, whole)});
  };
  // Of no interest where these rules are not.
  const auto is_marked = [&](const LayerCounts& layer) {
    return report.beside_paper && !layer.updated_by_backprop;
  };
  for (const LayerCounts& layer : view.layers) {
    line(layer.name + (is_marked(layer) ? " ¹" : ""), to_decimal(layer.count), layer.forward,
         layer.backward, layer.update);
  }
  line("sum", "", forward, backward, update);
  table.print();
  if (std::ranges::any_of(view.layers, is_marked)) {
    print_wrapped("", "¹ updated by PEPITA and MEMPEPITA only");
  }
}

void print_phases(const CostReport& report, const ViewCounts& view) {
  print_view(report, view.view);
  std::vector<Table::Column> columns = {{"phase"}};
  for (const LearningRule rule : report.shown_rules) {
    add_columns(columns, report.beside_paper ? name_of(rule) : "", "share");
  }
  Table table(std::move(columns));
  const auto line = [&](std::string_view name, auto pick) {
    Table::Cells cells = {std::string(name)};
    for (const LearningRule rule : report.shown_rules) {
      const RuleCounts& counts = view.rule(rule);
      const CountValue value = pick(counts);
      cells.insert(cells.end(), {with_unit(value.maccs), with_unit(value.flops),
                                 percent(value.flops, counts.total().flops)});
    }
    table.add(std::move(cells));
  };
  for (const CostPhase phase : kCostPhases) {
    if (phase == CostPhase::kOptimizer) continue;
    // Only PEPITA has some of the phases.
    const auto has = [&](LearningRule rule) {
      const CountValue value = view.rule(rule).phase(phase);
      return value.flops != 0 || value.maccs != 0;
    };
    if (!report.beside_paper && std::ranges::none_of(report.shown_rules, has)) continue;
    line(name_of(phase), [&](const RuleCounts& counts) { return counts.phase(phase); });
  }
  line("sum", [](const RuleCounts& counts) { return counts.total(); });
  line(report.beside_paper ? "optimizer (D8)" : "optimizer",
       [](const RuleCounts& counts) { return counts.phase(CostPhase::kOptimizer); });
  table.print();
}

// Every view that there is, so that a number is never read without the others beside it.
void print_rules(const CostReport& report) {
  const bool run = report.tokens.has_value();
  std::vector<CostView> views = {CostView::kExecuted};
  const bool papers = report.workload.in_paper() && in_paper(report.main_rule());
  if (papers && report.beside_paper) views.assign(kCostViews.begin(), kCostViews.end());
  std::vector<Table::Column> columns = {{run ? "all tokens" : "one step"}};
  for (const CostView view : views) {
    add_columns(columns, report.beside_paper ? name_of(view) : "",
                report.beside_paper ? "÷ BP" : nullptr);
  }
  Table table(std::move(columns));
  for (const LearningRule rule : report.shown_rules) {
    Table::Cells cells = {std::string(report.beside_paper ? name_of(rule) : "training")};
    for (const CostView which : views) {
      const ViewCounts& view = report.view(which);
      const CountValue step = view.rule(rule).total();
      const CountValue all = report.of_run(step);
      cells.insert(cells.end(), {with_unit(all.maccs), with_unit(all.flops)});
      if (!report.beside_paper) continue;
      cells.push_back(fmt::format(
          "{:.3f}", ratio(step.flops, view.rule(LearningRule::kBackprop).total().flops)));
    }
    table.add(std::move(cells));
  }
  fmt::print("\n");
  table.print();
  if (report.main_rule() != LearningRule::kBackprop) return;
  const ViewCounts& executed = report.view(CostView::kExecuted);
  const CountValue once = executed.once(CostPhase::kForward, false);
  const CountValue step = executed.rule(LearningRule::kBackprop).total();
  print_wrapped(
      "", fmt::format("{}backward and update are {:.4f} × forward in MACCs, {:.4f} × in FLOPs",
                      report.beside_paper ? "executed, BP: " : "",
                      ratio(step.maccs - once.maccs, once.maccs),
                      ratio(step.flops - once.flops, once.flops)));
}

void print_run(const CostReport& report) {
  if (!report.tokens) return;
  const LearningRule rule = report.main_rule();
  const Integer flops = report.of_run(report.view(CostView::kExecuted).rule(rule).total()).flops;
  const std::string by = report.beside_paper ? fmt::format(" executed by {}", title_of(rule)) : "";
  print_wrapped("", fmt::format("{} tokens: {:.4g} FLOPs{} = {:.0f} PF-days",
                                to_grouped_decimal(*report.tokens), static_cast<double>(flops), by,
                                static_cast<double>(flops) / 8.64e19));
}

void print_memory(const CostReport& report) {
  const MemoryUse& use = report.memory;
  fmt::print("\nmemory of a training step, {}\n", report.dtype);
  Table table({{}, {"", true}, {"", false, true}}, 2);
  const auto line = [&](const char* name, Integer count, const std::string& note) {
    table.add({name, bytes(count), note});
  };
  line("parameters", use.parameters, "");
  if (use.drawn > 0) line("drawn", use.drawn, "features and rotations, which nothing trains");
  line("gradients", use.gradients, "");
  line("optimizer", use.optimizer, report.optimizer_name);
  if (use.feedback > 0) line("feedback", use.feedback, "fixed random matrices");
  line("activations kept", use.activations,
       fmt::format("largest piece {} in {}", bytes(use.largest), use.largest_at));
  line("workspace", use.workspace, "");
  line("peak of the arena", use.peak, "first in " + use.peak_at);
  line("all", use.total(), "");
  line("inference", use.inference, "arena of a forward pass that keeps nothing");
  if (use.cache) {
    line("keys and values", *use.cache,
         fmt::format("of {} × {} tokens", report.workload.batch, report.workload.length));
  }
  table.print();
  if (!report.beside_paper) return;
  Table rules(
      {{"by learning rule"}, {"kept", true}, {"arena", true}, {"feedback", true}, {"all", true}},
      2);
  for (const LearningRule rule : report.shown_rules) {
    const MemoryUse& own = report.rule_memory.at(rule);
    rules.add({std::string(name_of(rule)), bytes(own.activations), bytes(own.peak),
               bytes(own.feedback), bytes(own.total())});
  }
  fmt::print("\n");
  rules.print();
}

void print_time(const CostReport& report) {
  fmt::print("\n");
  if (!report.time) {
    print_wrapped("", "time on this machine: longspan calibrate, once, and it is predicted here");
    return;
  }
  const std::string by =
      report.beside_paper ? fmt::format(" by {}", title_of(report.main_rule())) : "";
  const std::string on = report.device == "this" ? "this machine" : report.device;
  print_wrapped("", fmt::format("time of a training step{} on {}: {}, {} to {}", by, on,
                                spoken_time(report.time->seconds), spoken_time(report.time->low),
                                spoken_time(report.time->high)));
  if (!report.tokens) return;
  const double steps =
      static_cast<double>(*report.tokens) / static_cast<double>(report.workload.tokens());
  print_wrapped(
      "",
      fmt::format("time of all tokens: {}, {} to {}", spoken_time(steps * report.time->seconds),
                  spoken_time(steps * report.time->low), spoken_time(steps * report.time->high)));
}

bool same_layer(const LayerCounts& a, const LayerCounts& b) {
  return a.forward == b.forward && a.backward == b.backward && a.update == b.update;
}

// The D-numbers that explain why layers of two views differ.
void collect_reasons(const ViewCounts& a, const ViewCounts& b, std::set<int>& reasons) {
  for (const LayerCounts& x : a.layers) {
    for (const LayerCounts& y : b.layers) {
      if (x.name != y.name || same_layer(x, y)) continue;
      for (const int number : y.discrepancies) {
        const Discrepancy& d = discrepancy(number);
        const bool applies =
            b.view == CostView::kCorrected ? d.in_corrected : d.in_executed || d.in_corrected;
        if (applies) reasons.insert(number);
      }
    }
  }
}

void print_reasons(const CostReport& report) {
  if (!report.beside_paper || !report.workload.in_paper() || !in_paper(report.main_rule())) return;
  const ViewCounts& printed = report.view(CostView::kPrinted);
  std::set<int> reasons;
  for (const CostView view : {CostView::kCorrected, CostView::kExecuted}) {
    if (std::ranges::find(report.shown_views, view) == report.shown_views.end()) continue;
    collect_reasons(printed, report.view(view), reasons);
  }
  if (report.workload.has_both()) reasons.insert(5);
  const bool pepita = report.shown_rules.back() != LearningRule::kBackprop;
  if (pepita) reasons.insert({9, 10});
  if (!reasons.empty()) fmt::print("\nwhy the views differ\n");
  for (const int number : reasons) {
    const Discrepancy& d = discrepancy(number);
    print_wrapped(fmt::format("  {:<4}", d.id), fmt::format("{} {}", d.paper, d.meant));
  }
  const std::vector<std::string> beyond = beyond_the_paper(report.workload);
  if (beyond.empty()) return;
  std::string list;
  for (const std::string& what : beyond) list += (list.empty() ? "" : ", ") + what;
  print_wrapped("  ", "The paper's views leave out what it does not have: " + list + ".");
}

}  // namespace

std::string spoken_time(double seconds) {
  if (seconds < 1.0) return fmt::format("{:.3g} ms", 1e3 * seconds);
  if (seconds < 59.5) return fmt::format("{:.3g} s", seconds);
  struct Unit {
    double seconds;
    std::string_view name;
  };
  constexpr std::array<Unit, 5> kUnits = {
      {{365.25 * 86400, "years"}, {86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}}};
  // In the unit above one that is just not full once it is rounded, so that nothing says 60 min.
  std::size_t unit = 0;
  while (seconds + kUnits[unit + 1].seconds / 2 < kUnits[unit].seconds) ++unit;
  if (unit == 0) return fmt::format("{:.3g} years", seconds / kUnits[0].seconds);
  const double small = kUnits[unit + 1].seconds;
  const auto count = static_cast<std::uint64_t>(std::llround(seconds / small));
  const auto ratio = static_cast<std::uint64_t>(kUnits[unit].seconds / small);
  return fmt::format("{} {} {} {}", count / ratio, kUnits[unit].name, count % ratio,
                     kUnits[unit + 1].name);
}

std::string with_unit(Integer value) {
  static constexpr std::string_view kUnits = " kMGTPEZYRQ";
  auto scaled = static_cast<double>(value);
  std::size_t unit = 0;
  while (std::abs(scaled) >= 999.95 && unit + 1 < kUnits.size()) {
    scaled /= 1000.0;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f}", scaled);
  const int decimals = std::abs(scaled) >= 99.995 ? 1 : std::abs(scaled) >= 9.9995 ? 2 : 3;
  return fmt::format("{:.{}f} {}", scaled, decimals, kUnits[unit]);
}

void print_tables(const CostReport& report, const std::string& by) {
  print_heading(report);
  for (const CostView view : report.shown_views) {
    if (by == "layer") {
      print_layers(report, report.view(view));
    } else {
      print_phases(report, report.view(view));
    }
  }
  print_rules(report);
  print_run(report);
  print_memory(report);
  print_time(report);
  print_reasons(report);
}

void print_difference(const CostReport& report, const CostReport& other) {
  print_heading(report);
  fmt::print("beside\n");
  print_heading(other);
  const auto columns = [](const std::string& title) {
    return std::vector<Table::Column>{
        {title}, {"this", true}, {"other", true}, {"difference", true}, {"ratio", true}};
  };
  const auto line = [](Table& to, std::string_view name, Integer a, Integer b, auto format) {
    const Integer change = b - a;
    to.add({std::string(name), format(a), format(b),
            (change < 0 ? "−" : "+") + format(change < 0 ? -change : change),
            fmt::format("{:.4f}", ratio(b, a))});
  };
  for (const CostView which : report.shown_views) {
    const ViewCounts& a = report.view(which);
    const ViewCounts& b = other.view(which);
    Table table(columns(fmt::format(
        "{}FLOPs of a step", report.beside_paper ? fmt::format("{}, ", name_of(which)) : "")));
    for (const LayerCounts& layer : a.layers) {
      const auto at = std::ranges::find(b.layers, layer.name, &LayerCounts::name);
      line(table, layer.name, layer.total().flops, at == b.layers.end() ? 0 : at->total().flops,
           with_unit);
    }
    for (const LayerCounts& layer : b.layers) {
      const auto at = std::ranges::find(a.layers, layer.name, &LayerCounts::name);
      if (at == a.layers.end()) line(table, layer.name, 0, layer.total().flops, with_unit);
    }
    for (const LearningRule rule : report.shown_rules) {
      line(table, report.beside_paper ? name_of(rule) : "sum", a.rule(rule).total().flops,
           b.rule(rule).total().flops, with_unit);
    }
    fmt::print("\n");
    table.print();
  }
  Table table(columns("parameters and memory"));
  line(table, "parameters", report.parameters.total, other.parameters.total, with_unit);
  line(table, "activations kept", report.memory.activations, other.memory.activations, bytes);
  line(table, "peak of the arena", report.memory.peak, other.memory.peak, bytes);
  line(table, "all of a training step", report.memory.total(), other.memory.total(), bytes);
  if (report.memory.cache && other.memory.cache) {
    line(table, "keys and values", *report.memory.cache, *other.memory.cache, bytes);
  }
  fmt::print("\n");
  table.print();
}

void print_convention(const ConventionReport& report) {
  print_wrapped("", fmt::format("{} would report {}: {}", report.convention.name,
                                to_grouped_decimal(report.reported()), report.convention.summary));
  print_wrapped("", fmt::format("{} executes {} FLOPs",
                                report.training ? "a training step" : "a forward pass",
                                to_grouped_decimal(report.executed())));
  Table table({{"term", false, true},
               {std::string(report.convention.name), true},
               {"executed", true},
               {"difference", true}});
  const auto line = [&](std::string_view term, Integer tool, Integer executed) {
    table.add({std::string(term), to_grouped_decimal(tool), to_grouped_decimal(executed),
               to_grouped_decimal(tool - executed)});
  };
  for (const ConventionLine& l : report.lines) line(l.term, l.tool, l.executed);
  line("sum", report.reported(), report.executed());
  fmt::print("\n");
  table.print();
}

}  // namespace longspan::cli
