#include <algorithm>
#include <functional>

#include "longspan/attention/position/deberta.h"
#include "longspan/base/error.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/rows/vector.h"
#include "longspan/testing/attention_problem.h"
#include "tests/vectors/golden_sparse.h"

namespace longspan::golden {

namespace {

// A layer's projections q|k|v around the mechanism, up to the heads side by side.
AttentionLayout layout_of(const Shape& shape, std::size_t heads) {
  require(shape.size() == 3, "[golden] x is {}; need [batch, n, width]", to_string(shape));
  return {.d_model = shape[2],
          .heads = heads,
          .kv_heads = heads,
          .d_head = shape[2] / heads,
          .max_length = shape[1]};
}

class DebertaLayer {
 public:
  DebertaLayer(const Case& golden, const DebertaConfig& config)
      : golden_(golden),
        shape_(golden.file().at("x").shape),
        heads_(golden.config().at("heads").get<std::size_t>()),
        alone_(config, layout_of(shape_, heads_)),
        attention_(*alone_),
        parameters_(alone_.parameters()),
        x_(golden.file().floats("x")) {
    batch_ = shape_[0];
    width_ = shape_[2];
    const nlohmann::json& lengths = golden.config().at("lengths");
    if (lengths.is_array()) lengths_ = lengths.get<std::vector<std::int32_t>>();
    // Where positions use the layer's projections these are there already.
    if (parameters_.find("attention.qkv.weight") == nullptr) {
      parameters_.declare("attention.qkv.weight", 3 * width_, width_, Initializer::zeros());
      parameters_.declare("attention.qkv.bias", 3 * width_, Initializer::zeros());
    }
    weight_ = parameters_.find("attention.qkv.weight");
    bias_ = parameters_.find("attention.qkv.bias");
    parameters_.allocate();
    read("rel_embeddings", "stack.relative");
  }

  std::size_t width() const { return width_; }
  std::size_t heads() const { return heads_; }
  Parameter& parameter(const std::string& name) { return *parameters_.find(name); }
  void read(const std::string& theirs, const std::string& ours) {
    const Parameter& p = parameter(ours);
    golden_.file().read_into(theirs, p.shape(), p.value);
  }

  void run(Comparison& comparison) {
    const std::size_t rows = x_.size() / width_;
    const ConstMatrix x(x_.data(), rows, width_);
    std::vector<float> projected(rows * 3 * width_), gradient(projected), y(x_.size()), dx(y);
    linear_forward(x, weight_->matrix(), bias_->value.data(), {projected.data(), rows, 3 * width_});
    const auto part = [&](std::vector<float>& from, std::size_t i) {
      return Heads::from_columns(
          Matrix(from.data(), rows, 3 * width_).slice_cols(i * width_, width_), batch_, heads_);
    };
    const auto columns = [&](std::vector<float>& from) {
      return Heads::from_columns(Matrix(from.data(), rows, width_), batch_, heads_);
    };
    AttentionInputs in;
    in.q = part(projected, 0);
    in.k = part(projected, 1);
    in.v = part(projected, 2);
    in.mask.key_lengths = lengths_;
    const AttentionCost cost = attention_.cost(shape_of(in));
    Arena arena(std::max(cost.forward_scratch, cost.backward_scratch));
    std::vector<float> saved(cost.saved), signals(cost.signals);
    std::vector<float> dy = golden_.file().floats("upstream");
    attention_.forward({in, columns(y), saved, arena});
    attention_.backward({in,
                         columns(y),
                         columns(dy),
                         saved,
                         {.q = part(gradient, 0), .k = part(gradient, 1), .v = part(gradient, 2)},
                         signals,
                         arena});
    attention_.accumulate(in, saved, signals);
    const ConstMatrix dprojected(gradient.data(), rows, 3 * width_);
    gemm(dprojected, weight_->matrix(), {dx.data(), rows, width_});
    gemm(dprojected, x, weight_->gradient_matrix(), {.transpose_a = true, .add = true});
    add_column_sums(dprojected, bias_->gradient.data());
    comparison.output("out64", y);
    comparison.gradient("grad.x", dx);
    compare(comparison, "grad.rel_embeddings", "stack.relative");
  }
  void compare(Comparison& comparison, const std::string& theirs, const std::string& ours) {
    comparison.gradient(theirs, parameter(ours).gradient);
  }

 private:
  const Case& golden_;
  Shape shape_;
  std::size_t heads_;
  testing::Alone<DebertaAttention> alone_;
  const DebertaAttention& attention_;
  Parameters& parameters_;
  Parameter* weight_ = nullptr;
  Parameter* bias_ = nullptr;
  std::vector<float> x_;
  std::vector<std::int32_t> lengths_;
  std::size_t batch_ = 0, width_ = 0;
};

struct Terms {
  bool c2p = false;
  bool p2c = false;
};
Terms terms_of(const Case& golden) {
  Terms terms;
  for (const nlohmann::json& term : golden.config().at("pos_att_type")) {
    (term.get<std::string>() == "c2p" ? terms.c2p : terms.p2c) = true;
  }
  return terms;
}

// Rows of in_proj are q, k and v of one head after the other; ours are all q, all k, all v. Calls
// move(ours, theirs) for pairs of rows.
void for_each_row(const DebertaLayer& layer,
                  const std::function<void(std::size_t, std::size_t)>& move) {
  const std::size_t d = layer.width() / layer.heads();
  for (std::size_t row = 0; row < 3 * layer.width(); ++row) {
    const std::size_t part = row / layer.width();
    const std::size_t head = row % layer.width() / d;
    move(row, (head * 3 + part) * d + row % d);
  }
}

}  // namespace

void run_deberta_v1(const Case& golden, Comparison& comparison) {
  const Terms terms = terms_of(golden);
  DebertaConfig config;
  config.span = golden.config().at("max_relative_positions").get<std::size_t>();
  config.c2p = terms.c2p;
  config.p2c = terms.p2c;
  DebertaLayer layer(golden, config);
  const std::size_t width = layer.width();
  const std::vector<float> in_proj = golden.file().floats("w.in_proj.weight");
  Parameter& weight = layer.parameter("attention.qkv.weight");
  Parameter& bias = layer.parameter("attention.qkv.bias");
  for_each_row(layer, [&](std::size_t ours, std::size_t theirs) {
    std::copy_n(&in_proj[theirs * width], width, &weight.value[ours * width]);
  });
  std::ranges::copy(golden.file().floats("w.q_bias"), bias.value.begin());
  std::ranges::copy(golden.file().floats("w.v_bias"), bias.value.last(width).begin());
  if (terms.c2p) layer.read("w.pos_proj.weight", "attention.position_key.weight");
  if (terms.p2c) layer.read("w.pos_q_proj.weight", "attention.position_query.weight");
  if (terms.p2c) layer.read("w.pos_q_proj.bias", "attention.position_query.bias");

  comparison.begin("deberta");
  layer.run(comparison);
  std::vector<float> dweight(in_proj.size());
  for_each_row(layer, [&](std::size_t ours, std::size_t theirs) {
    std::copy_n(&weight.gradient[ours * width], width, &dweight[theirs * width]);
  });
  comparison.gradient("grad.w.in_proj.weight", dweight);
  comparison.gradient("grad.w.q_bias", bias.gradient.first(width));
  comparison.gradient("grad.w.v_bias", bias.gradient.last(width));
  if (terms.c2p) {
    layer.compare(comparison, "grad.w.pos_proj.weight", "attention.position_key.weight");
  }
  if (terms.p2c) {
    layer.compare(comparison, "grad.w.pos_q_proj.weight", "attention.position_query.weight");
    layer.compare(comparison, "grad.w.pos_q_proj.bias", "attention.position_query.bias");
  }
  comparison.finish();
}

void run_deberta_v2(const Case& golden, Comparison& comparison) {
  const Terms terms = terms_of(golden);
  DebertaConfig config;
  config.span = golden.config().at("max_relative_positions").get<std::size_t>();
  config.buckets = golden.config().at("position_buckets").get<std::size_t>();
  config.c2p = terms.c2p;
  config.p2c = terms.p2c;
  config.share = golden.config().at("share_att_key").get<bool>();
  config.key_bias = true;
  DebertaLayer layer(golden, config);
  const std::size_t width = layer.width();
  Parameter& weight = layer.parameter("attention.qkv.weight");
  Parameter& bias = layer.parameter("attention.qkv.bias");
  const std::string parts[] = {"query_proj", "key_proj", "value_proj"};
  for (std::size_t i = 0; i < 3; ++i) {
    std::ranges::copy(golden.file().floats("w." + parts[i] + ".weight"),
                      weight.value.subspan(i * width * width).begin());
    std::ranges::copy(golden.file().floats("w." + parts[i] + ".bias"),
                      bias.value.subspan(i * width).begin());
  }
  const auto own = [&](const std::function<void(const std::string&, const std::string&)>& use) {
    for (const char* kind : {".weight", ".bias"}) {
      if (terms.c2p && !config.share) {
        use(std::string("w.pos_key_proj") + kind, std::string("attention.position_key") + kind);
      }
      if (terms.p2c && !config.share) {
        use(std::string("w.pos_query_proj") + kind, std::string("attention.position_query") + kind);
      }
    }
  };
  own([&](const std::string& theirs, const std::string& ours) { layer.read(theirs, ours); });

  comparison.begin("deberta");
  layer.run(comparison);
  for (std::size_t i = 0; i < 3; ++i) {
    comparison.gradient("grad.w." + parts[i] + ".weight",
                        weight.gradient.subspan(i * width * width, width * width));
    comparison.gradient("grad.w." + parts[i] + ".bias", bias.gradient.subspan(i * width, width));
  }
  own([&](const std::string& theirs, const std::string& ours) {
    layer.compare(comparison, "grad." + theirs, ours);
  });
  comparison.finish();
}

}  // namespace longspan::golden
