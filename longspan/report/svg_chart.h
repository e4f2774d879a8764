// A small chart as SVG: points with names, or lines. It needs no script; what a point is stands in
// its title.
#pragma once

#include <string>
#include <vector>

namespace longspan {

struct ChartPoint {
  double x = 0.0;
  double y = 0.0;
  double low = 0.0;  // of y: a bar from low to high where they differ
  double high = 0.0;
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;  // one: a point; several: a line
  bool hollow = false;             // of another machine
  bool marked = false;             // on the front, which is drawn as a line through all such points
};

struct ChartAxis {
  std::string title;
  bool logarithmic = false;
  bool binary = false;                    // ticks at multiples of powers of two
  std::string (*text)(double) = nullptr;  // of a tick
};

struct Chart {
  std::string title;
  ChartAxis x, y;
  std::vector<ChartSeries> series;
};

// Nothing where no series has a point.
std::string svg_of(const Chart& chart);

}  // namespace longspan
