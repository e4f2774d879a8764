#include "longspan/training/metrics_log.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "longspan/testing/temporary_directory.h"
#include "longspan/training/training_run.h"

namespace longspan {
namespace metrics_log_test {

using nlohmann::json;
using testing::message_of;

TrainingOptions options(const std::filesystem::path& out) {
  TrainingOptions o;
  o.out = out.string();
  o.run.data.task = "copy";
  o.run.options = {{"length", "6"}, {"symbols", "5"}, {"held_out", "20"}};
  o.run.model.layers = 1;
  o.run.model.d_model = 16;
  o.run.model.heads = 2;
  o.run.course.steps = 24;
  o.run.course.report_every = 2;
  o.run.course.eval_every = 4;
  o.run.course.save_every = 5;
  return o;
}

struct StopsBehind final : TrainingObserver {
  bool stops() override { return steps >= stop_after; }
  void stepped(const StepReport& report, double /*per_second*/) override { steps = report.step; }
  std::size_t stop_after = 1000;
  std::size_t steps = 0;
};

// Without the seconds, which never go back.
std::vector<json> lines_of(const std::filesystem::path& out) {
  std::ifstream file(out / "metrics.jsonl");
  std::vector<json> lines;
  double last = 0.0;
  for (std::string text; std::getline(file, text);) {
    json line = json::parse(text);
    EXPECT_GE(line["seconds"].get<double>(), last);
    last = line["seconds"];
    line.erase("seconds");
    lines.push_back(line);
  }
  return lines;
}

TEST(MetricsLog, HasEveryReportAndEvaluation) {
  const testing::TemporaryDirectory scratch;
  StopsBehind all;
  const TrainingResult result = TrainingRun(options(scratch / "run")).run(all);
  const std::vector<json> lines = lines_of(scratch / "run");
  ASSERT_EQ(lines.size(), 12U + 6U);
  EXPECT_EQ(lines[0]["step"], 2);
  EXPECT_GT(lines[0]["learning_rate"], 0.0);
  EXPECT_EQ(lines[2]["step"], 4);
  EXPECT_EQ(lines[2]["validation_loss"], result.judged[0].judgement.loss());
  EXPECT_TRUE(lines[2].contains("validation_accuracy"));
  EXPECT_EQ(lines[16]["loss"], result.last.loss);
  EXPECT_EQ(lines[17], to_json(result.judged.back()));
}

// Stopped anywhere, also in an evaluation, and with lines behind the checkpoint as a kill leaves
// them, the last of them cut off.
TEST(MetricsLog, AResumedRunHasTheLinesOfAWholeOne) {
  const testing::TemporaryDirectory scratch;
  StopsBehind all;
  TrainingRun(options(scratch / "whole")).run(all);
  for (const std::size_t stop : {1, 3, 4, 8, 11, 13}) {
    const auto out = scratch / std::to_string(stop);
    TrainingOptions o = options(out);
    StopsBehind early;
    early.stop_after = stop;
    TrainingRun(o).run(early);
    std::ofstream(out / "metrics.jsonl", std::ios::app)
        << R"({"step":14,"loss":1,"seconds":9})" << '\n'
        << R"({"step":16,"lo)";
    o.resume = true;
    StopsBehind rest;
    TrainingRun(o).run(rest);
    EXPECT_EQ(lines_of(out), lines_of(scratch / "whole")) << stop;
  }
}

TEST(MetricsLog, AnEvaluationThatIsDueIsWrittenOnce) {
  const testing::TemporaryDirectory scratch;
  const std::string steps = R"({"step":3,"loss":1,"seconds":1})"
                            "\n"
                            R"({"step":4,"loss":1,"seconds":2})"
                            "\n";
  const std::string judged = R"({"step":4,"validation_loss":1,"seconds":3})"
                             "\n";
  for (const bool due : {false, true}) {
    testing::write_bytes(scratch / "metrics.jsonl", steps + judged);
    MetricsLog log(scratch / ".", 4, due);
    EXPECT_EQ(testing::read_bytes(scratch / "metrics.jsonl"), due ? steps : steps + judged);
  }
}

TEST(MetricsLog, ReplacesThatOfAnotherRunAndRefusesWhatIsNone) {
  const testing::TemporaryDirectory scratch;
  testing::write_bytes(scratch / "metrics.jsonl", "of another\n");
  const std::string path = (scratch / "metrics.jsonl").string();
  EXPECT_EQ(message_of([&] { MetricsLog(scratch / ".", 4, false); }),
            "[train] " + (scratch / "." / "metrics.jsonl").string() +
                ", line 1: of another; need a line of metrics, or move the file away");
  MetricsLog fresh(scratch / ".", 0, false);
  EXPECT_EQ(testing::read_bytes(path), "");
}

}  // namespace metrics_log_test
}  // namespace longspan
