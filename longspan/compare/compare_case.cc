#include "longspan/compare/compare_case.h"

#include <algorithm>
#include <cmath>

#include "longspan/base/error.h"
#include "longspan/base/parallel.h"
#include "longspan/predict/predict.h"
#include "longspan/predict/quantities.h"

namespace longspan {

namespace {

// A process starts and draws this many weights in a second on one thread.
constexpr double kStartSeconds = 0.12;
constexpr double kWeightsPerSecond = 5e8;

Batch shape_of(const CompareCase& c) { return {.batch = c.settings.batch, .length = c.length}; }

// What training keeps beside the weights: gradients and the optimiser's averages, in blocks of as
// many numbers as are learned.
double training_blocks(const CompareCase& c) {
  if (!c.trains()) return 0.0;
  return 1.0 + static_cast<double>(Optimizer::state_blocks(TrainConfig{}.optimizer.kind));
}

Purpose purpose_of(const CompareCase& c) {
  return c.trains() ? Purpose::kTraining : Purpose::kInference;
}

CompareWork sum(const Cost& cost, bool trains) {
  Work work = cost.forward;
  if (trains) work += cost.backward + cost.update;
  return {work.maccs, work.flops(), 0};
}

void predict_model(const Calibration& calibration, const CompareCase& c, CasePrediction& p) {
  Model model(c.model());
  if (!c.trains()) model.pack();
  const Batch shape = shape_of(c);
  Cost cost;
  for (const auto& [layer, part] : model.cost(shape, c.trains())) cost += part;
  p.work = sum(cost, c.trains());
  const TimePrediction time = c.trains()
                                  ? predict_step(calibration, model, shape, TrainConfig{}.optimizer)
                                  : predict_forward(calibration, model, shape);
  p.time.predicted = time.seconds;
  p.time.low = time.low;
  p.time.high = time.high;
  p.parameters = model.parameters().count();
  const auto learned = static_cast<double>(p.parameters);
  const auto weights = 4.0 * static_cast<double>(model.parameters().total());
  const auto arena =
      static_cast<double>(c.trains() ? model.training_bytes(shape) : model.inference_bytes(shape));
  p.memory.parameters = weights;
  p.memory.predicted = weights + 4.0 * learned * training_blocks(c) + arena;
  if (model.decodes()) p.state = static_cast<double>(model.cache_bytes(1, c.length));
}

// Without the closing factor of whole models.
double alone_seconds(const Calibration& calibration, const AttentionCase& a,
                     const AttentionSizes& sizes) {
  const auto queries = static_cast<double>(a.rows() * a.heads);
  const auto seconds = [&](Phase phase, const Work& work) {
    return seconds_of(calibration,
                      {.rate = attention_rate(a.attention, phase),
                       .layer = std::string(MultiHeadAttention::kMeter),
                       .phase = phase,
                       .x = attention_quantities(queries, work),
                       .maccs = work.maccs},
                      static_cast<double>(sizes.bytes));
  };
  double total = seconds(Phase::kForward, sizes.cost.forward);
  if (a.backward) total += seconds(Phase::kBackward, sizes.cost.backward + sizes.cost.update);
  return total;
}

void predict_alone(const Calibration& calibration, const CompareCase& c, CasePrediction& p) {
  const AttentionCase a = c.alone();
  const AttentionSizes sizes = attention_sizes(a);
  const double seconds = alone_seconds(calibration, a, sizes);
  const Rates& rates = calibration.rates.at(attention_rate(a.attention, Phase::kForward));
  const double factor = std::exp(std::max(0.1, 1.64 * rates.error));
  p.time.predicted = seconds;
  p.time.low = seconds / factor;
  p.time.high = seconds * factor;
  p.memory.parameters = 4.0 * static_cast<double>(sizes.parameters + sizes.constants);
  p.memory.predicted = static_cast<double>(sizes.bytes);
  p.work = sum({sizes.cost.forward, sizes.cost.backward, sizes.cost.update}, c.trains());
  p.parameters = sizes.parameters;
}

}  // namespace

ModelConfig CompareCase::model() const {
  ModelConfig m;
  m.family = settings.causal ? Family::kDecoder : Family::kEncoder;
  m.layers = settings.layers;
  m.d_model = settings.d_model;
  m.heads = settings.heads;
  m.d_ff = settings.d_ff;
  m.max_length = length;
  m.attention = attention;
  return m;
}

AttentionCase CompareCase::alone(std::size_t heads) const {
  return {.attention = attention,
          .batch = settings.batch,
          .length = length,
          .heads = heads == 0 ? settings.heads : std::min<std::size_t>(heads, settings.heads),
          .d_head = settings.d_model / settings.heads,
          .causal = settings.causal,
          .backward = trains()};
}

CasePrediction predict_case(const Calibration& calibration, const CompareCase& c) {
  CasePrediction p;
  try {
    if (c.settings.bare) {
      predict_alone(calibration, c, p);
    } else {
      attention_sizes(c.alone());  // says what it cannot do
      predict_model(calibration, c, p);
    }
  } catch (const Error& e) {
    p.refused = e.what();
    return p;
  }
  const double drawn = p.memory.parameters.value_or(0.0) / 4.0 +
                       (c.settings.bare ? 4.0 * static_cast<double>(c.alone().rows()) *
                                              static_cast<double>(c.alone().width())
                                        : 0.0);
  p.building = kStartSeconds + drawn / (kWeightsPerSecond * thread_count());
  return p;
}

std::uint64_t parameters_added(const CompareCase& c) {
  if (c.settings.bare) return attention_sizes(c.alone()).parameters;
  CompareCase plain = c;
  plain.attention = "flash";
  const auto count = [](const CompareCase& which) {
    return Model(which.model()).parameters().count();
  };
  const std::size_t own = count(c);
  const std::size_t others = count(plain);
  return own > others ? own - others : 0;
}

double predict_error_seconds(const Calibration& calibration, const CompareCase& c) {
  AttentionCase a = c.alone(kErrorHeads);
  a.backward = true;
  double seconds = 0.0;
  for (const std::string& attention : {c.attention, std::string("flash")}) {
    a.attention = attention;
    seconds += alone_seconds(calibration, a, attention_sizes(a));
  }
  const double drawn = 5.0 * static_cast<double>(a.rows() * a.width());
  return seconds + drawn / (kWeightsPerSecond * thread_count());
}

CaseRun::CaseRun(const CompareCase& c) : case_(c) {
  if (!c.settings.bare) {
    model_ = std::make_unique<ModelRun>(c.model(), c.shape(), purpose_of(c));
    return;
  }
  tensors_ = random_tensors(c.alone(), c.settings.seed);
  attention_ = std::make_unique<AttentionRun>(c.alone(), tensors_);
}

void CaseRun::pass() {
  if (attention_ != nullptr) return attention_->run();
  if (case_.trains()) {
    model_->step();
  } else {
    model_->forward();
  }
}

std::size_t CaseRun::held_bytes() const {
  if (attention_ != nullptr) {
    const AttentionSizes sizes = attention_sizes(case_.alone());
    const std::size_t booked =
        case_.trains() ? std::max(sizes.cost.forward_scratch, sizes.cost.backward_scratch)
                       : sizes.cost.forward_scratch;
    return sizes.bytes - booked + attention_->arena_peak();
  }
  const Parameters& parameters = model_->model().parameters();
  const auto blocks = static_cast<std::size_t>(training_blocks(case_));
  return sizeof(float) * (parameters.total() + blocks * parameters.count()) +
         model_->model().arena().peak();
}

}  // namespace longspan
