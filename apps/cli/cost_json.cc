// The report for programs.
#include <fmt/core.h>

#include "cost.h"
#include "json_writer.h"
#include "output.h"

namespace longspan::cli {

namespace {

void write_config(const CostReport& report, JsonWriter& to) {
  to.key("config");
  to.open('{');
  ModelConfig config = report.workload.model;
  config.visit([&](std::string_view name, auto& field) { to.field(name, field); });
  const Workload& w = report.workload;
  to.field("output_layer", w.output_layer);
  to.field("batch", w.batch);
  to.field("length", w.length);
  if (w.has_both()) to.field("target_length", w.target_length);
  if (!w.lengths.empty()) {
    to.key("lengths");
    to.open('[');
    for (const std::int32_t length : w.lengths) to.value(length);
    to.close();
  }
  to.field("optimizer", report.optimizer_name);
  to.field("dtype", report.dtype);
  to.close();
}

void write_parameters(const ParameterCounts& parameters, JsonWriter& to) {
  to.key("parameters");
  to.open('{');
  to.field("total", parameters.total);
  to.field("trained", parameters.trained);
  to.key("by_layer");
  to.open('[');
  for (const ParameterCounts::Layer& layer : parameters.layers) {
    to.open('{');
    to.field("name", layer.name);
    to.field("count", layer.count);
    to.field("parameters", layer.parameters);
    to.close();
  }
  to.close();
  to.close();
}

void write_summary(const ModelSummary& summary, JsonWriter& to) {
  to.key("summary");
  to.open('{');
  to.key("windows");
  to.open('[');
  for (const std::size_t window : summary.windows) to.value(window);
  to.close();
  to.field("experts", summary.experts);
  to.field("chosen_experts", summary.chosen);
  to.field("expert_layers", summary.expert_layers);
  to.field("active_parameters", summary.active);
  to.field("cache_per_token", summary.cache_per_token);
  to.field("cache_fixed", summary.cache_fixed);
  to.close();
}

void write_layers(const ViewCounts& view, JsonWriter& to) {
  to.key("layers");
  to.open('[');
  for (const LayerCounts& layer : view.layers) {
    to.open('{');
    to.field("name", layer.name);
    to.field("count", layer.count);
    to.count("forward", layer.forward);
    to.count("backward", layer.backward);
    to.count("update", layer.update);
    to.close();
  }
  to.close();
}

void write_view(const CostReport& report, const ViewCounts& view, JsonWriter& to) {
  to.key(name_of(view.view));
  to.open('{');
  write_layers(view, to);
  to.key("phases");
  to.open('{');
  for (const CostPhase phase : kCostPhases) {
    const bool optimizer = phase == CostPhase::kOptimizer;
    to.count(name_of(phase),
             optimizer ? report.optimizer : view.once(phase, report.backprop_only()));
  }
  to.close();
  to.key("rules");
  to.open('{');
  for (const LearningRule rule : report.shown_rules) {
    const RuleCounts& counts = view.rule(rule);
    to.key(name_of(rule));
    to.open('{');
    to.field("maccs", counts.total().maccs);
    to.field("flops", counts.total().flops);
    to.key("phases");
    to.open('{');
    for (const CostPhase phase : kCostPhases) to.count(name_of(phase), counts.phase(phase));
    to.close();
    to.close();
  }
  to.close();
  to.close();
}

void write_memory(std::string_view key, const MemoryUse& use, JsonWriter& to) {
  to.key(key);
  to.open('{');
  to.field("parameters", use.parameters);
  if (use.drawn > 0) to.field("drawn", use.drawn);
  to.field("gradients", use.gradients);
  to.field("optimizer", use.optimizer);
  if (use.feedback > 0) to.field("feedback", use.feedback);
  to.field("activations", use.activations);
  to.field("workspace", use.workspace);
  to.field("peak", use.peak);
  to.field("total", use.total());
  to.field("peak_at", use.peak_at);
  to.field("largest", use.largest);
  to.field("largest_at", use.largest_at);
  to.field("inference", use.inference);
  if (use.cache) to.field("cache", *use.cache);
  to.close();
}

void write_training(const CostReport& report, JsonWriter& to) {
  to.key("training");
  to.open('{');
  to.field("tokens", *report.tokens);
  to.field("tokens_per_step", report.workload.tokens());
  for (const CostView view : report.shown_views) {
    to.key(name_of(view));
    to.open('{');
    for (const LearningRule rule : report.shown_rules) {
      to.count(name_of(rule), report.of_run(report.view(view).rule(rule).total()));
    }
    to.close();
  }
  to.close();
}

void write_convention(const ConventionReport& as, JsonWriter& to) {
  to.key("as");
  to.open('{');
  to.field("tool", as.convention.name);
  to.field("summary", as.convention.summary);
  to.field("training", as.training);
  to.field("reported", as.reported());
  to.field("executed", as.executed());
  to.key("lines");
  to.open('[');
  for (const ConventionLine& line : as.lines) {
    to.open('{');
    to.field("term", line.term);
    to.field("tool", line.tool);
    to.field("executed", line.executed);
    to.field("difference", line.tool - line.executed);
    to.close();
  }
  to.close();
  to.close();
}

void write_report(const CostReport& report, JsonWriter& to) {
  write_config(report, to);
  write_parameters(report.parameters, to);
  write_summary(report.summary, to);
  to.key("views");
  to.open('{');
  for (const CostView view : report.shown_views) write_view(report, report.view(view), to);
  to.close();
  write_memory("memory", report.memory, to);
  to.key("memory_by_rule");
  to.open('{');
  for (const LearningRule rule : report.shown_rules) {
    write_memory(name_of(rule), report.rule_memory.at(rule), to);
  }
  to.close();
  to.key("time");
  if (report.time) {
    to.open('{');
    to.field("seconds", report.time->seconds);
    to.field("low", report.time->low);
    to.field("high", report.time->high);
    to.field("device", report.device);
    to.close();
  } else {
    to.null();
  }
  if (report.tokens) write_training(report, to);
}

}  // namespace

void print_json(const CostReport& report, const ConventionReport* as, const CostReport* other) {
  JsonWriter to;
  to.open('{');
  write_report(report, to);
  if (as != nullptr) write_convention(*as, to);
  if (other != nullptr) {
    to.key("other");
    to.open('{');
    write_report(*other, to);
    to.close();
  }
  to.close();
  fmt::print("{}\n", to.text());
}

void print_csv(const CostReport& report) {
  print_verbatim();
  fmt::print("view,layer,count,phase,maccs,flops\n");
  for (const CostView which : report.shown_views) {
    const ViewCounts& view = report.view(which);
    const auto line = [&](std::string_view layer, Integer count, std::string_view phase,
                          const CountValue& value) {
      fmt::print("{},{},{},{},{},{}\n", name_of(which), layer, to_decimal(count), phase,
                 to_decimal(value.maccs), to_decimal(value.flops));
    };
    for (const LayerCounts& layer : view.layers) {
      line(layer.name, layer.count, "forward", layer.forward);
      line(layer.name, layer.count, "backward", layer.backward);
      line(layer.name, layer.count, "update", layer.update);
    }
    for (const LearningRule rule : report.shown_rules) {
      for (const CostPhase phase : kCostPhases) {
        line(name_of(rule), 1, name_of(phase), view.rule(rule).phase(phase));
      }
      line(name_of(rule), 1, "total", view.rule(rule).total());
    }
  }
}

}  // namespace longspan::cli
