#include "train_report.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "longspan/base/memory.h"
#include "longspan/base/resident.h"
#include "stop.h"

namespace longspan::cli {

namespace {

nlohmann::json validations(const TrainingResult& result) {
  nlohmann::json all = nlohmann::json::array();
  for (const JudgedStep& judged : result.judged) all.push_back(to_json(judged));
  return all;
}

nlohmann::json alignments(const TrainingResult& result) {
  nlohmann::json all = nlohmann::json::array();
  for (const AlignedStep& aligned : result.aligned) {
    nlohmann::json by_parameter = nlohmann::json::object();
    for (const Alignment& a : aligned.parameters) {
      by_parameter[a.parameter] = {{"cosine", a.cosine}, {"norm_ratio", a.ratio}};
    }
    all.push_back({{"step", aligned.step},
                   {"mean_cosine", aligned.mean_cosine},
                   {"parameters", by_parameter}});
  }
  return all;
}

void print_json(const TrainingRun& run, const TrainingResult& result, const std::string& out) {
  const Work work = run.step_work();
  const bool stepped = result.last.tokens > 0;
  nlohmann::json json = {{"checkpoint", out},
                         {"step", result.saved},
                         {"steps", run.steps()},
                         {"loss", stepped ? nlohmann::json(result.last.loss) : nlohmann::json()},
                         {"rule", run.config().train.rule},
                         {"diverged", result.divergence.has_value()},
                         {"interrupted", result.interrupted},
                         {"out_of_patience", result.out_of_patience},
                         {"out_of_time", result.out_of_time},
                         {"seconds", result.seconds},
                         {fmt::format("{}_per_second", run.task().unit()), result.per_second},
                         {"parameters", run.model().parameters().total()},
                         {"trained", run.model().parameters().count()},
                         {"maccs_per_step", work.maccs},
                         {"flops_per_step", work.flops()},
                         {"peak_resident_bytes", peak_resident_bytes()},
                         {"validation", validations(result)}};
  if (const Teacher* teacher = run.teacher()) {
    const Work taught = run.teacher_work();
    json["teacher"] = {{"checkpoint", run.config().teacher.directory},
                       {"step", teacher->run().step},
                       {"maccs_per_step", taught.maccs},
                       {"flops_per_step", taught.flops()}};
  }
  if (result.divergence) {
    json["divergence"] = {{"step", result.divergence->step},
                          {"in", result.divergence->in.name()},
                          {"layer", result.divergence->layer}};
  }
  for (const RunChange& change : run.changes()) {
    json["changes"][change.name] = {{"before", change.before}, {"after", change.after}};
  }
  if (!result.aligned.empty()) json["alignment"] = alignments(result);
  if (result.patience.best) {
    json["best"] = {{"step", result.patience.best_step}, {"loss", *result.patience.best}};
  }
  fmt::print("{}\n", json.dump(2));
}

void print_text(const TrainingRun& run, const TrainingResult& result, const std::string& out) {
  const std::uint64_t step = result.last.step;
  if (result.interrupted || result.out_of_time) {
    fmt::print("stopped at step {}{}; go on with: longspan train {} --out {} --resume\n", step,
               result.out_of_time ? ", out of time" : "", run.task().name(), for_shell(out));
  }
  if (result.out_of_patience) {
    const std::string best = result.patience.best
                                 ? fmt::format("that of step {} ({:.4f})",
                                               result.patience.best_step, *result.patience.best)
                                 : std::string("none, with no finite loss");
    fmt::print("stopped at step {}: {} validations were no better than {}\n", step,
               result.patience.waited, best);
  }
  fmt::print("checkpoint of step {} in {} ({} at {:.0f} {}/s)\n", result.saved, out,
             human_seconds(result.seconds), result.per_second, run.task().unit());
}

}  // namespace

Showing::Showing(const TrainingRun& run, bool quiet)
    : rule_(run.config().train.rule),
      unit_(run.task().unit()),
      progress_(run.steps(), run.first_step(), quiet) {}

bool Showing::stops() { return StopGuard::signal() != 0; }

void Showing::stepped(const StepReport& report, double per_second) {
  progress_.update(report.step, fmt::format("loss {:.4f}  {:.0f} {}/s  {}", report.loss, per_second,
                                            unit_, format_bytes(resident_bytes())));
}

void Showing::judged(const JudgedStep& judged) {
  progress_.note(fmt::format("step {}: {} {}", judged.step, name_of(judged.judgement.split),
                             judged.judgement.line));
}

void Showing::aligned(const AlignedStep& aligned) {
  progress_.note(fmt::format("step {}: cos(ΔW_{}, ΔW_bp), mean over the matrices {:.4f}",
                             aligned.step, rule_, aligned.mean_cosine));
  for (const Alignment& a : aligned.parameters) {
    progress_.note(
        fmt::format("  {:<40} {:>8.4f}   norm × {:.3g}", a.parameter, a.cosine, a.ratio));
  }
}

Diverged::Diverged(const Divergence& divergence, std::uint64_t saved, const std::string& out)
    : runtime_error(fmt::format("[train] diverged at step {}: {}; {} keeps the checkpoint of "
                                "step {}",
                                divergence.step, divergence.text(), out, saved)) {}

void report_beginning(const TrainingRun& run, const std::string& out) {
  const std::size_t all = run.model().parameters().total();
  const std::size_t trained = run.model().parameters().count();
  fmt::print(stderr,
             "{}; {} parameters{}; weights, gradients and optimiser {}; activations {} ({})\n",
             run.task().describe(), all, trained == all ? "" : fmt::format(", {} trained", trained),
             format_bytes(run.weight_bytes()), format_bytes(run.activation_bytes()),
             run.config().train.rule);
  if (const Teacher* teacher = run.teacher()) {
    fmt::print(stderr,
               "teacher {}: step {}, {} parameters; its forward pass of a step takes {:.3g} FLOPs "
               "beside {:.3g} of the student's\n",
               run.config().teacher.directory, teacher->run().step,
               teacher->run().model->parameters().total(),
               static_cast<double>(run.teacher_work().flops()),
               static_cast<double>(run.step_work().flops()));
  }
  if (run.first_step() > 0) {
    fmt::print(stderr, "resuming {} at step {} of {}\n", out, run.first_step(), run.steps());
  }
  for (const RunChange& change : run.changes()) {
    fmt::print(stderr, "from now on {} {} instead of {}\n", change.name, change.after,
               change.before);
  }
}

void report_done(const TrainingRun& run, const std::string& out, const Common& common) {
  if (common.json) {
    TrainingResult nothing;
    nothing.saved = run.first_step();
    return print_json(run, nothing, out);
  }
  fmt::print("{} is at step {}, and {} were asked for; a larger --steps goes on\n", out,
             run.first_step(), run.steps());
}

void report_result(const TrainingRun& run, const TrainingResult& result, const std::string& out,
                   const Common& common) {
  if (common.json) {
    print_json(run, result, out);
  } else {
    print_text(run, result, out);
  }
}

}  // namespace longspan::cli
