#include <algorithm>

#include "longspan/attention/pattern/longformer.h"
#include "longspan/base/error.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/rows/vector.h"
#include "longspan/testing/attention_problem.h"
#include "tests/vectors/golden_sparse.h"

namespace longspan::golden {

namespace {

const std::string kParts[] = {"query", "key", "value"};

// q|k|v of the reference, local or global, to one of our stacked weights, or their gradients.
void read_parts(const Case& golden, const std::string& suffix, Parameter& weight, Parameter& bias) {
  const std::size_t width = bias.size() / 3;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string name = "w." + kParts[i] + suffix;
    std::ranges::copy(golden.file().floats(name + ".weight"),
                      weight.value.subspan(i * width * weight.cols).begin());
    std::ranges::copy(golden.file().floats(name + ".bias"), bias.value.subspan(i * width).begin());
  }
}

void compare_parts(const std::string& suffix, const Parameter& weight, const Parameter& bias,
                   Comparison& comparison) {
  const std::size_t width = bias.size() / 3;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string name = "grad.w." + kParts[i] + suffix;
    comparison.gradient(name + ".weight",
                        weight.gradient.subspan(i * width * weight.cols, width * weight.cols));
    comparison.gradient(name + ".bias", bias.gradient.subspan(i * width, width));
  }
}

std::vector<std::uint8_t> marks_of(const Case& golden, std::size_t batch, std::size_t n) {
  std::vector<std::uint8_t> marks(batch * n, 0);
  for (std::size_t b = 0; b < batch; ++b) {
    for (const nlohmann::json& i : golden.config().at("global_positions").at(b)) {
      marks.at(b * n + i.get<std::size_t>()) = 1;
    }
  }
  return marks;
}

}  // namespace

void run_longformer(const Case& golden, Comparison& comparison) {
  const Shape shape = golden.file().at("x").shape;
  require(shape.size() == 3, "[golden] x is {}; need [batch, n, width]", to_string(shape));
  const std::size_t heads = golden.config().at("heads").get<std::size_t>();
  const std::size_t w = shape[2];
  const std::size_t rows = shape[0] * shape[1];
  testing::Alone<LongformerAttention> attention(
      LongformerConfig{.window = golden.config().at("attention_window").get<std::size_t>()},
      {.d_model = w,
       .heads = heads,
       .kv_heads = heads,
       .d_head = w / heads,
       .max_length = shape[1]});
  Parameters& parameters = attention.parameters();
  Parameter& weight = parameters.declare("qkv.weight", 3 * w, w, Initializer::zeros());
  Parameter& bias = parameters.declare("qkv.bias", 3 * w, Initializer::zeros());
  parameters.allocate();
  Parameter& global_weight = *parameters.find("attention.global.weight");
  Parameter& global_bias = *parameters.find("attention.global.bias");
  read_parts(golden, "", weight, bias);
  read_parts(golden, "_global", global_weight, global_bias);

  std::vector<float> x = golden.file().floats("x");
  std::vector<float> dy = golden.file().floats("upstream");
  std::vector<float> projected(rows * 3 * w), gradient(projected), y(x.size()), dx(x.size());
  const ConstMatrix input(x.data(), rows, w);
  linear_forward(input, weight.matrix(), bias.value.data(), {projected.data(), rows, 3 * w});
  const auto part = [&](std::vector<float>& from, std::size_t i) {
    return Heads::from_columns(Matrix(from.data(), rows, 3 * w).slice_cols(i * w, w), shape[0],
                               heads);
  };
  const auto columns = [&](std::vector<float>& from) {
    return Heads::from_columns(Matrix(from.data(), rows, w), shape[0], heads);
  };
  const std::vector<std::uint8_t> marks = marks_of(golden, shape[0], shape[1]);
  std::vector<std::int32_t> lengths;
  if (golden.config().at("lengths").is_array()) {
    lengths = golden.config().at("lengths").get<std::vector<std::int32_t>>();
  }
  AttentionInputs in;
  in.q = part(projected, 0);
  in.k = part(projected, 1);
  in.v = part(projected, 2);
  in.x = input;
  in.mask.key_lengths = lengths;
  in.mask.globals = marks;
  const AttentionCost cost = attention->cost(shape_of(in));
  Arena arena(std::max(cost.forward_scratch, cost.backward_scratch));
  std::vector<float> saved(cost.saved), signals(cost.signals);
  comparison.begin("longformer");
  attention->forward({in, columns(y), saved, arena});
  comparison.output("out64", y);
  attention->backward({in,
                       columns(y),
                       columns(dy),
                       saved,
                       {.q = part(gradient, 0),
                        .k = part(gradient, 1),
                        .v = part(gradient, 2),
                        .x = Matrix(dx.data(), rows, w)},
                       signals,
                       arena});
  attention->accumulate(in, saved, signals);
  const ConstMatrix dprojected(gradient.data(), rows, 3 * w);
  gemm(dprojected, weight.matrix(), {dx.data(), rows, w}, {.add = true});
  gemm(dprojected, input, weight.gradient_matrix(), {.transpose_a = true});
  add_column_sums(dprojected, bias.gradient.data());
  comparison.gradient("grad.x", dx);
  compare_parts("", weight, bias, comparison);
  const std::vector<std::string> wanted = golden.gradients();
  if (std::ranges::find(wanted, "grad.w.query_global.weight") != wanted.end()) {
    compare_parts("_global", global_weight, global_bias, comparison);
  }
  comparison.finish();
}

}  // namespace longspan::golden
