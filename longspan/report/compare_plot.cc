#include "longspan/report/compare_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "longspan/report/compare_summary.h"
#include "longspan/report/lines.h"

namespace longspan {

namespace {

constexpr std::size_t kRows = 12;
constexpr std::size_t kColumnWidth = 9;
constexpr std::size_t kCurves = 6;
constexpr std::size_t kMargin = 13;  // before the first column

struct Curve {
  char letter = 'a';
  const CompareMechanism* mechanism = nullptr;
};

// What fits: the last lengths.
std::vector<std::uint64_t> lengths_of(const CompareRecord& r, std::size_t width) {
  const std::size_t room = (std::max(width, kMargin) - kMargin) / kColumnWidth;
  const std::size_t first = r.lengths.size() - std::min(r.lengths.size(), room);
  return {r.lengths.begin() + static_cast<std::ptrdiff_t>(first), r.lengths.end()};
}

// The time at the longest length that has one.
std::optional<double> last_time(const CompareRecord& r, const std::string& mechanism) {
  for (std::size_t i = r.lengths.size(); i-- > 0;) {
    if (const auto t = shown_time(r.find(mechanism, r.lengths[i]))) return t->seconds;
  }
  return std::nullopt;
}

// The two exact ones, then those that are fastest at the end.
std::vector<Curve> chosen(const CompareRecord& r) {
  std::vector<const CompareMechanism*> order;
  for (const CompareMechanism& m : r.mechanisms) {
    if (last_time(r, m.name)) order.push_back(&m);
  }
  const auto rank = [&](const CompareMechanism* m) {
    const bool exact = m->name == "flash" || m->name == "full";
    return exact ? 0.0 : *last_time(r, m->name);
  };
  std::ranges::stable_sort(order, {}, rank);
  std::vector<Curve> curves;
  for (const CompareMechanism* m : order) {
    if (curves.size() < kCurves) {
      curves.push_back({static_cast<char>('a' + static_cast<int>(curves.size())), m});
    }
  }
  return curves;
}

std::string time_label(double seconds) {
  if (seconds >= 1.0) return fmt::format("{:.1f} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.0f} ms", 1e3 * seconds)
                         : fmt::format("{:.0f} µs", 1e6 * seconds);
}

}  // namespace

std::string compare_plot(const CompareRecord& r, std::size_t columns) {
  const std::vector<std::uint64_t> lengths = lengths_of(r, columns);
  if (lengths.size() < 2) return "";
  const std::vector<Curve> curves = chosen(r);
  double low = std::numeric_limits<double>::max();
  double high = 0.0;
  for (const Curve& c : curves) {
    for (const std::uint64_t n : lengths) {
      const auto t = shown_time(r.find(c.mechanism->name, n));
      if (!t) continue;
      low = std::min(low, t->seconds);
      high = std::max(high, t->seconds);
    }
  }
  if (high <= low) return "";
  const std::size_t width = lengths.size() * kColumnWidth;
  std::vector<std::string> canvas(kRows, std::string(width, ' '));
  for (const Curve& c : curves) {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const auto t = shown_time(r.find(c.mechanism->name, lengths[i]));
      if (!t) continue;
      const double share = std::log(t->seconds / low) / std::log(high / low);
      const auto row = static_cast<std::size_t>(std::lround((1.0 - share) * (kRows - 1)));
      std::size_t column = i * kColumnWidth + 2;
      while (canvas[row][column] != ' ') ++column;  // as many as lie together stand side by side
      canvas[row][column] = t->measured ? static_cast<char>(std::toupper(c.letter)) : c.letter;
    }
  }
  std::string text = "time against length, both logarithmic; capitals are measured\n";
  for (std::size_t row = 0; row < kRows; ++row) {
    const double share = 1.0 - static_cast<double>(row) / (kRows - 1);
    const double seconds = low * std::pow(high / low, share);
    const std::string label = row % 3 == 2 || row == 0 ? time_label(seconds) : "";
    text += fmt::format("{:>11} │{}\n", label, canvas[row]);
  }
  text += fmt::format("{:>11} └", "");
  for (std::size_t i = 0; i < width; ++i) text += "─";
  text += fmt::format("\n{:>11}  ", "");
  for (const std::uint64_t n : lengths) text += fmt::format("{:<{}}", with_commas(n), kColumnWidth);
  text += "\n";
  std::string legend = " ";
  for (const Curve& c : curves) legend += fmt::format(" {} {}", c.letter, c.mechanism->name);
  return text + wrapped(legend, columns);
}

}  // namespace longspan
