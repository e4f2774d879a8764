#include "longspan/report/compare_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "longspan/report/compare_plot.h"
#include "longspan/report/compare_summary.h"
#include "longspan/report/csv.h"
#include "longspan/report/lines.h"

namespace longspan {

namespace {

constexpr std::size_t kLongestName = 22;
constexpr std::size_t kNarrowestCell = 9;
constexpr std::size_t kBehind = 14;  // the columns behind those of the lengths

// How a table is laid out: a column of names, one for each length that fits, and what is behind.
struct Layout {
  std::size_t name = 0;
  std::size_t cell = kNarrowestCell;
  std::vector<std::uint64_t> lengths;
};

// The last ones that there is room for; where nothing was measured at any of these, half of the room
// is for those at which something was.
std::vector<std::uint64_t> shown_lengths(const CompareRecord& r, std::size_t room) {
  std::vector<std::uint64_t> measured;
  for (const std::uint64_t n : r.lengths) {
    const bool here = std::ranges::any_of(r.points, [n](const ComparePoint& p) {
      return p.length == n && p.time && p.time->measured;
    });
    if (here) measured.push_back(n);
  }
  std::vector<std::uint64_t> shown;
  const auto take_last = [&shown](const std::vector<std::uint64_t>& from, std::size_t most) {
    const std::size_t count = std::min(from.size(), most);
    shown.insert(shown.end(), from.end() - static_cast<std::ptrdiff_t>(count), from.end());
  };
  const std::size_t count = std::min(r.lengths.size(), room);
  const bool hidden =
      !measured.empty() && count > 0 && measured.back() < r.lengths[r.lengths.size() - count];
  if (hidden) take_last(measured, (room + 1) / 2);
  take_last(r.lengths, room - shown.size());
  return shown;
}

Layout layout_of(const CompareRecord& r, std::size_t width) {
  Layout layout;
  for (const CompareMechanism& m : r.mechanisms) {
    layout.name = std::max(layout.name, std::min(text_columns(m.name), kLongestName));
  }
  layout.name = std::max(layout.name, std::string_view("memory, MiB").size());
  for (const std::uint64_t n : r.lengths) {
    layout.cell = std::max(layout.cell, 1 + with_commas(n).size());
  }
  const std::size_t taken = layout.name + kBehind;
  const std::size_t room = width > taken + layout.cell ? (width - taken) / layout.cell : 1;
  layout.lengths = shown_lengths(r, room);
  return layout;
}

// Three significant digits: "0.123", "45.6", "7890".
std::string three_digits(double value) {
  if (value >= 1e7) return fmt::format("{:.1e}", value);
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
  const std::string phase = s.phase == ComparePhase::kTrain
                                ? (s.bare ? "forward and backward" : "training step")
                                : "forward";
  return fmt::format("{}, {}, batch {}{}; {} thread{}, {}", model, phase, s.batch,
                     s.causal ? ", causal" : "", s.threads, s.threads == 1 ? "" : "s",
                     r.machine.cpu);
}

std::string table_head(const Layout& layout, const char* what) {
  std::string line = fmt::format("{:<{}}", what, layout.name);
  for (const std::uint64_t n : layout.lengths) line += right(with_commas(n), layout.cell);
  return line;
}

// A mechanism's name and what `cell` says of it at each length.
std::string table_row(const CompareRecord& r, const Layout& layout, const CompareMechanism& m,
                      std::string (*cell)(const ComparePoint*)) {
  std::string line = fmt::format("{:<{}}", clipped(m.name, layout.name), layout.name);
  for (const std::uint64_t n : layout.lengths) line += right(cell(r.find(m.name, n)), layout.cell);
  return line;
}

std::string milliseconds_cell(const ComparePoint* p) {
  if (p != nullptr && p->status == PointStatus::kRefused) return "cannot";
  if (p != nullptr && p->status == PointStatus::kFailed) return "failed";
  const auto time = shown_time(p);
  if (!time) return "";
  return (time->measured ? "" : "~") + three_digits(1e3 * time->seconds);
}

std::string mebibytes_cell(const ComparePoint* p) {
  constexpr double kMebibytes = 1024.0 * 1024.0;
  if (p == nullptr || !p->memory || p->status == PointStatus::kFailed) return "";
  if (p->status == PointStatus::kOk && p->memory->measured) {
    return three_digits(*p->memory->measured / kMebibytes);
  }
  return p->memory->predicted ? "~" + three_digits(*p->memory->predicted / kMebibytes) : "";
}

std::string ratio_cell(const ComparePoint* p) {
  if (p == nullptr || !p->error || !p->error->output) return "";
  const auto& error = p->error->output;
  const bool usual = *error >= 1e-4 && *error < 1e3;
  return usual ? fmt::format("{:.2f}", *error) : fmt::format("{:.0e}", *error);
}

std::string exponent_cell(const std::optional<double>& exponent) {
  return exponent ? fmt::format("{:.2f}", *exponent) : "";
}

std::string milliseconds_table(const CompareRecord& r, const Layout& layout) {
  const auto errors = error_length(r);
  std::string text = table_head(layout, "time, ms") + right("n^", 6) + right("error", 7) + "\n";
  for (const CompareMechanism& m : r.mechanisms) {
    text += table_row(r, layout, m, &milliseconds_cell) + right(exponent_cell(m.time_exponent), 6) +
            right(errors ? ratio_cell(r.find(m.name, *errors)) : "", 7) + "\n";
  }
  return text;
}

std::string time_legend(const CompareRecord& r, const Layout& layout) {
  std::string text = "~ predicted, not measured";
  if (const auto n = error_length(r)) {
    text += fmt::format("; error: of the output against exact attention at n = {}, on {}",
                        with_commas(*n), inputs_text(r.settings));
  }
  if (layout.lengths.size() < r.lengths.size()) {
    const std::size_t count = layout.lengths.size();
    const bool last = layout.lengths.front() == r.lengths[r.lengths.size() - count];
    text += fmt::format("; {}{} of {} lengths, --csv has all", last ? "the last " : "", count,
                        r.lengths.size());
  }
  return text;
}

std::string added(std::uint64_t count) {
  if (count == 0) return "0";
  if (count < 100'000) return fmt::format("{:.1f} k", 1e-3 * static_cast<double>(count));
  return fmt::format("{:.1f} M", 1e-6 * static_cast<double>(count));
}

std::string mebibytes_table(const CompareRecord& r, const Layout& layout) {
  std::string text = table_head(layout, "memory, MiB") + right("n^", 6) + right("added", 8) + "\n";
  for (const CompareMechanism& m : r.mechanisms) {
    text += table_row(r, layout, m, &mebibytes_cell) + right(exponent_cell(m.memory_exponent), 6) +
            right(added(m.parameters_added), 8) + "\n";
  }
  return text;
}

// Each reason once, with whom and where it concerns.
std::string remarks(const CompareRecord& r, std::size_t width) {
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
    text += wrapped(
        fmt::format("{} at n = {}{}: {}", key.first, with_commas(lengths.front()),
                    lengths.size() > 1 ? fmt::format(" and {} more", lengths.size() - 1) : "",
                    key.second),
        width);
  }
  if (skipped > 0) {
    text += wrapped(
        fmt::format(
            "{} of {} points were left out and are predicted; a longer --budget measures more",
            skipped, r.points.size()),
        width);
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

std::string fusion_text(const CompareRecord& r, std::size_t width) {
  if (r.fusion.empty()) return "";
  const CompareFusion& f = r.fusion.back();
  const double saved = 1.0 - f.flash_seconds / f.full_seconds;
  return wrapped(fmt::format("fusing, n = {}: full → flash {} {:.0f} % of the time",
                             with_commas(f.length), saved >= 0.0 ? "saves" : "costs",
                             100.0 * std::abs(saved)),
                 width) +
         wrapped("  full  " + kinds_text(f.full_kinds), width) +
         wrapped("  flash " + kinds_text(f.flash_kinds), width);
}

std::string prediction_text(const ComparePrediction& p) {
  if (!p.time_median_error || !p.time_worst_error) return "";
  std::string text = fmt::format("prediction: time off by {:.1f} % (median; worst {:.0f} %)",
                                 100.0 * *p.time_median_error, 100.0 * *p.time_worst_error);
  if (p.memory_median_error && p.memory_worst_error) {
    text += fmt::format(", growth of the process by {:.1f} % (worst {:.0f} %)",
                        100.0 * *p.memory_median_error, 100.0 * *p.memory_worst_error);
  }
  return text + ", " + counted(p.points, "point");
}

}  // namespace

std::string compare_text(const CompareRecord& r, std::size_t width) {
  const Layout layout = layout_of(r, width);
  std::string text = wrapped(text_heading(r), width) + "\n";
  text += milliseconds_table(r, layout) + wrapped(time_legend(r, layout), width) + "\n";
  text +=
      mebibytes_table(r, layout) +
      wrapped(
          "~ predicted, not measured; --csv has the resident memory of a fresh process as well; "
          "added: parameters beside those of flash",
          width) +
      "\n";
  const std::string notes = remarks(r, width);
  if (!notes.empty()) text += notes + "\n";
  text += compare_plot(r, width) + "\n" + fusion_text(r, width);
  const std::string prediction = prediction_text(r.prediction);
  if (!prediction.empty()) text += wrapped(prediction, width);
  return text + "\n" + wrapped(r.conclusion, width);
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
                        csv_text(p.mechanism), p.length, p.status, csv_number(t.predicted),
                        csv_number(t.low), csv_number(t.high), csv_number(t.measured),
                        csv_number(t.spread_low), csv_number(t.spread_high), t.rounds,
                        csv_number(m.parameters), csv_number(m.predicted), csv_number(m.measured),
                        csv_number(m.resident), csv_number(e.output), csv_number(e.gradient),
                        w.maccs, w.flops, w.bytes, csv_text(p.reason));
  }
  return text;
}

std::string compare_against(const CompareRecord& here, const CompareRecord& there,
                            std::size_t width) {
  const Layout layout = layout_of(here, width);
  std::string text = "time here / time there, where both were measured\n";
  text += wrapped(
      fmt::format("  here:  {}, {}", here.machine.cpu, counted(here.settings.threads, "thread")),
      width);
  text += wrapped(
      fmt::format("  there: {}, {}", there.machine.cpu, counted(there.settings.threads, "thread")),
      width);
  text += table_head(layout, "") + "\n";
  for (const CompareMechanism& m : here.mechanisms) {
    text += fmt::format("{:<{}}", clipped(m.name, layout.name), layout.name);
    for (const std::uint64_t n : layout.lengths) {
      const auto a = shown_time(here.find(m.name, n));
      const auto b = shown_time(there.find(m.name, n));
      const bool both = a && b && a->measured && b->measured;
      text += right(both ? three_digits(a->seconds / b->seconds) : "", layout.cell);
    }
    text += "\n";
  }
  return text;
}

}  // namespace longspan
