#include "longspan/training/metrics_log.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "longspan/base/error.h"
#include "longspan/io/atomic_file.h"
#include "longspan/io/file.h"

namespace longspan {

namespace {

using nlohmann::json;

struct Line {
  std::uint64_t step = 0;
  double seconds = 0.0;
  bool evaluation = false;
};

Line read_line(std::string_view text, const std::filesystem::path& path, std::size_t number) {
  const json line = json::parse(text, nullptr, /*allow_exceptions=*/false);
  require(line.is_object() && line.contains("step") && line["step"].is_number_unsigned() &&
              line.contains("seconds") && line["seconds"].is_number(),
          "[train] {}, line {}: {}; need a line of metrics, or move the file away", path.string(),
          number, printable(text));
  return {line["step"], line["seconds"], !line.contains("loss")};
}

// What stays of the log; `seconds` become those of its last line.
std::string kept_lines(const std::filesystem::path& path, std::uint64_t step, bool evaluation_due,
                       double& seconds) {
  const std::string held = read_file("train", path, kMostData);
  const std::string_view all = held;
  std::string kept;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = all.find('\n', begin);
    if (end == std::string::npos) break;  // a line that was cut off came behind every checkpoint
    const std::string_view text = all.substr(begin, end - begin);
    begin = end + 1;
    const Line line = read_line(text, path, ++number);
    const bool again = line.step == step && evaluation_due && line.evaluation;
    if (line.step > step || again) continue;
    kept += text;
    kept += '\n';
    seconds = line.seconds;
  }
  return kept;
}

}  // namespace

json to_json(const JudgedStep& judged) {
  json line = {{"step", judged.step}};
  for (const Metric& m : judged.judgement.metrics) {
    line[fmt::format("{}_{}", name_of(judged.judgement.split), m.name)] = m.value;
  }
  return line;
}

MetricsLog::MetricsLog(const std::filesystem::path& directory, std::uint64_t step,
                       bool evaluation_due) {
  const std::filesystem::path path = directory / "metrics.jsonl";
  std::error_code ignored;
  std::string kept;
  if (step > 0 && std::filesystem::exists(path, ignored)) {
    kept = kept_lines(path, step, evaluation_due, before_);
  }
  AtomicFile file("train", path);
  file.write(kept);
  file.commit();
  file_.emplace("train", path);
}

void MetricsLog::add(const StepReport& report, double seconds) {
  add({{"step", report.step},
       {"loss", report.loss},
       {"learning_rate", report.learning_rate},
       {"gradient_norm", report.gradient_norm}},
      seconds);
}

void MetricsLog::add(const JudgedStep& judged, double seconds) { add(to_json(judged), seconds); }

void MetricsLog::add(json line, double seconds) {
  line["seconds"] = before_ + seconds;
  file_->write(line.dump() + '\n');
}

}  // namespace longspan
