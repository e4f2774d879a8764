// longspan compare-worker: one mechanism at one length, measured in a process of its own. It is
// started by longspan compare and answers on stdout, line by line.
//
//   {settings, attention, length, roofline}  →  {held, resident} after the first pass
//   round                                    →  {seconds, kinds} of one sample
//   error                                    →  {output, gradient} against exact attention
//
// What goes wrong is answered with {failed: why}.
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"
#include "compare_source.h"
#include "longspan/base/error.h"
#include "longspan/base/parallel.h"
#include "longspan/base/resident.h"
#include "longspan/compare/approximation.h"
#include "longspan/compare/compare_case.h"
#include "longspan/compare/kind_times.h"
#include "longspan/io/json_file.h"
#include "longspan/io/record_json.h"
#include "longspan/predict/sampling.h"
#include "longspan/predict/verification.h"

namespace longspan::cli {

namespace {

// A single thread stays where it is; several are placed by OMP_PROC_BIND, which the parent sets.
void pin_single_thread() {
  if (thread_count() > 1) return;
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(static_cast<unsigned>(sched_getcpu()), &own);
  sched_setaffinity(0, sizeof(own), &own);
}

class Worker {
 public:
  explicit Worker(const nlohmann::json& order) {
    const RecordPlace place{"[compare-worker]", ""};
    read_record(place.in("settings"), order.at("settings"), case_.settings);
    read_record(place.in("attention"), order.at("attention"), case_.attention);
    read_record(place.in("length"), order.at("length"), case_.length);
    read_record(place.in("roofline"), order.at("roofline"), roofline_);
  }

  nlohmann::json start() {
    set_thread_count(static_cast<int>(case_.settings.threads));
    pin_single_thread();
    warm_up_process();
    const std::size_t before = resident_bytes();
    run_ = std::make_unique<CaseRun>(case_);
    run_->pass();
    const std::size_t peak = std::max(peak_resident_bytes(), before);
    return {{"held", run_->held_bytes()}, {"resident", peak - before}};
  }

  nlohmann::json round() {
    if (calls_ == 0) {  // the first pass found its memory untouched; the second counts
      const double start = stopwatch_seconds();
      run_->pass();
      const double once = std::max(stopwatch_seconds() - start, 1e-9);
      calls_ = static_cast<std::size_t>(std::clamp(std::ceil(kLeastSeconds / once), 1.0, 1e5));
    }
    Meter meter;
    const Meter::Use use(meter);
    meter.time_laps();
    const double start = stopwatch_seconds();
    for (std::size_t i = 0; i < calls_; ++i) run_->pass();
    const double seconds = (stopwatch_seconds() - start) / static_cast<double>(calls_);
    std::vector<KindTime> kinds = kind_times(meter.laps(), roofline_, seconds);
    for (KindTime& kind : kinds) {
      kind.flops /= calls_;
      kind.bytes /= calls_;
    }
    return {{"seconds", seconds}, {"kinds", record_to_json(kinds)}};
  }

  nlohmann::json error() {
    run_ = nullptr;
    if (case_.settings.inputs == "random") {
      AttentionCase c = case_.alone(kErrorHeads);
      c.backward = true;
      AttentionTensors tensors = random_tensors(c, case_.settings.seed);
      return record_to_json(approximation_error(c, tensors));
    }
    CapturedAttention captured = capture_source(case_.settings.inputs, case_.length);
    captured.shape.attention = case_.attention;
    captured.shape.causal = case_.settings.causal;
    captured.shape.backward = true;
    return record_to_json(approximation_error(captured.shape, captured.tensors));
  }

 private:
  static constexpr double kLeastSeconds = 2e-3;

  CompareCase case_;
  CompareRoofline roofline_;
  std::unique_ptr<CaseRun> run_;
  std::size_t calls_ = 0;
};

template <class Body>
void answer(Body body) {
  nlohmann::json reply;
  try {
    reply = body();
  } catch (const std::bad_alloc&) {
    reply = {{"failed", "the machine refused more memory"}};
  } catch (const std::exception& e) {
    reply = {{"failed", e.what()}};
  }
  std::cout << reply << std::endl;
}

void run() {
  std::string line;
  std::getline(std::cin, line);
  Worker worker(parse_json("[compare-worker]", line));
  answer([&] { return worker.start(); });
  while (std::getline(std::cin, line)) {
    answer([&] { return line == "round" ? worker.round() : worker.error(); });
  }
}

}  // namespace

void add_compare_worker(CLI::App& app) {
  CLI::App* command = app.add_subcommand("compare-worker", "Measures for longspan compare");
  command->group("");
  command->callback([] { run(); });
}

}  // namespace longspan::cli
