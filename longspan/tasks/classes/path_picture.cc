#include "longspan/tasks/classes/path_picture.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "longspan/base/error.h"

namespace longspan {

namespace {

constexpr double kDash = 1.5;      // pixels of a dash
constexpr double kDot = 0.5;       // pixels between the points of one
constexpr double kStep = 2.6;      // from one dash to the next
constexpr double kTurn = 0.5;      // radians that the direction changes by at most
constexpr double kApart = 2.3;     // pixels between paths
constexpr double kMargin = 1.5;    // pixels between a path and the edge
constexpr double kMark = 1.5;      // radius of a mark
constexpr std::size_t kShort = 2;  // dashes of a short path
constexpr std::uint8_t kInk = 150;
constexpr std::uint8_t kMarkInk = 255;

struct Point {
  double x = 0.0;
  double y = 0.0;
};

double distance(const Point& a, const Point& b) { return std::hypot(a.x - b.x, a.y - b.y); }

struct Path {
  std::vector<Point> dots;  // along its dashes
  Point first;
  Point last;
};

class PictureDrawing {
 public:
  PictureDrawing(RandomKey key, const PathRules& rules) : key_(key), rules_(rules) {}

  std::optional<PathPicture> picture() {
    for (std::size_t i = 0; i < 2; ++i) {
      if (!add_path(rules_.dashes)) return std::nullopt;
    }
    for (std::size_t i = 0; i < rules_.distractors; ++i) {
      if (!add_path(kShort)) return std::nullopt;
    }
    PathPicture out;
    out.pixels.assign(rules_.side * rules_.side, 0);
    for (const Path& path : paths_) {
      for (const Point& dot : path.dots) at(out, dot.x, dot.y) = kInk;
    }
    // Which long path, and which of its ends, comes first is left to chance.
    const bool other = below(2) == 1;
    const bool turned = below(2) == 1;
    const Path& one = paths_[other ? 1 : 0];
    const Path& two = paths_[other ? 0 : 1];
    out.connected = static_cast<std::int32_t>(below(2));
    mark(out, turned ? one.last : one.first);
    if (out.connected == 1) {
      mark(out, turned ? one.first : one.last);
    } else {
      mark(out, below(2) == 1 ? two.first : two.last);
    }
    return out;
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_below(key_, drawn_++, bound); }
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(below(1U << 30U)) * 0x1p-30;
  }
  std::uint8_t& at(PathPicture& picture, double x, double y) const {
    return picture.pixels[static_cast<std::size_t>(std::lround(y)) * rules_.side +
                          static_cast<std::size_t>(std::lround(x))];
  }

  bool free(const Point& p) const {
    const double most = static_cast<double>(rules_.side - 1) - kMargin;
    if (p.x < kMargin || p.y < kMargin || p.x > most || p.y > most) return false;
    return std::ranges::all_of(paths_, [&](const Path& path) {
      return std::ranges::all_of(path.dots,
                                 [&](const Point& dot) { return distance(p, dot) >= kApart; });
    });
  }

  // Its own dashes but the last are as far away as those of others.
  static bool crosses(const Path& path, const Point& p) {
    constexpr auto kNear = static_cast<std::size_t>(2.0 * kStep / kDot);
    for (std::size_t i = 0; i + kNear < path.dots.size(); ++i) {
      if (distance(path.dots[i], p) < kApart) return true;
    }
    return false;
  }

  // A dash from `p`, or nothing where it would come near something.
  std::optional<std::vector<Point>> dash(const Path& path, const Point& p, double angle) const {
    std::vector<Point> dots;
    for (int i = 0; i * kDot <= kDash; ++i) {
      const double along = i * kDot;
      const Point dot{p.x + along * std::cos(angle), p.y + along * std::sin(angle)};
      if (!free(dot) || crosses(path, dot)) return std::nullopt;
      dots.push_back(dot);
    }
    return dots;
  }

  // Where no direction leads on, the last dashes are taken back.
  std::optional<Path> walk(std::size_t dashes) {
    constexpr int kDirections = 8;
    constexpr int kMostBack = 30;
    struct Place {
      Point p;
      double angle = 0.0;  // of the dash before
      std::size_t dots = 0;
    };
    const double most = static_cast<double>(rules_.side - 1) - kMargin;
    const Point begin{uniform(kMargin, most), uniform(kMargin, most)};
    std::vector<Place> places = {{begin, uniform(0.0, 2.0 * std::numbers::pi), 0}};
    Path path;
    for (int back = 0; places.size() <= dashes;) {
      const Place here = places.back();
      std::optional<std::vector<Point>> dots;
      double angle = here.angle;
      for (int tried = 0; !dots && tried < kDirections; ++tried) {
        angle = here.angle + uniform(-kTurn, kTurn);
        dots = dash(path, here.p, angle);
      }
      if (dots) {
        path.dots.insert(path.dots.end(), dots->begin(), dots->end());
        places.push_back({{here.p.x + kStep * std::cos(angle), here.p.y + kStep * std::sin(angle)},
                          angle,
                          path.dots.size()});
        continue;
      }
      if (places.size() == 1 || ++back > kMostBack) return std::nullopt;
      places.resize(places.size() - std::min<std::size_t>(places.size() - 1, 1 + below(4)));
      path.dots.resize(places.back().dots);
    }
    path.first = path.dots.front();
    path.last = path.dots.back();
    return path;
  }

  bool add_path(std::size_t dashes) {
    constexpr int kTries = 40;
    for (int i = 0; i < kTries; ++i) {
      if (auto path = walk(dashes)) {
        paths_.push_back(std::move(*path));
        return true;
      }
    }
    return false;
  }

  void mark(PathPicture& picture, const Point& centre) const {
    const double most = static_cast<double>(rules_.side - 1);
    const Point last{std::min(most, centre.x + 2.0), std::min(most, centre.y + 2.0)};
    for (int row = 0; row < 5; ++row) {
      for (int column = 0; column < 5; ++column) {
        const double x = std::max(0.0, centre.x - 2.0) + column;
        const double y = std::max(0.0, centre.y - 2.0) + row;
        if (x > last.x || y > last.y) continue;
        if (distance({std::round(x), std::round(y)}, centre) <= kMark) at(picture, x, y) = kMarkInk;
      }
    }
  }

  RandomKey key_;
  const PathRules& rules_;
  std::uint64_t drawn_ = 0;
  std::vector<Path> paths_;  // the two long ones first
};

}  // namespace

PathPicture draw_paths(RandomKey key, const PathRules& rules) {
  constexpr std::uint64_t kTries = 200;
  for (std::uint64_t i = 0; i < kTries; ++i) {
    if (auto picture = PictureDrawing(derive(key, i), rules).picture()) return *picture;
  }
  throw Error(fmt::format(
      "[pathfinder] two paths of {} dashes and {} short ones do not fit into {}x{} pixels; need a "
      "larger side, or fewer",
      rules.dashes, rules.distractors, rules.side, rules.side));
}

}  // namespace longspan
