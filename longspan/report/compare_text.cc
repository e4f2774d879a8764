#include "longspan/report/compare_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "longspan/report/compare_plot.h"
#include "longspan/report/compare_summary.h"

namespace longspan {

namespace {

constexpr std::size_t kNameWidth = 22;
constexpr std::size_t kMostLengths = 7;

std::string clipped(std::string name) {
  if (name.size() > kNameWidth) name = name.substr(0, kNameWidth - 1) + "…";
  return name;
}

// What fits: the last lengths.
std::vector<std::uint64_t> columns_of(const CompareRecord& r) {
  const std::size_t first = r.lengths.size() - std::min(r.lengths.size(), kMostLengths);
  return {r.lengths.begin() + static_cast<std::ptrdiff_t>(first), r.lengths.end()};
}

// Three significant digits: "0.123", "45.6", "7890".
std::string three_digits(double value) {
  if (value >= 100.0 || value == 0.0) return fmt::format("{:.0f}", value);
  const int digits = 2 - static_cast<int>(std::floor(std::log10(value)));
  return fmt::format("{:.{}f}", value, std::min(digits, 4));
}

// fmt counts bytes where precision is asked for and columns elsewhere: pad by columns.
std::string right(const std::string& text, std::size_t width) {
  return fmt::format("{:>{}}", text, width);
}

std::string text_heading(const CompareRecord& r) {
  const CompareSettings& s = r.settings;
  const std::string model =
      s.bare ? fmt::format("attention alone, {} heads of {}", s.heads, s.d_model / s.heads)
             : fmt::format("{} of {} layer{} × {}", s.causal ? "decoder" : "encoder", s.layers,
                           s.layers == 1 ? "" : "s", s.d_model);
  const std::string task = s.task == CompareTask::kTrain
                               ? (s.bare ? "forward and backward" : "training step")
                               : "forward";
  return fmt::format("{}, {}, batch {}{}; {} thread{}, {}\n", model, task, s.batch,
                     s.causal ? ", causal" : "", s.threads, s.threads == 1 ? "" : "s",
                     r.machine.cpu);
}

std::string table_head(const CompareRecord& r, const char* what) {
  std::string line = fmt::format("{:<{}}", what, kNameWidth);
  for (const std::uint64_t n : columns_of(r)) line += right(with_commas(n), 9);
  return line;
}

std::string time_cell(const ComparePoint* p) {
  if (p != nullptr && p->status == PointStatus::kRefused) return "cannot";
  if (p != nullptr && p->status == PointStatus::kFailed) return "failed";
  const auto time = shown_time(p);
  if (!time) return "";
  return (time->measured ? "" : "~") + three_digits(1e3 * time->seconds);
}

std::string memory_cell(const ComparePoint* p) {
  constexpr double kMebibyte = 1024.0 * 1024.0;
  if (p == nullptr || !p->memory || p->status == PointStatus::kFailed) return "";
  if (p->status == PointStatus::kOk && p->memory->resident) {
    return three_digits(*p->memory->resident / kMebibyte);
  }
  const auto& shown = p->memory->measured ? p->memory->measured : p->memory->predicted;
  return shown ? "~" + three_digits(*shown / kMebibyte) : "";
}

std::optional<double> last_error(const CompareRecord& r, const std::string& mechanism) {
  for (std::size_t i = r.lengths.size(); i-- > 0;) {
    const ComparePoint* p = r.find(mechanism, r.lengths[i]);
    if (p != nullptr && p->error && p->error->output) return p->error->output;
  }
  return std::nullopt;
}

std::string error_cell(const std::optional<double>& error) {
  if (!error) return "";
  return *error < 1e-4 ? fmt::format("{:.0e}", *error) : fmt::format("{:.2f}", *error);
}

std::string exponent_cell(const std::optional<double>& exponent) {
  return exponent ? fmt::format("{:.2f}", *exponent) : "";
}

std::string time_table(const CompareRecord& r) {
  std::string text = table_head(r, "time, ms") + right("n^", 6) + right("error", 7) + "\n";
  for (const CompareMechanism& m : r.mechanisms) {
    text += fmt::format("{:<{}}", clipped(m.name), kNameWidth);
    for (const std::uint64_t n : columns_of(r)) text += right(time_cell(r.find(m.name, n)), 9);
    text += right(exponent_cell(m.time_exponent), 6) + right(error_cell(last_error(r, m.name)), 7) +
            "\n";
  }
  return text + "~ predicted, not measured; error: of the output against exact attention\n";
}

std::string added(std::uint64_t count) {
  if (count == 0) return "0";
  if (count < 100'000) return fmt::format("{:.1f} k", 1e-3 * static_cast<double>(count));
  return fmt::format("{:.1f} M", 1e-6 * static_cast<double>(count));
}

std::string memory_table(const CompareRecord& r) {
  std::string text = table_head(r, "memory, MiB") + right("n^", 6) + right("added", 8) + "\n";
  for (const CompareMechanism& m : r.mechanisms) {
    text += fmt::format("{:<{}}", clipped(m.name), kNameWidth);
    for (const std::uint64_t n : columns_of(r)) text += right(memory_cell(r.find(m.name, n)), 9);
    text += right(exponent_cell(m.memory_exponent), 6) + right(added(m.parameters_added), 8) + "\n";
  }
  return text + "resident memory of a fresh process; added: parameters beside those of flash\n";
}

// Each reason once, with whom and where it concerns.
std::string remarks(const CompareRecord& r) {
  std::map<std::pair<std::string, std::string>, std::vector<std::uint64_t>> reasons;
  std::vector<std::pair<std::string, std::string>> order;
  std::size_t skipped = 0;
  for (const ComparePoint& p : r.points) {
    if (p.status == PointStatus::kSkipped) ++skipped;
    if (p.status == PointStatus::kSkipped || p.reason.empty()) continue;
    auto& lengths = reasons[{p.mechanism, p.reason}];
    if (lengths.empty()) order.emplace_back(p.mechanism, p.reason);
    lengths.push_back(p.length);
  }
  std::string text;
  for (const auto& key : order) {
    const std::vector<std::uint64_t>& lengths = reasons[key];
    text += fmt::format("{} at n = {}{}: {}\n", key.first, with_commas(lengths.front()),
                        lengths.size() > 1 ? fmt::format(" and {} more", lengths.size() - 1) : "",
                        key.second);
  }
  if (skipped > 0) {
    text += fmt::format(
        "{} of {} points were left out and are predicted; a longer --budget measures more\n",
        skipped, r.points.size());
  }
  return text;
}

std::string kinds_text(const std::vector<KindTime>& kinds) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(kinds.size(), 3); ++i) {
    text += fmt::format("{}{} {} ms ({})", i == 0 ? "" : ", ", kinds[i].kind,
                        three_digits(1e3 * kinds[i].seconds), kinds[i].bound);
  }
  return text;
}

std::string fusion_text(const CompareRecord& r) {
  if (r.fusion.empty()) return "";
  const CompareFusion& f = r.fusion.back();
  const double saved = 1.0 - f.flash_seconds / f.full_seconds;
  return fmt::format(
      "fusing, n = {}: full → flash {} {:.0f} % of the time\n  full  {}\n  flash {}\n",
      with_commas(f.length), saved >= 0.0 ? "saves" : "costs", 100.0 * std::abs(saved),
      kinds_text(f.full_kinds), kinds_text(f.flash_kinds));
}

std::string prediction_text(const ComparePrediction& p) {
  if (!p.time_median_error) return "";
  std::string text = fmt::format("prediction: time off by {:.1f} % (median; worst {:.0f} %)",
                                 100.0 * *p.time_median_error, 100.0 * *p.time_worst_error);
  if (p.memory_median_error) {
    text += fmt::format(", memory by {:.1f} % (worst {:.0f} %)", 100.0 * *p.memory_median_error,
                        100.0 * *p.memory_worst_error);
  }
  return text + fmt::format(", {} points\n", p.points);
}

std::string csv_number(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "";
}

std::string quoted(std::string text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  for (std::size_t i = 0; (i = text.find('"', i)) != std::string::npos; i += 2)
    text.insert(i, "\"");
  return "\"" + text + "\"";
}

}  // namespace

std::string compare_text(const CompareRecord& r) {
  std::string text = text_heading(r) + "\n" + time_table(r) + "\n" + memory_table(r) + "\n";
  const std::string notes = remarks(r);
  if (!notes.empty()) text += notes + "\n";
  text += compare_plot(r) + "\n" + fusion_text(r) + prediction_text(r.prediction);
  return text + "\n" + r.conclusion + "\n";
}

std::string compare_csv(const CompareRecord& r) {
  std::string text =
      "mechanism,length,status,predicted_s,low_s,high_s,measured_s,quartile1_s,quartile3_s,rounds,"
      "parameter_bytes,predicted_bytes,measured_bytes,resident_bytes,output_error,gradient_error,"
      "maccs,flops,bytes,reason\n";
  for (const ComparePoint& p : r.points) {
    const CompareTime t = p.time.value_or(CompareTime{});
    const CompareMemory m = p.memory.value_or(CompareMemory{});
    const CompareError e = p.error.value_or(CompareError{});
    const CompareWork w = p.work.value_or(CompareWork{});
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
                        quoted(p.mechanism), p.length, p.status, csv_number(t.predicted),
                        csv_number(t.low), csv_number(t.high), csv_number(t.measured),
                        csv_number(t.spread_low), csv_number(t.spread_high), t.rounds,
                        csv_number(m.parameters), csv_number(m.predicted), csv_number(m.measured),
                        csv_number(m.resident), csv_number(e.output), csv_number(e.gradient),
                        w.maccs, w.flops, w.bytes, quoted(p.reason));
  }
  return text;
}

std::string compare_against(const CompareRecord& here, const CompareRecord& there) {
  std::string text = fmt::format(
      "time here / time there\n  here:  {}, {} threads\n  there: {}, {} threads\n",
      here.machine.cpu, here.settings.threads, there.machine.cpu, there.settings.threads);
  text += table_head(here, "") + "\n";
  for (const CompareMechanism& m : here.mechanisms) {
    text += fmt::format("{:<{}}", clipped(m.name), kNameWidth);
    for (const std::uint64_t n : columns_of(here)) {
      const auto a = shown_time(here.find(m.name, n));
      const auto b = shown_time(there.find(m.name, n));
      const bool both = a && b && a->measured && b->measured;
      text += right(both ? three_digits(a->seconds / b->seconds) : "", 9);
    }
    text += "\n";
  }
  return text;
}

}  // namespace longspan
