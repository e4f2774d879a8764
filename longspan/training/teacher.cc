#include "longspan/training/teacher.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "longspan/base/error.h"

namespace longspan {

namespace {

// log Σ eˣ
double log_of_sum(std::span<const float> x) {
  const double most = *std::ranges::max_element(x);
  double sum = 0.0;
  for (const float value : x) sum += std::exp(value - most);
  return std::log(sum) + most;
}

std::size_t hidden_width(const ModelConfig& c) {
  return c.streams == StreamEnd::kConcat ? 2 * c.d_model : c.d_model;
}

void keep(ConstMatrix from, std::vector<float>& to) {
  to.resize(from.size());
  for (std::size_t r = 0; r < from.rows; ++r) {
    std::ranges::copy(from.row(r), to.begin() + static_cast<std::ptrdiff_t>(r * from.cols));
  }
}

}  // namespace

Teacher::Teacher(const std::filesystem::path& directory, const RunConfig& student)
    : run_(load_run(directory)) {
  const RunConfig& own = run_.config;
  const std::string name = directory.string();
  require(own.data.task == student.data.task,
          "[teacher] {} was trained on {}; need a teacher of {}", name, own.data.task,
          student.data.task);
  require(
      own.vocabulary == student.vocabulary && own.model.vocab == student.model.vocab &&
          own.model.outputs() == student.model.outputs() &&
          own.model.inputs == student.model.inputs,
      "[teacher] {} reads {} tokens of its own vocabulary and answers with one of {}; need those "
      "of the student, {} and {}",
      name, own.model.vocab, own.model.outputs(), student.model.vocab, student.model.outputs());
  require(own.classes.empty() || student.classes.empty() || own.classes == student.classes,
          "[teacher] {} knows classes of other names; need those of the student", name);
  require(own.model.max_length >= student.model.max_length,
          "[teacher] {} takes at most {} tokens; need as many as the student, {}", name,
          own.model.max_length, student.model.max_length);
  shows_states_ = Model(student.model).loss().reads_states();
  require(
      !shows_states_ || hidden_width(own.model) == hidden_width(student.model),
      "[teacher] {} has hidden states of width {} and the student of {}; need the same width, or "
      "--hidden-weight 0",
      name, hidden_width(own.model), hidden_width(student.model));
}

void Teacher::teach(Batch& batch, BatchMemory& memory) {
  const Model::Outputs outputs = run_.model->outputs(batch);
  keep(outputs.logits, memory.teacher_scores);
  batch.teacher_scores = memory.teacher_scores;
  if (!shows_states_) return;
  keep(outputs.states, memory.teacher_states);
  batch.teacher_states = memory.teacher_states;
}

Work Teacher::work(const Batch& shape) const {
  Work work;
  for (const auto& [layer, cost] : run_.model->cost(shape, /*training=*/false)) {
    work += cost.forward;
  }
  return work;
}

void Closeness::add(const Batch& batch, ConstMatrix scores) {
  const ConstMatrix teacher{batch.teacher_scores.data(), scores.rows, scores.cols};
  for (std::size_t r = 0; r < scores.rows; ++r) {
    if (batch.targets[r] == kIgnoredTarget) continue;
    const auto s = scores.row(r);
    const auto t = teacher.row(r);
    const double all_s = log_of_sum(s);
    const double all_t = log_of_sum(t);
    for (std::size_t j = 0; j < s.size(); ++j) {
      const double log_p = t[j] - all_t;
      divergence += std::exp(log_p) * (log_p - (s[j] - all_s));
    }
    ++counted;
    const auto best_s = std::ranges::max_element(s) - s.begin();
    agreed += best_s == std::ranges::max_element(t) - t.begin() ? 1 : 0;
  }
}

std::vector<Metric> Closeness::metrics() const {
  const auto count = static_cast<double>(std::max<std::size_t>(1, counted));
  const double mean = divergence / count;
  const double share = static_cast<double>(agreed) / count;
  return {
      {"teacher_kl", mean, fmt::format("{:.4f} nats, KL(teacher ‖ model)", mean)},
      {"teacher_agreement", share, fmt::format("{:.2f} % have the same likeliest", 100 * share)}};
}

}  // namespace longspan
