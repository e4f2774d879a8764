#include "tests/vectors/golden_events.h"

#include "longspan/base/error.h"
#include "longspan/kernels/rows/published_events.h"

namespace longspan::golden {

namespace {

// The three heads of the reference as one, [2K + 1, d_model].
struct PublishedHeads {
  explicit PublishedHeads(const SafetensorsFile& weights) {
    for (const char* name :
         {"linear.weight", "type_predictor.linear.weight", "time_predictor.linear.weight"}) {
      const std::vector<double> more = weights.doubles(name);
      weight.insert(weight.end(), more.begin(), more.end());
    }
    bias = weights.doubles("linear.bias");
    types = bias.size();
    bias.resize(published_scores(types), 0.0);
  }
  std::size_t width() const { return weight.size() / bias.size(); }

  std::vector<double> weight;
  std::vector<double> bias;
  std::size_t types = 0;
};

// s = h·Wᵀ + b
std::vector<float> scores_of(const PublishedHeads& heads, std::span<const double> states) {
  const std::size_t width = heads.width();
  std::vector<float> scores;
  for (std::size_t at = 0; at < states.size(); at += width) {
    for (std::size_t o = 0; o < heads.bias.size(); ++o) {
      double sum = heads.bias[o];
      for (std::size_t i = 0; i < width; ++i) sum += states[at + i] * heads.weight[o * width + i];
      scores.push_back(static_cast<float>(sum));
    }
  }
  return scores;
}

std::vector<float> one(double value) { return {static_cast<float>(value)}; }

// Through the heads: ∂L/∂h, ∂L/∂W and ∂L/∂b.
void compare_gradients(const PublishedHeads& heads, std::span<const double> states,
                       std::span<const float> d, Comparison& comparison) {
  const std::size_t width = heads.width();
  const std::size_t outputs = heads.bias.size();
  std::vector<float> to_states(states.size());
  std::vector<double> to_weight(heads.weight.size());
  std::vector<double> to_bias(outputs);
  for (std::size_t row = 0; row < states.size() / width; ++row) {
    std::vector<double> back(width);
    for (std::size_t o = 0; o < outputs; ++o) {
      const double g = d[row * outputs + o];
      to_bias[o] += g;
      for (std::size_t i = 0; i < width; ++i) {
        back[i] += g * heads.weight[o * width + i];
        to_weight[o * width + i] += g * states[row * width + i];
      }
    }
    for (std::size_t i = 0; i < width; ++i)
      to_states[row * width + i] = static_cast<float>(back[i]);
  }
  const std::vector<float> weight(to_weight.begin(), to_weight.end());
  const auto rows = [&](std::size_t first, std::size_t count) {
    return std::span(weight).subspan(first * width, count * width);
  };
  const std::size_t types = heads.types;
  comparison.gradient("grad.enc_output", to_states);
  comparison.gradient("grad.linear.weight", rows(0, types));
  comparison.gradient("grad.type_predictor.linear.weight", rows(types, types));
  comparison.gradient("grad.time_predictor.linear.weight", rows(2 * types, 1));
  const std::vector<float> bias(to_bias.begin(), to_bias.begin() + static_cast<long>(types));
  comparison.gradient("grad.linear.bias", bias);
}

}  // namespace

// From the states of the reference on: its encoder ends in an LSTM, which this build has not.
void run_published_events(const Case& golden, Comparison& comparison) {
  comparison.begin("events-published");
  const SafetensorsFile weights = golden.weights();
  const PublishedHeads heads(weights);
  const std::vector<double> states = golden.file().doubles("enc_output64");
  std::vector<float> scores = scores_of(heads, states);
  const auto times = golden.file().floats("event_time");
  const auto uniform = golden.file().floats("mc_uniform");
  const auto lengths = golden.integers("lengths");
  std::vector<std::int32_t> types = golden.integers("event_type");
  for (std::int32_t& type : types) --type;  // 0 is padding there
  const std::size_t batch = lengths.size();
  const PublishedRows rows{batch, times.size() / batch, types, times, lengths, uniform};
  const PublishedHawkes model{.alpha = weights.doubles("alpha").front(),
                              .beta = weights.doubles("beta").front(),
                              .smoothing = golden.config().at("label_smoothing").get<double>()};

  const ConstMatrix all(scores.data(), times.size(), heads.bias.size());
  std::vector<float> events;
  std::vector<float> rest;
  for (std::size_t i = 0; i < batch; ++i) {
    const PublishedSums own = published_hawkes(
        model, rows.sequence(i), all.slice_rows(i * rows.length, rows.length), nullptr, 0.0);
    events.push_back(static_cast<float>(own.events));
    rest.push_back(static_cast<float>(own.rest));
  }
  comparison.output("event_ll64", events);
  comparison.output("non_event_ll64", rest);
  const PublishedSums sums = published_events_gradient(
      model, Matrix(scores.data(), times.size(), heads.bias.size()), rows, 1.0F);
  comparison.output("event_loss64", one(sums.rest - sums.events));
  comparison.output("type_loss64", one(sums.types));
  comparison.output("time_se64", one(sums.times));
  comparison.output("loss64", one(sums.loss()));
  const std::vector<std::int32_t> correct = golden.integers("correct");
  require(correct.size() == 1 && static_cast<std::size_t>(correct[0]) == sums.correct,
          "[golden] {} types were foretold; need {}", sums.correct, correct.at(0));
  compare_gradients(heads, states, scores, comparison);
  comparison.gradient("grad.alpha", one(sums.d_alpha));
  comparison.gradient("grad.beta", one(sums.d_beta));
  comparison.finish({"grad.encoder.", "grad.rnn."});
}

}  // namespace longspan::golden
