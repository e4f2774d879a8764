#include <algorithm>

#include "longspan/attention/position/transformer_xl.h"
#include "longspan/base/error.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/rows/norm.h"
#include "longspan/kernels/rows/vector.h"
#include "longspan/testing/attention_problem.h"
#include "tests/vectors/golden_sparse.h"

namespace longspan::golden {

namespace {

// LayerNorm(w + attention·W_oᵀ) around the mechanism, forward and backward.
class TransformerXlLayer {
 public:
  explicit TransformerXlLayer(const Case& golden) : golden_(golden), x_(golden.file().floats("w")) {
    const Shape shape = golden.file().at("w").shape;
    require(!golden.config().at("pre_lnorm").get<bool>(),
            "[golden] a norm before the projections; need one behind");
    batch_ = shape.at(0);
    d_model_ = shape.at(2);
    heads_ = golden.config().at("heads").get<std::size_t>();
    width_ = heads_ * golden.config().at("d_head").get<std::size_t>();
    epsilon_ = golden.config().at("layer_norm_eps").get<float>();
    if (golden.config().at("mem_len").get<std::size_t>() > 0) {
      history_ = golden.file().floats("mems");
    }
    alone_ = std::make_unique<testing::Alone<TransformerXlAttention>>(
        TransformerXlConfig{},
        AttentionLayout{.d_model = d_model_,
                        .heads = heads_,
                        .kv_heads = heads_,
                        .d_head = width_ / heads_,
                        .max_length = shape.at(1)},
        /*history=*/true);
    Parameters& parameters = alone_->parameters();
    qkv_ = parameters.find("attention.qkv.weight");
    out_ = &parameters.declare("o_net.weight", d_model_, width_, Initializer::zeros());
    gamma_ = &parameters.declare("layer_norm.weight", d_model_, Initializer::zeros());
    beta_ = &parameters.declare("layer_norm.bias", d_model_, Initializer::zeros());
    parameters.allocate();
    read("w.qkv_net.weight", *qkv_);
    for (Parameter* p : {out_, gamma_, beta_}) read("w." + p->name, *p);
    read("w.r_net.weight", *parameters.find("attention.relative.weight"));
    read("w.r_w_bias", *parameters.find("attention.relative.u"));
    read("w.r_r_bias", *parameters.find("attention.relative.v"));
  }

  void run(Comparison& comparison) {
    const std::size_t rows = x_.size() / d_model_;
    const Matrix x(x_.data(), rows, d_model_);
    const Matrix projected = take(rows, 3 * width_);
    const Matrix dprojected = take(rows, 3 * width_);
    gemm(x, qkv_->matrix(), projected, {.transpose_b = true});
    AttentionInputs in;
    in.q = part(projected, 0);
    in.k = part(projected, 1);
    in.v = part(projected, 2);
    in.mask.causal = true;
    in.history = ConstMatrix(history_.data(), history_.size() / d_model_, d_model_);
    const AttentionCost cost = (*alone_)->cost(shape_of(in));
    Arena arena(std::max(cost.forward_scratch, cost.backward_scratch));
    std::vector<float> saved(cost.saved), signals(cost.signals);
    const Matrix y = take(rows, width_);
    (*alone_)->forward({in, heads_in(y), saved, arena});
    const Matrix dsum = finish(x, y, comparison);

    const Matrix dattention = take(rows, width_);
    gemm(dsum, out_->matrix(), dattention);
    gemm(dsum, y, out_->gradient_matrix(), {.transpose_a = true});
    (*alone_)->backward(
        {in,
         heads_in(y),
         heads_in(dattention),
         saved,
         {.q = part(dprojected, 0), .k = part(dprojected, 1), .v = part(dprojected, 2)},
         signals,
         arena});
    (*alone_)->accumulate(in, saved, signals);
    gemm(dprojected, x, qkv_->gradient_matrix(), {.transpose_a = true, .add = true});
    gemm(dprojected, qkv_->matrix(), dsum, {.add = true});
    comparison.gradient("grad.w", {dsum.data, dsum.size()});
    compare(in, signals, comparison);
  }

 private:
  void read(const std::string& theirs, Parameter& p) {
    const std::vector<float> values = golden_.file().floats(theirs);
    require(values.size() == p.size(), "[golden] {} has {} elements; need {}", theirs,
            values.size(), p.size());
    std::ranges::copy(values, p.value.begin());
  }
  Matrix take(std::size_t rows, std::size_t cols) {
    memory_.emplace_back(rows * cols);
    return {memory_.back().data(), rows, cols};
  }
  Heads heads_in(Matrix x) const { return Heads::from_columns(x, batch_, heads_); }
  Heads part(Matrix x, std::size_t i) const { return heads_in(x.slice_cols(i * width_, width_)); }

  // The output from the heads y; returns the gradient of w + y·W_oᵀ.
  Matrix finish(ConstMatrix x, ConstMatrix y, Comparison& comparison) {
    const Matrix sum = take(x.rows, d_model_);
    const Matrix out = take(x.rows, d_model_);
    const Matrix normalized = take(x.rows, d_model_);
    std::vector<float> inverse(x.rows);
    copy(x, sum);
    gemm(y, out_->matrix(), sum, {.transpose_b = true, .add = true});
    norm_forward(NormKind::kLayer, epsilon_, sum, gamma_->value.data(), beta_->value.data(), out,
                 normalized, inverse);
    comparison.output("out64", {out.data, out.size()});
    const std::vector<float> upstream = golden_.file().floats("upstream");
    const ConstMatrix dy(upstream.data(), x.rows, d_model_);
    norm_backward(NormKind::kLayer, normalized, inverse, gamma_->value.data(), dy, sum, false);
    norm_accumulate(NormKind::kLayer, normalized, dy, gamma_->gradient.data(),
                    beta_->gradient.data());
    return sum;
  }

  void compare(const AttentionInputs& in, std::span<const float> signals, Comparison& comparison) {
    const Parameter& relative = *alone_->parameters().find("attention.relative.weight");
    // Their distances fall from the largest to 0.
    const ConstMatrix dkr = (*alone_)->table_signal(signals, shape_of(in));
    const Matrix dr = take(dkr.rows, d_model_);
    gemm(dkr, relative.matrix(), dr);
    std::vector<float> reversed;
    for (std::size_t i = dr.rows; i-- > 0;) {
      reversed.insert(reversed.end(), dr.row_data(i), dr.row_data(i) + d_model_);
    }
    comparison.gradient("grad.r", reversed);
    if (!history_.empty()) {
      const ConstMatrix past = (*alone_)->history_signal(signals, shape_of(in));
      const Matrix dmems = take(past.rows, d_model_);
      gemm(past, qkv_->matrix().slice_rows(width_, 2 * width_), dmems);
      comparison.gradient("grad.mems", {dmems.data, dmems.size()});
    }
    comparison.gradient("grad.w.qkv_net.weight", qkv_->gradient);
    for (const Parameter* p : {out_, gamma_, beta_}) {
      comparison.gradient("grad.w." + p->name, p->gradient);
    }
    comparison.gradient("grad.w.r_net.weight", relative.gradient);
    comparison.gradient("grad.w.r_w_bias",
                        alone_->parameters().find("attention.relative.u")->gradient);
    comparison.gradient("grad.w.r_r_bias",
                        alone_->parameters().find("attention.relative.v")->gradient);
  }

  const Case& golden_;
  std::unique_ptr<testing::Alone<TransformerXlAttention>> alone_;
  Parameter *qkv_ = nullptr, *out_ = nullptr, *gamma_ = nullptr, *beta_ = nullptr;
  std::vector<float> x_, history_;
  std::vector<std::vector<float>> memory_;
  std::size_t batch_ = 0, d_model_ = 0, heads_ = 0, width_ = 0;
  float epsilon_ = 0.0F;
};

}  // namespace

void run_transformer_xl(const Case& golden, Comparison& comparison) {
  TransformerXlLayer layer(golden);
  comparison.begin("transformer-xl");
  layer.run(comparison);
  comparison.finish();
}

}  // namespace longspan::golden
