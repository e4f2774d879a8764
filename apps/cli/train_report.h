// What train says: how a run goes, and what came of it.
#pragma once

#include <stdexcept>
#include <string>

#include "command.h"
#include "longspan/training/training_run.h"
#include "progress.h"

namespace longspan::cli {

// Shows how a run goes, on stderr.
class Showing final : public TrainingObserver {
 public:
  Showing(const TrainingRun& run, bool quiet);

  bool stops() override;
  void stepped(const StepReport& report, double per_second) override;
  void judged(const JudgedStep& judged) override;
  void aligned(const AlignedStep& aligned) override;

 private:
  std::string rule_;
  std::string unit_;
  Progress progress_;
};

// Of a run that diverged, when all else is said: the program ends with 1.
struct Diverged : std::runtime_error {
  Diverged(const Divergence& divergence, std::uint64_t saved, const std::string& out);
};

// On stderr: what is trained, and from where and how it goes on.
void report_beginning(const TrainingRun& run, const std::string& out);
// Of a run that had nothing left to do.
void report_done(const TrainingRun& run, const std::string& out, const Common& common);
void report_result(const TrainingRun& run, const TrainingResult& result, const std::string& out,
                   const Common& common);

}  // namespace longspan::cli
