#include "compare_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>

#include "child_process.h"
#include "longspan/io/json_file.h"
#include "longspan/io/record_json.h"
#include "longspan/predict/sampling.h"
#include "stop.h"

namespace longspan::cli {

namespace {

using Clock = std::chrono::steady_clock;

// A single answer may take this much longer than all that was planned before it is given up.
constexpr std::chrono::seconds kPatience{20};

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A point that is being measured.
struct Running {
  const PlannedPoint* planned = nullptr;
  ComparePoint point;
  std::unique_ptr<ChildProcess> process;
  Samples samples;
  std::vector<std::pair<double, std::vector<KindTime>>> kinds;  // of each round

  bool alive() const { return process != nullptr; }
};

class Comparison {
 public:
  Comparison(const ComparePlan& plan, const CompareRun& options)
      : plan_(plan), options_(options), progress_(1000, 0, options.quiet) {
    last_answer_ = Clock::now() + kPatience +
                   std::chrono::duration_cast<Clock::duration>(
                       std::chrono::duration<double>(2.0 * options.deadline));
  }

  bool run();

 private:
  void run_length(std::uint64_t length);
  void run_group(std::vector<Running*>& group);
  bool start(Running& r);
  void round(Running& r);
  void error(Running& r);
  nlohmann::json ask(Running& r, const std::string& question);
  void show(const Running& r, const char* what, double planned_seconds);

  const ComparePlan& plan_;
  const CompareRun& options_;
  Progress progress_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_answer_;
  double planned_ = 0.0;  // seconds of the plan that lie behind
};

void Comparison::show(const Running& r, const char* what, double planned_seconds) {
  planned_ += planned_seconds;
  // As slow as so far, once there is something to judge by.
  constexpr double kTelling = 3.0;
  const double pace = planned_ > kTelling ? since(start_) / planned_ : 1.0;
  const double share = std::min(1.0, planned_ / std::max(plan_.seconds, 1e-9));
  progress_.update_share(
      share, pace * std::max(0.0, plan_.seconds - planned_),
      fmt::format("{} n = {} {}", r.planned->what.attention, r.planned->what.length, what));
}

// What goes wrong in a process becomes the reason of its point.
nlohmann::json Comparison::ask(Running& r, const std::string& question) {
  nlohmann::json reply;
  try {
    r.process->send(question);
    reply = parse_json("[compare]", r.process->receive(last_answer_));
  } catch (const Interrupted&) {
    throw;
  } catch (const std::bad_alloc&) {  // refused to this process, which says so
    throw;
  } catch (const std::exception& e) {
    reply = {{"failed", e.what()}};
  }
  if (reply.contains("failed")) {
    r.point.status = PointStatus::kFailed;
    r.point.reason = reply["failed"];
    r.process = nullptr;
  }
  return reply;
}

bool Comparison::start(Running& r) {
  const PlannedPoint& p = *r.planned;
  if (since(start_) > options_.deadline) {
    r.point.status = PointStatus::kSkipped;
    r.point.reason = "the budget was used up";
    return false;
  }
  show(r, "starts", 0.0);
  r.process = std::make_unique<ChildProcess>(
      std::vector<std::string>{"compare-worker"},
      std::vector<std::string>{"OMP_PROC_BIND=true", "OMP_PLACES=threads"});
  const nlohmann::json order = {{"settings", record_to_json(p.what.settings)},
                                {"attention", p.what.attention},
                                {"length", p.what.length},
                                {"roofline", record_to_json(options_.roofline)}};
  const nlohmann::json reply = ask(r, order.dump());
  show(r, "started", p.prediction.building + *p.prediction.time.predicted);
  if (!r.alive()) return false;
  r.point.memory->measured = reply.at("held").get<double>();
  r.point.memory->resident = reply.at("resident").get<double>();
  return true;
}

void Comparison::round(Running& r) {
  const nlohmann::json reply = ask(r, "round");
  show(r, "measured", *r.planned->prediction.time.predicted);
  if (!r.alive()) return;
  const double seconds = reply.at("seconds");
  r.samples.seconds.push_back(seconds);
  read_record({"[compare]", "kinds"}, reply.at("kinds"), r.kinds.emplace_back(seconds, 0).second);
}

void Comparison::error(Running& r) {
  show(r, "against exact attention", 0.0);
  const nlohmann::json reply = ask(r, "error");
  if (r.alive()) {
    read_record({"[compare]", "error"}, reply, r.point.error.emplace());
  } else {  // the time stands all the same
    r.point.status = PointStatus::kOk;
    r.point.reason = fmt::format("error not measured: {}", r.point.reason);
  }
}

// The median round speaks for the point.
void finish(Running& r) {
  if (r.samples.seconds.empty() || r.point.status == PointStatus::kFailed) return;
  r.point.status = PointStatus::kOk;
  r.point.reason.clear();
  std::ranges::sort(r.samples.seconds);
  std::ranges::sort(r.kinds, {}, [](const auto& k) { return k.first; });
  r.point.kinds = r.kinds[r.kinds.size() / 2].second;
  r.point.time->measured = r.samples.median();
  r.point.time->spread_low = r.samples.quantile(0.25);
  r.point.time->spread_high = r.samples.quantile(0.75);
  r.point.time->rounds = r.samples.seconds.size();
  std::uint64_t bytes = 0;
  for (const KindTime& k : *r.point.kinds) bytes += k.bytes;
  r.point.work->bytes = bytes;
}

void Comparison::run_group(std::vector<Running*>& group) {
  std::uint64_t rounds = 0;
  for (const Running* r : group) rounds = std::max(rounds, r->planned->rounds);
  try {
    for (std::uint64_t i = 0; i < rounds; ++i) {
      if (i > 0 && since(start_) > options_.deadline) break;
      for (Running* r : group) {
        if (r->alive() && i < r->planned->rounds) round(*r);
      }
    }
    for (Running* r : group) finish(*r);
    for (Running* r : group) {
      if (r->alive()) error(*r);
    }
  } catch (const Interrupted&) {
    for (Running* r : group) finish(*r);
    throw;
  }
  for (Running* r : group) r->process = nullptr;
  group.clear();
}

void Comparison::run_length(std::uint64_t length) {
  std::vector<Running> all;
  for (const PlannedPoint& p : plan_.points) {
    if (p.what.length == length && p.measured) {
      all.push_back({&p, predicted_point(p), nullptr, {}, {}});
    }
  }
  const auto deliver = [&] {
    std::vector<ComparePoint> points;
    for (const Running& r : all) points.push_back(r.point);
    if (!points.empty()) options_.done(points);
  };
  try {
    std::vector<Running*> group;
    double held = 0.0;
    for (Running& r : all) {
      const double bytes = *r.planned->prediction.memory.predicted;
      if (!group.empty() && held + bytes > options_.memory) {
        run_group(group);
        held = 0.0;
      }
      if (!start(r)) continue;
      group.push_back(&r);
      held += bytes;
    }
    run_group(group);
  } catch (const Interrupted&) {
    deliver();
    throw;
  }
  deliver();
}

bool Comparison::run() {
  const StopGuard guard;
  try {
    for (const std::uint64_t length : plan_.lengths) run_length(length);
  } catch (const Interrupted&) {
    progress_.note("interrupted: what was measured is kept");
    return false;
  }
  return true;
}

}  // namespace

ComparePoint predicted_point(const PlannedPoint& planned) {
  ComparePoint p;
  p.mechanism = planned.what.attention;
  p.length = planned.what.length;
  p.status = planned.status.value_or(PointStatus::kSkipped);
  p.reason = planned.status ? planned.reason : "not reached";
  if (planned.status == PointStatus::kRefused) return p;
  p.time = planned.prediction.time;
  p.memory = planned.prediction.memory;
  p.work = planned.prediction.work;
  return p;
}

bool run_comparison(const ComparePlan& plan, const CompareRun& options) {
  return Comparison(plan, options).run();
}

}  // namespace longspan::cli
