// The record of a comparison of mechanisms on a task: plain data, read and written as JSON. Tables
// and the page are made from it and from nothing else.
//
// Seconds and bytes throughout; nothing (null) where it is not known.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "longspan/report/compare_record.h"

namespace longspan {

inline constexpr FieldRange kJudgedValue{-1e30, 1e30};

struct QualitySettings {
  std::string task;
  std::map<std::string, std::string, std::less<>> options;  // the task's
  std::optional<std::string> data_checksum;                 // of data that were not drawn
  std::optional<std::uint64_t> length;  // tokens of its longest sequence, which follow from them
  std::uint64_t layers = 1;
  std::uint64_t d_model = 1;
  std::uint64_t heads = 1;
  std::string positions;
  std::string before;  // what every other layer has in the place of the mechanism
  std::uint64_t steps = 1;
  std::uint64_t batch = 1;
  double learning_rate = 1.0;
  std::string metric;  // what is compared: "accuracy", "loss"
  bool higher = true;  // is better
  bool share = false;  // shown as a percentage
  std::uint64_t threads = 1;
  double budget_seconds = 0.0;

  template <class Self, class See>
  static void visit(Self& self, See see) {
    see("task", self.task);
    see("options", self.options);
    see("data_checksum", self.data_checksum);
    see("length", self.length, kComparedCount);
    see("layers", self.layers, kComparedCount);
    see("d_model", self.d_model, kComparedCount);
    see("heads", self.heads, kComparedCount);
    see("positions", self.positions);
    see("before", self.before);
    see("steps", self.steps, kComparedCount);
    see("batch", self.batch, kComparedCount);
    see("learning_rate", self.learning_rate, FieldRange{1e-12, 1e3});
    see("metric", self.metric);
    see("higher", self.higher);
    see("share", self.share);
    see("threads", self.threads, kComparedCount);
    see("budget_seconds", self.budget_seconds, kPartSeconds);
  }
  bool operator==(const QualitySettings&) const = default;
};

// An evaluation on the way.
struct QualityStep {
  std::uint64_t step = 0;
  double loss = 0.0;
  double quality = 0.0;

  template <class Self, class See>
  static void visit(Self& self, See see) {
    see("step", self.step);
    see("loss", self.loss, kJudgedValue);
    see("quality", self.quality, kJudgedValue);
  }
};

// A mechanism, trained from one seed.
struct QualityTrial {
  std::string mechanism;
  std::uint64_t seed = 1;
  Choice<PointStatus> status = PointStatus::kSkipped;
  std::string reason;             // where it is not ok
  std::optional<double> quality;  // in the end, on the test split
  std::optional<double> loss;
  std::optional<double> guess;      // what guessing reaches there
  std::optional<double> predicted;  // seconds of a step
  std::optional<double> step_seconds;
  std::optional<double> seconds;  // in all
  std::optional<double> memory;   // bytes of a step
  std::optional<double> state;    // bytes of a sequence that is decoded
  std::optional<std::uint64_t> parameters;
  std::vector<QualityStep> curve;

  template <class Self, class See>
  static void visit(Self& self, See see) {
    see("mechanism", self.mechanism);
    see("seed", self.seed);
    see("status", self.status);
    see("reason", self.reason);
    see("quality", self.quality, kJudgedValue);
    see("loss", self.loss, kJudgedValue);
    see("guess", self.guess, kJudgedValue);
    see("predicted", self.predicted, kComparedSeconds);
    see("step_seconds", self.step_seconds, kComparedSeconds);
    see("seconds", self.seconds, kComparedSeconds);
    see("memory", self.memory, kComparedBytes);
    see("state", self.state, kPartBytes);
    see("parameters", self.parameters);
    see("curve", self.curve);
  }
};

struct QualityRecord : RecordHead {
  QualitySettings settings;
  std::vector<QualityTrial> trials;  // by seed, then as the mechanisms were named
  std::string conclusion;

  // Null where there is none.
  const QualityTrial* find(std::string_view mechanism, std::uint64_t seed) const;

  template <class Self, class See>
  static void visit(Self& self, See see) {
    RecordHead::visit(self, see);
    see("settings", self.settings);
    see("trials", self.trials);
    see("conclusion", self.conclusion);
  }
};

inline constexpr std::size_t kMostTrials = 4096;
inline constexpr std::size_t kMostCurve = 1024;

// Whether the JSON says that it is such a record.
bool is_quality_record(const nlohmann::json& json);
nlohmann::json to_json(const QualityRecord& record);
// As compare_record_from.
QualityRecord quality_record_from(std::string_view where, const nlohmann::json& json);

}  // namespace longspan
