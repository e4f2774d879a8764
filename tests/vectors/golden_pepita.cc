#include "tests/vectors/golden_pepita.h"

#include <fmt/format.h>

#include <algorithm>

#include "longspan/kernels/rows/softmax.h"
#include "longspan/learning/optimizer.h"
#include "longspan/learning/pepita.h"

namespace longspan::golden {

namespace {

ModelConfig perceptron(const Case& golden) {
  const auto sizes = golden.config().at("layer_sizes").get<std::vector<std::size_t>>();
  ModelConfig c;
  c.family = Family::kPerceptron;
  c.head = HeadKind::kClassifier;
  c.inputs = sizes.front();
  c.layers = sizes.size() - 2;
  c.d_model = sizes[1];
  c.classes = sizes.back();
  c.activation = golden.config().at("hidden_activation").get<std::string>();
  c.bias = false;
  return c;
}

std::vector<float> floats(const Case& golden, const std::string& tensor) {
  const std::vector<double> values = golden.file().doubles(tensor);
  return {values.begin(), values.end()};
}

// Weight i of the reference.
Parameter& weight(Model& model, std::size_t i) {
  const bool last = i == model.config().layers;
  return *model.parameters().find(last ? "head.output.weight" : fmt::format("mlp.{}.weight", i));
}

template <class R>
void run_rule(const Case& golden, Comparison& comparison) {
  Model model(perceptron(golden));
  model.allocate(1);
  const std::size_t weights = model.config().layers + 1;
  for (std::size_t i = 0; i < weights; ++i) {
    std::ranges::copy(floats(golden, fmt::format("w{}_before", i)), weight(model, i).value.begin());
  }
  R rule(model, {.last_layer = LastLayer::kModulatedError}, 1);
  const std::vector<float> f = floats(golden, "F");  // [inputs, classes]
  const Matrix projection = rule.projection();
  for (std::size_t i = 0; i < projection.rows; ++i) {
    for (std::size_t j = 0; j < projection.cols; ++j) {
      projection.row_data(i)[j] = f[j * projection.rows + i];
    }
  }
  OptimizerConfig config;
  config.kind = golden.config().at("update") == "mom" ? "momentum" : "sgd";
  config.weight_decay = 0.0F;
  config.momentum = golden.config().at("momentum").get<float>();
  Optimizer optimizer(config, model.parameters());

  const auto size = golden.config().at("batch").get<std::size_t>();
  const std::vector<float> x = floats(golden, "x");
  const std::vector<std::int32_t> labels = golden.integers("label");
  std::vector<float> outputs;
  for (std::size_t first = 0; first < labels.size(); first += size) {
    const Batch batch{.batch = size,
                      .length = 1,
                      .features = std::span(x).subspan(first * model.config().inputs,
                                                       size * model.config().inputs),
                      .targets = std::span(labels).subspan(first, size)};
    const ConstMatrix logits = model.logits(batch);
    std::vector<float> y(logits.data, logits.data + logits.size());
    softmax_forward({y.data(), logits.rows, logits.cols});
    outputs.insert(outputs.end(), y.begin(), y.end());
    std::ranges::fill(model.parameters().gradients(), 0.0F);
    rule.accumulate(batch, 1, 1.0F / static_cast<float>(size));
    optimizer.step(golden.config().at("eta").get<float>(), 1.0F);
  }
  comparison.output("y_first", outputs);
  for (std::size_t i = 0; i < weights; ++i) {
    comparison.output(fmt::format("w{}_after", i), weight(model, i).value);
  }
}

}  // namespace

void run_pepita(const Case& golden, Comparison& comparison) {
  comparison.begin("pepita");
  run_rule<Pepita>(golden, comparison);
  comparison.finish();
  comparison.begin("mempepita");
  run_rule<Mempepita>(golden, comparison);
  comparison.finish();
}

}  // namespace longspan::golden
