#include "longspan/report/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "longspan/report/html.h"

namespace longspan {

namespace {

constexpr double kWidth = 680.0;
constexpr double kHeight = 380.0;
constexpr double kLeft = 78.0;
constexpr double kRight = 150.0;  // room for names
constexpr double kTop = 14.0;
constexpr double kBottom = 48.0;
constexpr int kColours = 8;  // classes c0 … c7 of the page's style

// The range of an axis, with a margin, and where numbers lie on it.
class Scale {
 public:
  Scale(bool logarithmic, double from, double to)
      : logarithmic_(logarithmic), from_(from), to_(to) {}

  void take(double value) {
    if (!std::isfinite(value) || (logarithmic_ && value <= 0.0)) return;
    const double v = logarithmic_ ? std::log10(value) : value;
    least_ = std::min(least_, v);
    most_ = std::max(most_, v);
  }
  void close() {
    if (most_ < least_) least_ = 0.0, most_ = 1.0;
    double margin = 0.06 * (most_ - least_);
    if (margin == 0.0) margin = logarithmic_ ? 0.5 : std::max(std::abs(most_) * 0.1, 1e-6);
    least_ -= margin;
    most_ += margin;
  }
  bool shows(double value) const { return std::isfinite(value) && (!logarithmic_ || value > 0.0); }
  double at(double value) const {
    const double v = logarithmic_ ? std::log10(value) : value;
    return from_ + (v - least_) / (most_ - least_) * (to_ - from_);
  }
  std::vector<double> ticks(bool binary) const {
    std::vector<double> all = logarithmic_ ? powers(binary) : std::vector<double>{};
    if (all.size() >= 3) return all;
    return logarithmic_ ? multiples(std::pow(10.0, least_), std::pow(10.0, most_), binary)
                        : multiples(least_, most_, binary);
  }

 private:
  // 1, 2 and 5 times powers of ten, or powers of two, at most eight or so of them.
  std::vector<double> powers(bool binary) const {
    std::vector<double> all;
    const double unit = binary ? std::log10(2.0) : 1.0;
    const int every = std::max(1, static_cast<int>(std::ceil((most_ - least_) / unit / 7.0)));
    for (int i = static_cast<int>(std::ceil(least_ / unit)); i * unit <= most_; ++i) {
      if (i % every == 0) all.push_back(std::pow(10.0, i * unit));
    }
    if (binary || all.size() >= 3) return all;
    all.clear();
    for (int decade = static_cast<int>(std::floor(least_)); decade <= most_; ++decade) {
      for (const double digit : {1.0, 2.0, 5.0}) {
        const double v = decade + std::log10(digit);
        if (v >= least_ && v <= most_) all.push_back(std::pow(10.0, v));
      }
    }
    return all;
  }
  // Some five multiples of a round number.
  static std::vector<double> multiples(double least, double most, bool binary) {
    const double rough = (most - least) / 5.0;
    double step = 0.0;
    if (binary) {
      step = std::exp2(std::round(std::log2(rough)));
    } else {
      const double power = std::pow(10.0, std::floor(std::log10(rough)));
      const double ratio = rough / power;
      step = power * (ratio < 1.5 ? 1.0 : ratio < 3.5 ? 2.0 : ratio < 7.5 ? 5.0 : 10.0);
    }
    std::vector<double> all;
    constexpr int kMostTicks = 16;
    for (int i = 0; i < kMostTicks; ++i) {
      const double tick = (std::ceil(least / step) + i) * step + 0.0;  // no negative zero
      if (tick <= most) all.push_back(tick);
    }
    return all;
  }

  bool logarithmic_;
  double from_;
  double to_;
  double least_ = std::numeric_limits<double>::infinity();
  double most_ = -std::numeric_limits<double>::infinity();
};

std::string axes(const Chart& chart, const Scale& x, const Scale& y) {
  std::string svg;
  const double bottom = kHeight - kBottom;
  const double right = kWidth - kRight;
  for (const double tick : x.ticks(chart.x.binary)) {
    const double at = x.at(tick);
    svg += fmt::format(R"(<line class="grid" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>)"
                       R"(<text class="tick" x="{0:.1f}" y="{3}" text-anchor="middle">{4}</text>)",
                       at, kTop, bottom, bottom + 16.0, escape_html(chart.x.text(tick)));
  }
  for (const double tick : y.ticks(chart.y.binary)) {
    const double at = y.at(tick);
    svg += fmt::format(R"(<line class="grid" x1="{1}" x2="{2}" y1="{0:.1f}" y2="{0:.1f}"/>)"
                       R"(<text class="tick" x="{3}" y="{4:.1f}" text-anchor="end">{5}</text>)",
                       at, kLeft, right, kLeft - 6.0, at + 4.0, escape_html(chart.y.text(tick)));
  }
  svg += fmt::format(R"(<text class="axis" x="{:.1f}" y="{}" text-anchor="middle">{}</text>)",
                     (kLeft + right) / 2.0, kHeight - 8.0, escape_html(chart.x.title));
  svg += fmt::format(
      R"svg(<text class="axis" transform="translate(14 {:.1f}) rotate(-90)" text-anchor="middle">{}</text>)svg",
      (kTop + bottom) / 2.0, escape_html(chart.y.title));
  return svg;
}

std::string title_of(const Chart& chart, const ChartSeries& s, const ChartPoint& p) {
  return escape_html(fmt::format("{}: {} at {}", s.name, chart.y.text(p.y), chart.x.text(p.x)));
}

// A name beside each end, moved down where one would lie over another.
class PlacedNames {
 public:
  std::string place(double x, double y, const std::string& name, int colour) {
    double at = y + 4.0;
    bool moved = true;
    while (moved) {
      moved = false;
      for (const auto& [ox, oy] : taken_) {
        if (std::abs(ox - x) < 120.0 && std::abs(oy - at) < 12.0) {
          at = oy + 12.0;
          moved = true;
        }
      }
    }
    taken_.emplace_back(x, at);
    return fmt::format(R"(<text class="name t{}" x="{:.1f}" y="{:.1f}">{}</text>)", colour, x + 8.0,
                       at, escape_html(name));
  }

 private:
  std::vector<std::pair<double, double>> taken_;
};

}  // namespace

std::string svg_of(const Chart& chart) {
  Scale x(chart.x.logarithmic, kLeft, kWidth - kRight);
  Scale y(chart.y.logarithmic, kHeight - kBottom, kTop);
  bool any = false;
  for (const ChartSeries& s : chart.series) {
    for (const ChartPoint& p : s.points) {
      x.take(p.x);
      for (const double value : {p.y, p.low, p.high}) y.take(value);
      any = any || (x.shows(p.x) && y.shows(p.y));
    }
  }
  if (!any) return "";
  x.close();
  y.close();
  std::string svg =
      fmt::format(R"(<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">)", kWidth,
                  kHeight, escape_html(chart.title));
  svg += axes(chart, x, y);
  std::vector<std::pair<double, double>> front;
  PlacedNames names;
  std::string labels;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const ChartSeries& s = chart.series[i];
    const int colour = static_cast<int>(i) % kColours;
    std::string path;
    std::pair<double, double> end;
    for (const ChartPoint& p : s.points) {
      if (!x.shows(p.x) || !y.shows(p.y)) continue;
      end = {x.at(p.x), y.at(p.y)};
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", end.first, end.second);
      if (p.low != p.high) {
        svg += fmt::format(
            R"(<line class="bar c{0}" x1="{1:.1f}" x2="{1:.1f}" y1="{2:.1f}" y2="{3:.1f}"/>)",
            colour, end.first, y.at(p.low), y.at(p.high));
      }
      svg += fmt::format(
          R"(<circle class="{} c{}" cx="{:.1f}" cy="{:.1f}" r="{}"><title>{}</title></circle>)",
          s.hollow ? "hollow" : "dot", colour, end.first, end.second,
          s.points.size() > 1 ? 2.5 : 5.0, title_of(chart, s, p));
      if (s.marked) front.push_back(end);
    }
    if (path.empty()) continue;
    if (s.points.size() > 1) svg += fmt::format(R"(<path class="line c{}" d="{}"/>)", colour, path);
    labels += names.place(end.first, end.second, s.name, colour);
  }
  if (front.size() > 1) {
    std::ranges::sort(front);
    std::string path;
    for (const auto& [px, py] : front) {
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", px, py);
    }
    svg += fmt::format(R"(<path class="front" d="{}"/>)", path);
  }
  return svg + labels + "</svg>";
}

}  // namespace longspan
