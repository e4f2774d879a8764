#include "longspan/attention/position/deberta.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "longspan/attention/position/relative_table.h"
#include "longspan/base/error.h"
#include "longspan/base/number.h"
#include "longspan/base/parallel.h"
#include "longspan/base/thread_kept.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/rows/norm.h"
#include "longspan/kernels/rows/vector.h"
#include "longspan/kernels/tiled/tile_layout.h"

namespace longspan {

namespace {

constexpr float kLog2E = 1.44269504F;

// Of the whole stack.
Parameter& shared(Parameters& parameters, const std::string& name, std::size_t rows,
                  std::size_t cols, Initializer initializer) {
  if (Parameter* known = parameters.find(name)) return *known;
  Parameter& p = rows == 1 ? parameters.declare(name, cols, initializer)
                           : parameters.declare(name, rows, cols, initializer);
  p.place.block.reset();
  return p;
}

}  // namespace

// Kr, Qr and K·Qrᵀ of one call.
struct DebertaAttention::Positions {
  Matrix kr;           // [2k, width], empty without c→p
  Matrix qr;           // [2k, width], empty without p→c
  std::span<float> p;  // s·log₂e·K·Qrᵀ [batch, heads, n, 2k]
  RelativePlanes planes;
};

Abilities DebertaAttention::can(const DebertaConfig& config) {
  check_numbers(kName, config);
  require(config.buckets % 2 == 0 && config.buckets != 2,
          "[deberta] {} buckets; need 0 or an even number from 4", config.buckets);
  require(config.buckets == 0 || config.span > config.buckets / 2 + 1,
          "[deberta] {} buckets for a span of {}; need a larger span", config.buckets, config.span);
  return {.causal = true, .key_lengths = true, .dropout = true, .decode = true};
}

Streams DebertaAttention::streams(const DebertaConfig& config, const AttentionLayout& layout) {
  Streams streams = Streams::qkv(layout);
  if (!config.content_bias) {
    for (Stream& s : streams.given) s.group = "qv";
    streams.given[1].group = "k";
    streams.given[1].bias = false;
  }
  const auto call = [&](const char* name, bool bias) {
    streams.on_call.push_back({.name = name,
                               .group = name,
                               .heads = layout.heads,
                               .width = layout.d_head,
                               .source = Source::kTable,
                               .bias = bias});
  };
  if (config.c2p) call(config.share ? "k" : "position_key", config.key_bias);
  if (config.p2c) call(config.share ? "q" : "position_query", true);
  return streams;
}

DebertaAttention::DebertaAttention(const DebertaConfig& config, const AttentionSite& site)
    : Attention(can(config)), config_(config) {
  table_ = &shared(site.parameters, site.stack + ".relative", rows(), site.d_model,
                   Initializer::normal(site.deviation));
  if (config.norm) {
    gamma_ = &shared(site.parameters, site.stack + ".relative_norm.gamma", 1, site.d_model,
                     Initializer::ones());
    beta_ = &shared(site.parameters, site.stack + ".relative_norm.beta", 1, site.d_model,
                    Initializer::zeros());
  }
  if (config.c2p) keys_ = site.projections.of(config.share ? "k" : "position_key");
  if (config.p2c) queries_ = site.projections.of(config.share ? "q" : "position_query");
}

void DebertaAttention::check_more(const AttentionShape& /*shape*/) const {
  require((!config_.c2p || keys_.declared()) && (!config_.p2c || queries_.declared()),
          "[deberta] share=true needs the projections of a layer; there are none");
}

float DebertaAttention::scale(std::size_t d) const {
  const std::size_t terms = 1 + (config_.c2p ? 1 : 0) + (config_.p2c ? 1 : 0);
  return 1.0F / std::sqrt(static_cast<float>(d * terms));
}

std::int32_t DebertaAttention::bucket(std::ptrdiff_t distance) const {
  const auto k = static_cast<std::ptrdiff_t>(rows() / 2);
  const std::ptrdiff_t size = distance < 0 ? -distance : distance;
  const auto middle = static_cast<std::ptrdiff_t>(config_.buckets / 2);
  if (config_.buckets > 0 && size > middle) {
    // In float, as the published models: the ceiling decides where one bucket ends.
    const auto m = static_cast<float>(middle);
    const float ratio =
        std::log(static_cast<float>(size) / m) / std::log(static_cast<float>(config_.span - 1) / m);
    const auto far = middle + static_cast<std::ptrdiff_t>(std::ceil(ratio * (m - 1.0F)));
    distance = distance < 0 ? -far : far;
  }
  return static_cast<std::int32_t>(std::clamp(distance, -k, k - 1) + k);
}

void DebertaAttention::fill_buckets(std::size_t n, std::span<std::int32_t> out) const {
  const auto first = 1 - static_cast<std::ptrdiff_t>(n);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = bucket(first + static_cast<std::ptrdiff_t>(i));
  }
}

DebertaAttention::Positions DebertaAttention::project(const AttentionInputs& in, ConstMatrix table,
                                                      Arena& arena) const {
  const AttentionShape s = shape_of(in);
  const std::size_t k2 = rows();
  Positions x;
  const auto buckets = arena.take<std::int32_t>(bucket_count(s.n));
  fill_buckets(s.n, buckets);
  x.planes.bucket = buckets.data() + s.n - 1;
  x.planes.q = in.q;
  if (config_.c2p) {
    x.kr = arena.matrix(k2, keys_.columns());
    const auto packed = arena.take(packed_floats(k2, s));
    keys_.forward(table, x.kr);
    x.planes.table = pack_table(x.kr, s, packed);
  }
  if (config_.p2c) {
    x.qr = arena.matrix(k2, queries_.columns());
    x.p = arena.take(s.batch * s.heads * s.n * k2);
    queries_.forward(table, x.qr);
    const Heads p(x.p.data(), s.batch, s.heads, s.n, k2);
    for (std::size_t plane = 0; plane < s.batch * s.heads; ++plane) {
      const std::size_t h = plane % s.heads;
      gemm(in.k.head(plane / s.heads, h), x.qr.slice_cols(h * s.d, s.d), p.head(plane / s.heads, h),
           {.transpose_b = true, .alpha = scale(s.d) * kLog2E});
    }
    x.planes.keys = p;
  }
  return x;
}

Work DebertaAttention::projection_work(const AttentionShape& s) const {
  const std::size_t k2 = rows();
  Work work;
  for (const Projection* p : {config_.c2p ? &keys_ : nullptr, config_.p2c ? &queries_ : nullptr}) {
    if (p != nullptr) work += p->forward_work(k2);
  }
  if (config_.p2c) work += s.batch * s.heads * product_work(s.n, k2, s.d);
  return work;
}

std::size_t DebertaAttention::projection_bytes(const AttentionShape& s) const {
  const std::size_t k2 = rows();
  std::size_t bytes = Arena::bytes_for<std::int32_t>(bucket_count(s.n));
  if (config_.c2p) {
    bytes += Arena::bytes_for(k2 * keys_.columns()) + Arena::bytes_for(packed_floats(k2, s));
  }
  if (config_.p2c) {
    bytes +=
        Arena::bytes_for(k2 * queries_.columns()) + Arena::bytes_for(s.batch * s.heads * s.n * k2);
  }
  return bytes;
}

AttentionCost DebertaAttention::cost(const AttentionShape& s) const {
  check_more(s);
  static const ThreadKept<std::vector<std::int32_t>> kept;
  std::vector<std::int32_t>& buckets = kept();
  if (buckets.size() < bucket_count(s.n)) buckets.resize(bucket_count(s.n));
  fill_buckets(s.n, std::span(buckets).first(bucket_count(s.n)));
  const std::size_t k2 = rows();
  const std::size_t dm = table_->cols;
  const std::size_t planes = s.batch * s.heads;
  AttentionCost cost = sparse_cost(FullPattern(s), {.bucket = buckets.data() + s.n - 1,
                                                    .table = config_.c2p ? k2 : 0,
                                                    .keys = config_.p2c ? k2 : 0});
  cost.forward_scratch += projection_bytes(s);
  cost.backward_scratch += projection_bytes(s);
  cost.forward += projection_work(s);
  cost.backward += projection_work(s);
  cost.signals = k2 * dm;
  if (config_.c2p) {
    cost.signals += k2 * keys_.columns();
    cost.backward_scratch += Arena::bytes_for(planes * k2 * tile_pitch(s.d));
    cost.backward += keys_.backward_work(k2);
    cost.backward += sum_table_work(k2, s);
    cost.update += keys_.update_work(k2);
  }
  if (config_.p2c) {
    cost.signals += k2 * queries_.columns();
    cost.backward_scratch += Arena::bytes_for(planes * s.n * k2);
    cost.backward += queries_.backward_work(k2);
    cost.backward += planes * (product_work(s.n, s.d, k2) + product_work(k2, s.d, s.n));
    cost.update += queries_.update_work(k2);
  }
  if (config_.norm) {
    const NormFlops norm = norm_flops(NormKind::kLayer, /*shifts=*/true, k2, dm);
    cost.saved += 2 * k2 * dm + k2;
    cost.forward_scratch += 2 * Arena::bytes_for(k2 * dm) + Arena::bytes_for(k2);
    cost.forward += flops(Kind::kNorm, norm.forward, 4 * (3 * k2 * dm + k2 + 2 * dm));
    cost.update += flops(Kind::kNorm, norm.backward, 4 * (3 * k2 * dm + k2 + dm));
    cost.update += flops(Kind::kAdd, k2 * dm, 4 * k2 * dm);
    cost.update += flops(Kind::kNorm, norm.accumulate, 4 * (2 * k2 * dm + 4 * dm));
  } else {
    cost.update += flops(Kind::kAdd, k2 * dm, 12 * k2 * dm);
  }
  return cost;
}

// What forward keeps: L, then with a norm the table behind it, x̂ and r.
ConstMatrix DebertaAttention::normalized_table(std::span<const float> saved,
                                               const AttentionShape& s) const {
  if (!config_.norm) return table_->matrix();
  return {saved.data() + s.batch * s.heads * s.m, table_->rows, table_->cols};
}

void DebertaAttention::run_forward(const ForwardCall& call) const {
  const AttentionInputs& in = call.in;
  const Heads y = call.y;
  const std::span<float> saved = call.saved;
  Arena& arena = call.arena;
  const AttentionShape s = shape_of(in);
  const std::size_t levels = s.batch * s.heads * s.m;
  ConstMatrix table = table_->matrix();
  if (config_.norm) {
    const Matrix out = arena.matrix(table.rows, table.cols);
    const Matrix normalized = arena.matrix(table.rows, table.cols);
    const auto inverse = arena.take(table.rows);
    norm_forward(NormKind::kLayer, config_.epsilon, table, gamma_->value.data(),
                 beta_->value.data(), out, normalized, inverse);
    if (!saved.empty()) {
      float* to = saved.data() + levels;
      to = std::copy_n(out.data, out.size(), to);
      to = std::copy_n(normalized.data, normalized.size(), to);
      std::copy_n(inverse.data(), inverse.size(), to);
    }
    table = out;
  }
  SparseInputs inputs = SparseInputs::of(in);
  inputs.scale = scale(s.d);
  inputs.relative = project(in, table, arena).planes;
  sparse_forward(FullPattern(s), inputs, y, saved.first(saved.empty() ? 0 : levels), arena);
}

void DebertaAttention::run_backward(const BackwardCall& call) const {
  const AttentionInputs& in = call.in;
  const ConstHeads y = call.y;
  const ConstHeads dy = call.dy;
  const std::span<const float> saved = call.saved;
  const AttentionGradients& grad = call.grad;
  const std::span<float> signals = call.signals;
  Arena& arena = call.arena;
  const AttentionShape s = shape_of(in);
  const std::size_t k2 = rows();
  const std::size_t planes = s.batch * s.heads;
  const Positions x = project(in, normalized_table(saved, s), arena);
  SparseInputs inputs = SparseInputs::of(in);
  inputs.scale = scale(s.d);
  inputs.relative = x.planes;
  SparseResults results{grad.q, grad.k, grad.v, {}};
  if (config_.c2p) results.relative.table = arena.matrix(planes * k2, tile_pitch(s.d));
  if (config_.p2c) {
    results.relative.keys = Heads(arena.take(planes * s.n * k2).data(), s.batch, s.heads, s.n, k2);
  }
  sparse_backward(FullPattern(s), inputs, y, dy, saved.first(planes * s.m), results, arena);

  // Signals: dR, then dKr and dQr.
  float* next = signals.data();
  const Matrix dtable(next, k2, table_->cols);
  next += dtable.size();
  if (config_.c2p) {
    const Matrix dkr(next, k2, keys_.columns());
    next += dkr.size();
    sum_table(results.relative.table, s, dkr);
    keys_.backward(dkr, dtable, /*add=*/false);
  }
  if (config_.p2c) {
    const Matrix dqr(next, k2, queries_.columns());
    for (std::size_t plane = 0; plane < planes; ++plane) {
      const std::size_t b = plane / s.heads;
      const std::size_t h = plane % s.heads;
      const Matrix dp = results.relative.keys.head(b, h);
      gemm(dp, x.qr.slice_cols(h * s.d, s.d), grad.k.head(b, h), {.add = true});
      gemm_real_rows(dp, in.k.head(b, h), dqr.slice_cols(h * s.d, s.d),
                     s.key_lengths.empty() ? s.key_lengths : s.key_lengths.subspan(b, 1),
                     {.add = b > 0});
    }
    queries_.backward(dqr, dtable, /*add=*/config_.c2p);
  }
  if (!config_.c2p && !config_.p2c) fill(dtable, 0.0F);
}

void DebertaAttention::run_accumulate(const AttentionInputs& in, std::span<const float> saved,
                                      std::span<const float> signals) const {
  const AttentionShape s = shape_of(in);
  const ConstMatrix table = normalized_table(saved, s);
  const float* next = signals.data();
  const ConstMatrix dtable(next, table.rows, table.cols);
  next += dtable.size();
  for (const Projection* p : {config_.c2p ? &keys_ : nullptr, config_.p2c ? &queries_ : nullptr}) {
    if (p == nullptr) continue;
    const ConstMatrix signal(next, table.rows, p->columns());
    next += signal.size();
    p->accumulate(table, signal);
  }
  if (!config_.norm) {
    axpy(1.0F, dtable, table_->gradient_matrix());
    return;
  }
  const ConstMatrix normalized(table.data + table.size(), table.rows, table.cols);
  const std::span<const float> inverse(normalized.data + normalized.size(), table.rows);
  norm_accumulate(NormKind::kLayer, normalized, dtable, gamma_->gradient.data(),
                  beta_->gradient.data());
  norm_backward(NormKind::kLayer, normalized, inverse, gamma_->value.data(), dtable,
                table_->gradient_matrix(), true);
}

}  // namespace longspan
