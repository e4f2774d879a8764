// The record of a comparison of mechanisms: plain data, read and written as JSON. Tables, plots and
// the page are made from it and from nothing else.
//
// Seconds and bytes throughout; nothing (null) where it is not known.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "longspan/compare/compare_point.h"
#include "longspan/report/record_head.h"

namespace longspan {

inline constexpr FieldRange kComparedExponent{-100.0, 100.0};

struct CompareCrossover {
  std::optional<double> length;  // nothing: there is none
  bool measured = false;         // between measured lengths, or predicted beyond them
  std::string text;

  template <class Self, class See>
  static void visit(Self& self, See see) {
    see("length", self.length, FieldRange{0.0, 0x1p41});
    see("measured", self.measured);
    see("text", self.text);
  }
};

// Which query (row) sees which key (column).
struct ComparePattern {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::vector<std::vector<std::uint64_t>> cells;  // 0 or 1

  template <class Self, class See>
  static void visit(Self& self, See see) {
    see("rows", self.rows);
    see("columns", self.columns);
    see("cells", self.cells, FieldRange{0.0, 1.0});
  }
};

struct CompareMechanism {
  std::string name;  // the specification where one kind appears with several settings
  std::string spec;  // what --attention takes
  std::string kind;  // the survey's class
  bool exact = false;
  bool causal = false;
  bool decode = false;
  std::string complexity_time;
  std::string complexity_memory;
  std::uint64_t parameters_added = 0;
  std::optional<double> time_exponent;
  std::optional<double> memory_exponent;
  std::optional<CompareCrossover> crossover;
  std::optional<ComparePattern> pattern;

  template <class Self, class See>
  static void visit(Self& self, See see) {
    see("name", self.name);
    see("spec", self.spec);
    see("class", self.kind);
    see("exact", self.exact);
    see("causal", self.causal);
    see("decode", self.decode);
    see("complexity_time", self.complexity_time);
    see("complexity_memory", self.complexity_memory);
    see("parameters_added", self.parameters_added);
    see("time_exponent", self.time_exponent, kComparedExponent);
    see("memory_exponent", self.memory_exponent, kComparedExponent);
    see("crossover", self.crossover);
    see("pattern", self.pattern);
  }
};

// What computing the scores, their softmax and the weighted sum in one pass saves.
struct CompareFusion {
  std::uint64_t length = 0;
  double full_seconds = 0.0;
  double flash_seconds = 0.0;
  std::vector<KindTime> full_kinds;
  std::vector<KindTime> flash_kinds;

  template <class Self, class See>
  static void visit(Self& self, See see) {
    see("length", self.length, kComparedCount);
    see("full_seconds", self.full_seconds, kComparedSeconds);
    see("flash_seconds", self.flash_seconds, kComparedSeconds);
    see("full_kinds", self.full_kinds);
    see("flash_kinds", self.flash_kinds);
  }
};

// |predicted / measured − 1| over the points that were measured.
struct ComparePrediction {
  std::optional<double> time_median_error;
  std::optional<double> time_worst_error;
  std::optional<double> memory_median_error;
  std::optional<double> memory_worst_error;
  std::uint64_t points = 0;

  template <class Self, class See>
  static void visit(Self& self, See see) {
    see("time_median_error", self.time_median_error, kComparedError);
    see("time_worst_error", self.time_worst_error, kComparedError);
    see("memory_median_error", self.memory_median_error, kComparedError);
    see("memory_worst_error", self.memory_worst_error, kComparedError);
    see("points", self.points);
  }
};

struct CompareLeftOut {
  std::string mechanism;
  std::uint64_t length = 0;
  std::string reason;

  template <class Self, class See>
  static void visit(Self& self, See see) {
    see("mechanism", self.mechanism);
    see("length", self.length);
    see("reason", self.reason);
  }
};

struct CompareRecord : RecordHead {
  CompareSettings settings;
  std::vector<std::uint64_t> lengths;
  CompareRoofline roofline;
  std::vector<CompareMechanism> mechanisms;
  std::vector<ComparePoint> points;
  std::vector<CompareFusion> fusion;
  ComparePrediction prediction;
  std::vector<CompareLeftOut> left_out;
  std::string conclusion;

  // Null where there is none.
  const ComparePoint* find(std::string_view mechanism, std::uint64_t length) const;

  template <class Self, class See>
  static void visit(Self& self, See see) {
    RecordHead::visit(self, see);
    see("settings", self.settings);
    see("lengths", self.lengths, kComparedCount);
    see("roofline", self.roofline);
    see("mechanisms", self.mechanisms);
    see("points", self.points);
    see("fusion", self.fusion);
    see("prediction", self.prediction);
    see("left_out", self.left_out);
    see("conclusion", self.conclusion);
  }
};

// More than anyone compares, and as much as is shown in no time.
inline constexpr std::size_t kMostMechanisms = 128;
inline constexpr std::size_t kMostLengths = 64;

nlohmann::json to_json(const CompareRecord& record);

// `where` opens every message: "[compare] path". Throws Error with the path of the value that is
// wrong: records are exchanged, and what shows them relies on what is checked here. A field that is
// missing keeps its default; one that is not known is passed over.
CompareRecord compare_record_from(std::string_view where, const nlohmann::json& json);

}  // namespace longspan
