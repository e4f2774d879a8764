#include "longspan/report/page_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "longspan/report/html.h"

namespace longspan {

namespace {

std::string small(std::string_view html) { return fmt::format("<small>{}</small>", html); }

std::string between(std::optional<double> low, std::optional<double> high, NumberText text) {
  if (!low || !high) return "";
  return number(low, text) + " to " + number(high, text);
}

// One row for each mechanism, one column for each length; `cell` is asked for the points there are.
std::string by_length(const CompareRecord& record, std::string_view id, std::string_view caption,
                      const std::function<std::string(const ComparePoint&)>& cell) {
  std::vector<std::string> headers = {"mechanism"};
  for (const std::uint64_t n : record.lengths) {
    headers.push_back(fmt::format("n = {}", count_text(static_cast<double>(n))));
  }
  HtmlTable table(id, caption, headers);
  for (const CompareMechanism& mechanism : record.mechanisms) {
    std::vector<std::string> cells = {escape_html(mechanism.name)};
    for (const std::uint64_t n : record.lengths) {
      const ComparePoint* point = record.find(mechanism.name, n);
      cells.push_back(point == nullptr ? "" : cell(*point));
    }
    table.row(cells);
  }
  return std::move(table).finish();
}

std::string status_of(const ComparePoint& point) {
  return fmt::format("<span class=\"status\">{}</span>", point.status.name());
}

std::string page_time(const ComparePoint& point) {
  std::string html = point.status == PointStatus::kOk ? "" : status_of(point);
  if (!point.time) return html;
  const CompareTime& t = *point.time;
  if (t.measured) {
    html += number(t.measured, &seconds_text) +
            small(between(t.spread_low, t.spread_high, &seconds_text));
  }
  if (t.predicted) {
    html += small("predicted " + number(t.predicted, &seconds_text)) +
            small(between(t.low, t.high, &seconds_text));
  }
  return html;
}

std::string page_memory(const ComparePoint& point) {
  std::string html = point.status == PointStatus::kOk ? "" : status_of(point);
  if (!point.memory) return html;
  const CompareMemory& m = *point.memory;
  if (m.measured) html += number(m.measured, &bytes_text);
  if (m.predicted) html += small("predicted " + number(m.predicted, &bytes_text));
  if (m.resident) html += small("resident " + number(m.resident, &bytes_text));
  return html;
}

std::string page_error(const ComparePoint& point) {
  if (point.status != PointStatus::kOk && !point.error) return status_of(point);
  if (!point.error) return "–";
  std::string html = number(point.error->output, &ratio_text);
  if (point.error->gradient) {
    html += small("gradient " + number(point.error->gradient, &ratio_text));
  }
  return html;
}

// In the order of their first appearance.
std::vector<std::string> kinds_of(const CompareRecord& record) {
  std::vector<std::string> names;
  for (const ComparePoint& point : record.points) {
    if (!point.kinds) continue;
    for (const KindTime& k : *point.kinds) {
      if (std::ranges::find(names, k.kind) == names.end()) names.push_back(k.kind);
    }
  }
  return names;
}

std::string seconds_of(const std::vector<KindTime>& kinds, std::string_view name) {
  const auto found = std::ranges::find(kinds, name, &KindTime::kind);
  return found == kinds.end() ? "" : number(found->seconds, &seconds_text);
}

std::string whole(std::uint64_t count) { return count_text(static_cast<double>(count)); }

std::string exponent_text(double exponent) { return fmt::format("{:.2f}", exponent); }

std::string abilities(const CompareMechanism& m) {
  std::vector<std::string_view> all;
  if (m.exact) all.emplace_back("exact");
  if (m.causal) all.emplace_back("causal");
  if (m.decode) all.emplace_back("decode");
  return fmt::format("{}", fmt::join(all, ", "));
}

// Points of one mechanism that miss for one reason.
struct Missing {
  std::string mechanism;
  std::string status;
  std::string reason;
  std::vector<std::string> lengths;
};

void add_missing(std::vector<Missing>& all, const Missing& one) {
  const auto same = [&](const Missing& m) {
    return m.mechanism == one.mechanism && m.status == one.status && m.reason == one.reason;
  };
  const auto found = std::ranges::find_if(all, same);
  if (found == all.end()) return all.push_back(one);
  found->lengths.push_back(one.lengths.front());
}

std::string term(std::string_view name, std::string_view html) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", name, html);
}

std::string model_text(const CompareSettings& s) {
  const std::string heads = counted(s.heads, "head");
  if (s.bare) return fmt::format("attention alone, {} wide, {}", s.d_model, heads);
  return fmt::format("encoder of {} × {}, {}, feed-forward {}", counted(s.layers, "layer"),
                     s.d_model, heads, s.d_ff);
}

std::string miss_text(std::optional<double> median, std::optional<double> worst) {
  if (!median) return "–";
  std::string html = number(median, &percent_text);
  if (worst) html += ", at worst " + number(worst, &percent_text);
  return html;
}

}  // namespace

std::string facts_list(const CompareRecord& record) {
  const CompareSettings& s = record.settings;
  const auto measured = std::ranges::count_if(
      record.points, [](const ComparePoint& p) { return p.time && p.time->measured; });
  std::string html = "<dl class=\"facts\" id=\"facts\">\n";
  html += term("Model", escape_html(model_text(s)));
  html += term(
      "Task", fmt::format("{}{}, batch {}, {} thread{}", s.phase.name(), s.causal ? ", causal" : "",
                          s.batch, s.threads, s.threads == 1 ? "" : "s"));
  if (!record.lengths.empty()) {
    html += term("Lengths", fmt::format("{} to {}", whole(record.lengths.front()),
                                        whole(record.lengths.back())));
  }
  html +=
      term("Measured", fmt::format("{} of {}", measured, counted(record.points.size(), "point")));
  html += term(
      "Predictions missed",
      fmt::format(
          "time by {}<br>growth of the process by {}",
          miss_text(record.prediction.time_median_error, record.prediction.time_worst_error),
          miss_text(record.prediction.memory_median_error, record.prediction.memory_worst_error)));
  return html + "</dl>";
}

std::string time_table(const CompareRecord& record) {
  return by_length(record, "time-table",
                   "Time: measured median and quartiles; predicted time and its interval",
                   &page_time);
}

std::string memory_table(const CompareRecord& record) {
  return by_length(record, "memory-table",
                   "Peak memory: measured, predicted, and resident in a fresh process",
                   &page_memory);
}

std::string error_table(const CompareRecord& record) {
  return by_length(record, "error-table",
                   "Relative error of the output, and of the gradient, against exact attention",
                   &page_error);
}

std::string kinds_table(const CompareRecord& record) {
  const std::vector<std::string> names = kinds_of(record);
  std::vector<std::string> headers = {"mechanism", "n"};
  headers.insert(headers.end(), names.begin(), names.end());
  HtmlTable table("kinds-table", "Time of each kind of operation", headers);
  for (const ComparePoint& point : record.points) {
    if (!point.kinds) continue;
    std::vector<std::string> cells = {escape_html(point.mechanism), whole(point.length)};
    for (const std::string& name : names) cells.push_back(seconds_of(*point.kinds, name));
    table.row(cells);
  }
  return std::move(table).finish();
}

std::string roofline_table(const CompareRecord& record) {
  HtmlTable table("roofline-table", "Work of each kind of operation",
                  {"mechanism", "n", "kind", "time", "FLOPs", "bytes", "bound by"});
  for (const ComparePoint& point : record.points) {
    if (!point.kinds) continue;
    for (const KindTime& k : *point.kinds) {
      table.row({escape_html(point.mechanism), whole(point.length), escape_html(k.kind),
                 number(k.seconds, &seconds_text), whole(k.flops), whole(k.bytes),
                 escape_html(k.bound)});
    }
  }
  return std::move(table).finish();
}

std::string fusion_table(const CompareRecord& record) {
  HtmlTable table("fusion-table", "The same attention unfused (full) and fused (flash)",
                  {"n", "full", "flash", "saved"});
  for (const CompareFusion& f : record.fusion) {
    const double saved = f.full_seconds > 0.0 ? 1.0 - f.flash_seconds / f.full_seconds : 0.0;
    table.row({whole(f.length), number(f.full_seconds, &seconds_text),
               number(f.flash_seconds, &seconds_text), percent_text(saved)});
  }
  return std::move(table).finish();
}

std::string complexity_table(const CompareRecord& record) {
  HtmlTable table("complexity-table", "Complexity in theory and as measured here",
                  {"mechanism", "time", "memory", "time exponent", "memory exponent",
                   "against flash", "parameters added", "can do"});
  for (const CompareMechanism& m : record.mechanisms) {
    table.row({escape_html(m.name) + small(escape_html(m.kind)), escape_html(m.complexity_time),
               escape_html(m.complexity_memory), number(m.time_exponent, &exponent_text),
               number(m.memory_exponent, &exponent_text),
               m.crossover ? escape_html(m.crossover->text) : "–", whole(m.parameters_added),
               abilities(m)});
  }
  return std::move(table).finish();
}

std::string missing_table(const CompareRecord& record) {
  std::vector<Missing> all;
  for (const ComparePoint& p : record.points) {
    if (p.status != PointStatus::kOk)
      add_missing(all, {p.mechanism, std::string(p.status.name()), p.reason, {whole(p.length)}});
  }
  for (const CompareLeftOut& l : record.left_out) {
    const ComparePoint* point = record.find(l.mechanism, l.length);
    if (point != nullptr && point->status != PointStatus::kOk) continue;  // said above
    add_missing(all, {l.mechanism, "left out", l.reason, {whole(l.length)}});
  }
  const auto place = [&](const Missing& m) {
    return std::ranges::find(record.mechanisms, m.mechanism, &CompareMechanism::name);
  };
  std::ranges::stable_sort(all, {}, place);
  HtmlTable table("missing-table", "Refused, skipped, failed and left out",
                  {"mechanism", "n", "what", "why"});
  for (const Missing& m : all) {
    table.row({escape_html(m.mechanism), fmt::format("{}", fmt::join(m.lengths, ", ")),
               escape_html(m.status), escape_html(m.reason)});
  }
  return std::move(table).finish();
}

std::string machine_table(const CompareRecord& record) {
  const CompareMachine& m = record.machine;
  const CompareVersions& v = record.versions;
  const CompareSettings& s = record.settings;
  HtmlTable table("machine-table", "Machine, versions and settings", {"what", "value"});
  table.row({"processor", escape_html(m.cpu)});
  table.row({"cores", whole(m.cores)});
  table.row({"memory", number(m.memory_bytes, &bytes_text)});
  table.row({"instruction set", escape_html(m.instruction_set)});
  table.row({"peak", fmt::format("{} GFLOP/s", ratio_text(record.roofline.peak_flops / 1e9))});
  table.row({"bandwidth", fmt::format("{} GB/s", ratio_text(record.roofline.bandwidth / 1e9))});
  table.row({"operating system", escape_html(m.os)});
  table.row({"longspan", escape_html(v.longspan)});
  table.row({"oneDNN", escape_html(v.onednn)});
  table.row({"Highway", escape_html(v.highway)});
  table.row({"compiler", escape_html(v.compiler)});
  table.row({"inputs", escape_html(s.inputs) + (s.random_tokens ? ", of random tokens" : "")});
  table.row({"seed", whole(s.seed)});
  table.row({"threads", whole(s.threads)});
  table.row({"budget", seconds_text(s.budget_seconds)});
  table.row({"made", escape_html(record.created)});
  table.row({"command", fmt::format("<code>{}</code>", escape_html(record.command))});
  return std::move(table).finish();
}

}  // namespace longspan
