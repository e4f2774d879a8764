// metrics.jsonl of a run: what its steps and evaluations said, a line of JSON each, as they came.
//
//   {"step":10,"loss":2.91,"learning_rate":0.001,"gradient_norm":1.3,"seconds":0.8}
//   {"step":500,"validation_loss":1.52,"validation_accuracy":0.41,"seconds":41.2}
//
// The lines of a run that was stopped, even killed, and resumed are those of a run that was not, but
// for the seconds: what was written behind the step of the checkpoint is written again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "longspan/io/growing_file.h"
#include "longspan/learning/trainer.h"
#include "longspan/tasks/task.h"

namespace longspan {

struct JudgedStep {
  std::uint64_t step = 0;
  Judgement judgement;
};
// {"step":500,"validation_loss":1.52,…}
nlohmann::json to_json(const JudgedStep& judged);

class MetricsLog {
 public:
  // Of a run that goes on behind `step`, 0 of a new one: later lines go. Where the evaluation of
  // that step is yet to come its line goes too. Throws Error for a file that is no such log.
  MetricsLog(const std::filesystem::path& directory, std::uint64_t step, bool evaluation_due);

  // `seconds` since this process began to train; the lines count those before it too.
  void add(const StepReport& report, double seconds);
  void add(const JudgedStep& judged, double seconds);
  // Before a checkpoint that will count on what was written.
  void sync() { file_->sync(); }

 private:
  void add(nlohmann::json line, double seconds);

  std::optional<GrowingFile> file_;
  double before_ = 0.0;  // seconds of the last line that was kept
};

}  // namespace longspan
