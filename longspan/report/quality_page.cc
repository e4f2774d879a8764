#include "longspan/report/quality_page.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "longspan/report/html.h"
#include "longspan/report/quality_summary.h"
#include "longspan/report/svg_chart.h"

namespace longspan {

namespace {

constexpr const char* kStyle = R"css(
:root { color-scheme: light dark; --ink: #1c2126; --soft: #5d6872; --line: #d9dee3; --paper: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e7ebee; --soft: #9aa5af; --line: #343b42; --paper: #15181b; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin: 0 0 .4rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .4rem; }
p.conclusion { font-size: 1.1rem; } p.note, caption { color: var(--soft); font-size: .9rem; text-align: left; }
code { font-size: .9rem; overflow-wrap: anywhere; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 28rem), 1fr)); gap: 1rem; }
figure { margin: 0; min-width: 0; }
svg.chart { width: 100%; height: auto; } figcaption { font-weight: 600; }
.grid { stroke: var(--line); } .tick, .axis { fill: var(--soft); font-size: 11px; } .name { font-size: 11px; }
.front { fill: none; stroke: var(--soft); stroke-dasharray: 4 3; } .line { fill: none; stroke-width: 1.6; }
.bar { stroke-width: 1.5; } .hollow { fill: var(--paper); stroke-width: 1.8; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; }
)css";

// Eight hues that stay apart for most eyes, on light and on dark.
constexpr std::array<const char*, 8> kHues = {"#3b7dd8", "#d9662b", "#2f9e77", "#a857c4",
                                              "#c28a12", "#d1477a", "#4f6d7a", "#7d8f2e"};

std::string style() {
  std::string css = kStyle;
  for (std::size_t i = 0; i < kHues.size(); ++i) {
    css += fmt::format(
        ".dot.c{0} {{ fill: {1}; }} .hollow.c{0}, .line.c{0}, .bar.c{0} {{ stroke: {1}; }} .t{0} "
        "{{ fill: {1}; }}\n",
        i, kHues[i]);
  }
  return css;
}

std::string share_text(double ratio) { return fmt::format("{:.4g} %", 100.0 * ratio); }
std::string plain_number(double value) { return fmt::format("{:.4g}", value); }

ChartAxis quality_axis(const QualitySettings& s) {
  return {.title = s.metric, .text = s.share ? &share_text : &plain_number};
}

void add_points(const QualityRecord& r, bool hollow, double (*x_of)(const Standing&),
                Chart& chart) {
  for (const Standing& standing : standings(r)) {
    if (standing.trained == 0 || !(x_of(standing) > 0.0)) continue;
    chart.series.push_back(
        {.name = standing.mechanism + (hollow ? " there" : ""),
         .points = {{x_of(standing), standing.mean, standing.worst, standing.best}},
         .hollow = hollow,
         .marked = standing.on_front && !hollow});
  }
}

std::string figure(const Chart& chart, std::string_view note) {
  const std::string svg = svg_of(chart);
  if (svg.empty()) return "";
  return fmt::format("<figure><figcaption>{}</figcaption>{}<p class=\"note\">{}</p></figure>\n",
                     escape_html(chart.title), svg, escape_html(note));
}

std::string curves(const QualityRecord& r) {
  Chart chart{.title = "How it was learned",
              .x = {.title = "steps", .text = &count_text},
              .y = quality_axis(r.settings)};
  // The mean over the seeds at each step that all of them have.
  for (const Standing& standing : standings(r)) {
    std::map<std::uint64_t, std::pair<double, std::size_t>> sums;
    for (const QualityTrial& t : r.trials) {
      if (t.mechanism != standing.mechanism || t.status != PointStatus::kOk) continue;
      for (const QualityStep& step : t.curve) {
        sums[step.step].first += step.quality;
        ++sums[step.step].second;
      }
    }
    ChartSeries series{.name = standing.mechanism};
    for (const auto& [step, sum] : sums) {
      if (sum.second != standing.trained) continue;
      const double mean = sum.first / static_cast<double>(sum.second);
      series.points.push_back({static_cast<double>(step), mean, mean, mean});
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  return figure(chart, "The mean over the seeds, on what is held out.");
}

std::string trade_off(const QualityRecord& r, const QualityRecord* against) {
  Chart time{.title = "Quality against time",
             .x = {.title = "a step of training", .logarithmic = true, .text = &seconds_text},
             .y = quality_axis(r.settings)};
  Chart memory{
      .title = "Quality against memory",
      .x = {.title = "memory of a step", .logarithmic = true, .binary = true, .text = &bytes_text},
      .y = quality_axis(r.settings)};
  Chart state{.title = "Quality against state",
              .x = {.title = "bytes kept of a sequence",
                    .logarithmic = true,
                    .binary = true,
                    .text = &bytes_text},
              .y = quality_axis(r.settings)};
  const auto seconds = [](const Standing& s) { return s.step_seconds; };
  const auto bytes = [](const Standing& s) { return s.memory; };
  const auto kept = [](const Standing& s) { return s.state.value_or(0.0); };
  for (const QualityRecord* record : {&r, against}) {
    if (record == nullptr) continue;
    add_points(*record, record == against, seconds, time);
    add_points(*record, record == against, bytes, memory);
    add_points(*record, record == against, kept, state);
  }
  for (Chart* chart : {&memory, &state}) {
    for (ChartSeries& s : chart->series) s.marked = false;
  }
  const std::string bars = "Bars reach from the worst seed to the best.";
  return "<div class=\"charts\" id=\"trade-off\">" +
         figure(time, "Dashed: nothing at least as good takes less time. " + bars) +
         figure(state, "What decoding a sequence of this length keeps. " + bars) +
         figure(memory, bars) + curves(r) + "</div>";
}

std::string table(const QualityRecord& r) {
  const QualitySettings& s = r.settings;
  HtmlTable rows(
      "standings", "The best first",
      {"attention", s.metric, "worst", "best", "a step", "memory", "state", "seeds", "left out"});
  const auto quality = [&](const Standing& standing, double value) {
    return standing.trained == 0
               ? std::string("–")
               : fmt::format("<data value=\"{}\">{}</data>", value, quality_text(s, value));
  };
  for (const Standing& standing : standings(r)) {
    const bool trained = standing.trained > 0;
    const auto known = [&](double value) {
      return trained ? std::optional(value) : std::optional<double>();
    };
    rows.row({escape_html(standing.mechanism), quality(standing, standing.mean),
              quality(standing, standing.worst), quality(standing, standing.best),
              number(known(standing.step_seconds), &seconds_text),
              number(known(standing.memory), &bytes_text), number(standing.state, &bytes_text),
              fmt::format("{} of {}", standing.trained, standing.trials),
              escape_html(standing.reason)});
  }
  return std::move(rows).finish();
}

std::string settings_list(const QualityRecord& r) {
  const QualitySettings& s = r.settings;
  std::string options;
  for (const auto& [name, value] : s.options) {
    if (!value.empty()) options += fmt::format(" {}={}", name, value);
  }
  return escape_html(fmt::format(
      "{}:{}; {} layers of width {}, {} heads, {} positions{}; {} steps of {} sequences at a rate "
      "of up to {:g}; {} threads of {} ({}); longspan {}, {}.",
      s.task, options, s.layers, s.d_model, s.heads, s.positions,
      s.before.empty() ? "" : ", " + s.before + " in turn with the mechanism", s.steps, s.batch,
      s.learning_rate, s.threads, r.machine.cpu, r.machine.instruction_set, r.versions.longspan,
      r.created));
}

}  // namespace

std::string quality_page(const QualityRecord& r, const QualityRecord* against) {
  const std::string title =
      escape_html(fmt::format("How good attentions are at {}", r.settings.task));
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<title>{0}</title>\n<style>{1}</style></head>\n<body>\n<main>\n<h1>{0}</h1>\n"
      "<p class=\"conclusion\">{2}.</p>\n{3}\n<h2>Standings</h2>\n{4}\n"
      "<h2>How it was measured</h2>\n<p>{5}</p>\n<p><code>{6}</code></p>\n</main>\n"
      "<script type=\"application/json\" id=\"record\">{7}</script>\n</body>\n</html>\n",
      title, style(), escape_html(r.conclusion), trade_off(r, against), table(r), settings_list(r),
      escape_html(r.command), script_json(to_json(r)));
}

}  // namespace longspan
