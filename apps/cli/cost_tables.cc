// The report for people: tables of at most 100 columns, with units, shares and reasons.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "cost.h"
#include "longspan/base/memory.h"
#include "longspan/cost/discrepancies.h"

namespace longspan::cli {

namespace {

constexpr std::size_t kWidest = 100;

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

// Words of `text` after `head`, broken before column 100 and aligned behind it.
void print_wrapped(const std::string& head, std::string_view text) {
  std::string line = head;
  std::size_t used = head.size();  // columns, where bytes of a letter are one
  bool first = true;
  const auto columns = [](std::string_view word) {
    return static_cast<std::size_t>(std::ranges::count_if(
        word, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (used + columns(word) + 1 > kWidest) {
      fmt::print("{}\n", line);
      line = std::string(head.size(), ' ');
      used = head.size();
      first = true;
    }
    line += (first ? "" : " ") + std::string(word);
    used += columns(word) + (first ? 0 : 1);
    first = false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  fmt::print("{}\n", line);
}

void print_heading(const CostReport& report) {
  const Workload& w = report.workload;
  const ModelConfig& c = w.model;
  std::string blocks = fmt::format("{} blocks", c.layers);
  std::string tokens = fmt::format("{} × {} tokens", w.batch, w.length);
  if (w.has_both()) {
    blocks = fmt::format("{} + {} blocks", c.layers, c.decoder_layers);
    tokens = fmt::format("{} × ({} → {}) tokens", w.batch, w.length, w.target_length);
  }
  fmt::print("{} of {}, width {}, {} heads, FFN {}, vocabulary {}; {} attention\n", c.family,
             blocks, c.d_model, c.heads, w.d_ff(), c.vocab, c.attention);
  const ParameterCounts& p = report.parameters;
  const std::string trained =
      p.trained == p.total ? "" : fmt::format(", {} trained", to_grouped_decimal(p.trained));
  fmt::print("{} parameters{}; a step has {}\n", to_grouped_decimal(p.total), trained, tokens);
}

std::string_view meaning(CostView view) {
  static constexpr std::array<std::string_view, 3> kMeanings = {
      "what the paper prints", "the paper's formulas with their own sums put right",
      "what this engine does"};
  return kMeanings[static_cast<std::size_t>(view)];
}

void print_layers(const ViewCounts& view) {
  fmt::print("\n{}: {}, one step\n", name_of(view.view), meaning(view.view));
  fmt::print("{:<20} {:>4} {:>20} {:>21} {:>21} {:>8}\n", "", "", "forward", "backward", "update",
             "share");
  fmt::print("{:<20} {:>4} {:>10} {:>9} {:>11} {:>9} {:>11} {:>9} {:>8}\n", "layer", "×", "MACCs",
             "FLOPs", "MACCs", "FLOPs", "MACCs", "FLOPs", "FLOPs");
  const CountValue forward = view.once(CostPhase::kForward, false);
  const CountValue backward = view.once(CostPhase::kBackward, false);
  const CountValue update = view.once(CostPhase::kUpdate, false);
  const Integer whole = (forward + backward + update).flops;
  const auto line = [&](const std::string& name, const std::string& count, const CountValue& f,
                        const CountValue& b, const CountValue& u) {
    fmt::print("{:<20} {:>4} {:>10} {:>9} {:>11} {:>9} {:>11} {:>9} {:>8}\n", name, count,
               with_unit(f.maccs), with_unit(f.flops), with_unit(b.maccs), with_unit(b.flops),
               with_unit(u.maccs), with_unit(u.flops), percent((f + b + u).flops, whole));
  };
  for (const LayerCounts& layer : view.layers) {
    line(layer.name + (layer.updated_by_backprop ? "" : " ¹"), to_decimal(layer.count),
         layer.forward, layer.backward, layer.update);
  }
  line("sum", "", forward, backward, update);
  const bool marked = std::ranges::any_of(
      view.layers, [](const LayerCounts& layer) { return !layer.updated_by_backprop; });
  if (marked) fmt::print("¹ updated by PEPITA and MEMPEPITA only\n");
}

void print_phases(const CostReport& report, const ViewCounts& view) {
  fmt::print("\n{}: {}, one step\n{:<16}", name_of(view.view), meaning(view.view), "phase");
  for (const LearningRule rule : report.shown_rules) {
    fmt::print("{:>10} {:>8} {:>8}", name_of(rule), "FLOPs", "share");
  }
  fmt::print("\n");
  const auto line = [&](std::string_view name, auto pick) {
    fmt::print("{:<16}", name);
    for (const LearningRule rule : report.shown_rules) {
      const RuleCounts& counts = view.rule(rule);
      const CountValue value = pick(counts);
      fmt::print("{:>10} {:>8} {:>8}", with_unit(value.maccs), with_unit(value.flops),
                 percent(value.flops, counts.total().flops));
    }
    fmt::print("\n");
  };
  for (const CostPhase phase : kCostPhases) {
    if (phase == CostPhase::kOptimizer) continue;
    line(name_of(phase), [&](const RuleCounts& counts) { return counts.phase(phase); });
  }
  line("sum", [](const RuleCounts& counts) { return counts.total(); });
  line("optimizer (D8)",
       [](const RuleCounts& counts) { return counts.phase(CostPhase::kOptimizer); });
}

// Every view that there is, so that a number is never read without the others beside it.
void print_rules(const CostReport& report) {
  const bool run = report.tokens.has_value();
  std::vector<CostView> views = {CostView::kExecuted};
  const bool papers = report.workload.in_paper() && in_paper(report.main_rule());
  if (papers) views.assign(kCostViews.begin(), kCostViews.end());
  fmt::print("\n{:<10}", run ? "all tokens" : "one step");
  for (const CostView view : views) {
    fmt::print("{:>11} {:>9} {:>7}", name_of(view), "FLOPs", "÷ BP");
  }
  fmt::print("\n");
  for (const LearningRule rule : report.shown_rules) {
    fmt::print("{:<10}", name_of(rule));
    for (const CostView which : views) {
      const ViewCounts& view = report.view(which);
      const CountValue step = view.rule(rule).total();
      const CountValue all = report.of_run(step);
      fmt::print("{:>11} {:>9} {:>7.3f}", with_unit(all.maccs), with_unit(all.flops),
                 ratio(step.flops, view.rule(LearningRule::kBackprop).total().flops));
    }
    fmt::print("\n");
  }
  const ViewCounts& executed = report.view(CostView::kExecuted);
  const CountValue once = executed.once(CostPhase::kForward, false);
  const CountValue step = executed.rule(LearningRule::kBackprop).total();
  if (report.main_rule() != LearningRule::kBackprop) return;
  fmt::print("executed, BP: backward and update are {:.4f} × forward in MACCs, {:.4f} × in FLOPs\n",
             ratio(step.maccs - once.maccs, once.maccs),
             ratio(step.flops - once.flops, once.flops));
}

void print_run(const CostReport& report) {
  if (!report.tokens) return;
  const LearningRule rule = report.main_rule();
  const Integer flops = report.of_run(report.view(CostView::kExecuted).rule(rule).total()).flops;
  fmt::print("{} tokens: {:.4g} FLOPs executed by {} = {:.0f} PF-days\n",
             to_grouped_decimal(*report.tokens), static_cast<double>(flops), title_of(rule),
             static_cast<double>(flops) / 8.64e19);
}

void print_memory(const CostReport& report) {
  const MemoryUse& use = report.memory;
  fmt::print("\nmemory of a training step, {}\n", report.dtype);
  const auto line = [](std::string_view name, Integer count, const std::string& note) {
    fmt::print("  {:<22} {:>11}{}\n", name, bytes(count), note.empty() ? "" : "  " + note);
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
  fmt::print("\n  {:<22} {:>11} {:>11} {:>11} {:>11}\n", "by learning rule", "kept", "arena", "F",
             "all");
  for (const LearningRule rule : report.shown_rules) {
    const MemoryUse& own = report.rule_memory.at(rule);
    fmt::print("  {:<22} {:>11} {:>11} {:>11} {:>11}\n", name_of(rule), bytes(own.activations),
               bytes(own.peak), bytes(own.feedback), bytes(own.total()));
  }
}

void print_time(const CostReport& report) {
  if (!report.time) {
    fmt::print("\ntime on this machine: longspan calibrate, once, and it is predicted here\n");
    return;
  }
  const auto seconds = [](double value) {
    return value < 1.0 ? fmt::format("{:.3g} ms", 1e3 * value) : fmt::format("{:.4g} s", value);
  };
  fmt::print("\ntime of a training step by {} on {}: {}, {} to {}\n", title_of(report.main_rule()),
             report.device, seconds(report.time->seconds), seconds(report.time->low),
             seconds(report.time->high));
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
  if (!report.workload.in_paper() || !in_paper(report.main_rule())) return;
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
      print_layers(report.view(view));
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
  const auto line = [](std::string_view name, Integer a, Integer b, auto format) {
    const Integer change = b - a;
    fmt::print("{:<24} {:>14} {:>14} {:>15} {:>9.4f}\n", name, format(a), format(b),
               (change < 0 ? "−" : "+") + format(change < 0 ? -change : change), ratio(b, a));
  };
  for (const CostView which : report.shown_views) {
    const ViewCounts& a = report.view(which);
    const ViewCounts& b = other.view(which);
    fmt::print("\n{:<24} {:>14} {:>14} {:>15} {:>9}\n",
               fmt::format("{}, FLOPs of a step", name_of(which)), "this", "other", "difference",
               "ratio");
    for (const LayerCounts& layer : a.layers) {
      const auto at = std::ranges::find(b.layers, layer.name, &LayerCounts::name);
      line(layer.name, layer.total().flops, at == b.layers.end() ? 0 : at->total().flops,
           with_unit);
    }
    for (const LayerCounts& layer : b.layers) {
      const auto at = std::ranges::find(a.layers, layer.name, &LayerCounts::name);
      if (at == a.layers.end()) line(layer.name, 0, layer.total().flops, with_unit);
    }
    for (const LearningRule rule : report.shown_rules) {
      line(name_of(rule), a.rule(rule).total().flops, b.rule(rule).total().flops, with_unit);
    }
  }
  fmt::print("\n{:<24} {:>14} {:>14} {:>15} {:>9}\n", "parameters and memory", "this", "other",
             "difference", "ratio");
  line("parameters", report.parameters.total, other.parameters.total, with_unit);
  line("activations kept", report.memory.activations, other.memory.activations, bytes);
  line("peak of the arena", report.memory.peak, other.memory.peak, bytes);
  line("all of a training step", report.memory.total(), other.memory.total(), bytes);
  if (report.memory.cache && other.memory.cache) {
    line("keys and values", *report.memory.cache, *other.memory.cache, bytes);
  }
}

void print_convention(const ConventionReport& report) {
  fmt::print("{} would report {}: {}\n", report.convention.name,
             to_grouped_decimal(report.reported()), report.convention.summary);
  fmt::print("{} executes {} FLOPs\n\n", report.training ? "a training step" : "a forward pass",
             to_grouped_decimal(report.executed()));
  std::size_t width = to_grouped_decimal(std::max(report.executed(), report.reported())).size() + 1;
  for (const ConventionLine& l : report.lines) {
    width = std::max(width, to_grouped_decimal(l.tool - l.executed).size() + 1);
  }
  const auto line = [&](std::string_view term, const std::string& tool, const std::string& executed,
                        const std::string& difference) {
    fmt::print("{:<34}{:>{}}{:>{}}{:>{}}\n", term, tool, width, executed, width, difference, width);
  };
  const auto counts = [&](std::string_view term, Integer tool, Integer executed) {
    line(term, to_grouped_decimal(tool), to_grouped_decimal(executed),
         to_grouped_decimal(tool - executed));
  };
  line("term", std::string(report.convention.name), "executed", "difference");
  for (const ConventionLine& l : report.lines) counts(l.term, l.tool, l.executed);
  counts("sum", report.reported(), report.executed());
}

}  // namespace longspan::cli
