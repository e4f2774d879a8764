#include "longspan/attention/position/funnel.h"

#include <algorithm>
#include <array>
#include <vector>

#include "longspan/attention/position/relative_table.h"
#include "longspan/base/error.h"
#include "longspan/base/parallel.h"
#include "longspan/base/thread_kept.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/rows/vector.h"
#include "longspan/kernels/tiled/tile_layout.h"

namespace longspan {

namespace {

constexpr std::int32_t kJoker = 2;  // the type that agrees with all

bool pooled(const AttentionShape& s) { return s.m != s.n; }
// Keys from one query to the next.
std::size_t stride_of(const AttentionShape& s) { return pooled(s) ? 2 : 1; }

// Distances stride·i − j in keys, from 1 − n on.
std::size_t distance_count(const AttentionShape& s) { return s.n + stride_of(s) * (s.m - 1); }

// Lanes that pad a tile read farther.
std::size_t bucket_count(const AttentionShape& s) {
  return distance_count(s) + stride_of(s) * kQueryBlock;
}

void fill_buckets(const AttentionShape& s, std::span<std::int32_t> out) {
  const auto last = static_cast<std::int32_t>(distance_count(s)) - 1;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = std::min(static_cast<std::int32_t>(i), last);
  }
}

// Every key; the first, where it stands apart, by itself.
class FunnelPattern final : public BlockPattern {
 public:
  FunnelPattern(const AttentionShape& shape, bool cls) : BlockPattern(shape), cls_(cls) {}
  std::size_t queries(std::size_t b) const override { return keys(b) > 0 ? shape().m : 0; }
  std::size_t tiles(std::size_t b, std::size_t /*h*/) const override {
    return (queries(b) + kQueryBlock - 1) / kQueryBlock;
  }
  PatternTile tile(std::size_t b, std::size_t /*h*/, std::size_t t,
                   std::span<KeyRange> room) const override {
    PatternTile tile;
    tile.shift = -static_cast<std::ptrdiff_t>(offset());  // query 0 is at key 0
    tile.tile.first = t * kQueryBlock;
    tile.tile.lanes = std::min(kQueryBlock, queries(b) - tile.tile.first);
    room[0] = {0, 1, KeyRange::Kind::kGathered};
    room[1] = {cls_ ? 1U : 0U, keys(b), KeyRange::Kind::kWhole};
    tile.tile.ranges = cls_ ? room.first(keys(b) > 1 ? 2 : 1) : room.subspan(1, 1);
    return tile;
  }
  std::size_t most_ranges() const override { return 2; }
  std::size_t stride() const override { return stride_of(shape()); }
  const std::uint32_t* gathered(std::size_t /*b*/) const override { return kFirst.data(); }

 private:
  static constexpr std::array<std::uint32_t, 1> kFirst = {0};
  bool cls_;
};

// The types of the tokens of a sequence, by key.
class Types {
 public:
  Types(const AttentionInputs& in, const FunnelConfig& config)
      : all_(in.token_types), n_(in.k.n), m_(in.q.n), config_(config) {}
  std::int32_t of_key(std::size_t b, std::size_t j) const {
    return all_.empty() ? 0 : all_[b * n_ + j];
  }
  std::int32_t of_query(std::size_t b, std::size_t i) const {
    if (m_ == n_) return of_key(b, i);
    return of_key(b, std::min(n_ - 1, i == 0 ? 0 : 2 * i - (config_.cls ? 1 : 0)));
  }
  bool same(std::int32_t a, std::int32_t b) const {
    return a == b || (config_.joker && (a == kJoker || b == kJoker));
  }
  void check(std::size_t count) const {
    for (const std::int32_t type : all_) {
      require(type >= 0 && static_cast<std::size_t>(type) < count,
              "[funnel] a token type is {}; need 0 to {}", type, count - 1);
    }
  }

 private:
  std::span<const std::int32_t> all_;
  std::size_t n_;
  std::size_t m_;
  const FunnelConfig& config_;
};

Heads take_heads(Arena& arena, const AttentionShape& s, std::size_t n, std::size_t d) {
  return Heads::from_columns(arena.matrix(s.batch * n, s.heads * d), s.batch, s.heads);
}

// (q + s)·G_0 and (q + s)·G_1.
std::array<float, 2> type_terms(const float* q, const float* s, ConstMatrix g) {
  std::array<float, 2> terms{};
  for (std::size_t c = 0; c < g.cols; ++c) {
    const float shifted = q[c] + s[c];
    terms[0] += shifted * g.row_data(0)[c];
    terms[1] += shifted * g.row_data(1)[c];
  }
  return terms;
}

}  // namespace

// What forward and backward compute on.
struct FunnelAttention::Operands {
  AttentionShape shape;  // with the columns of types
  Matrix r;              // R
  SparseInputs in;
};

// The parts of the signals.
struct FunnelAttention::Signals {
  Signals(std::span<float> all, std::size_t w, std::size_t inputs)
      : weight(all.data(), w, inputs),
        u(weight.data + weight.size()),
        v(u + w),
        s(v + w),
        types(s + w, 2, w) {}
  static std::size_t floats(std::size_t w, std::size_t inputs) { return w * inputs + 5 * w; }

  Matrix weight;
  float *u, *v, *s;
  Matrix types;
};

Abilities FunnelAttention::can(const FunnelConfig& /*config*/) {
  return {.pooled = true,
          .key_lengths = true,
          .dropout = true,
          .not_causal = "a pooled query holds a later token"};
}

Streams FunnelAttention::streams(const FunnelConfig& /*config*/, const AttentionLayout& layout) {
  Streams streams = Streams::qkv(layout);
  streams.given[0].group = "q";
  streams.given[0].bias = false;
  streams.given[1].group = streams.given[2].group = "kv";
  streams.on_call = {{.name = "distances",
                      .group = "relative",
                      .heads = layout.heads,
                      .width = layout.d_head,
                      .source = Source::kTable,
                      .bias = false}};
  return streams;
}

FunnelAttention::FunnelAttention(const FunnelConfig& config, const AttentionSite& site)
    : Attention(can(config)),
      config_(config),
      step_(site.step),
      distances_(site.projections.of("distances")) {
  const Initializer normal = Initializer::normal(site.deviation);
  const auto declare = [&](const char* name) {
    return &site.parameters.declare(site.name + ".relative." + name, site.width(), normal);
  };
  u_ = declare("u");
  v_ = declare("v");
  s_ = declare("s");
  types_ = &site.parameters.declare(site.name + ".relative.types", 2, site.width(), normal);
}

AttentionShape FunnelAttention::widened(const AttentionShape& s) const {
  AttentionShape wide = s;
  wide.d = s.d + types();
  return wide;
}

FunnelAttention::Operands FunnelAttention::prepare(const AttentionInputs& in, Arena& arena) const {
  const AttentionShape s = shape_of(in);
  const std::size_t count = distance_count(s);
  Operands x;
  x.shape = widened(s);
  const auto buckets = arena.take<std::int32_t>(bucket_count(s));
  fill_buckets(s, buckets);
  x.r = arena.matrix(count, inputs());
  const bool back = pooled(s) && config_.cls;  // a pair begins one token before 2i
  fill_sinusoids(
      (1 - static_cast<std::ptrdiff_t>(s.n) - (back ? 1 : 0)) * static_cast<std::ptrdiff_t>(step_),
      step_, x.r);
  const Matrix kr = arena.matrix(count, width());
  distances_.forward(x.r, kr);
  x.in = SparseInputs::of(in);
  x.in.relative.bucket = buckets.data() + s.n - 1;
  x.in.relative.table = pack_table(kr, s, arena.take(packed_floats(count, s)));
  const Heads q = take_heads(arena, s, s.m, x.shape.d);
  const Heads qv = take_heads(arena, s, s.m, s.d);
  const Heads k = take_heads(arena, s, s.n, x.shape.d);
  const Types token(in, config_);
  token.check(types());
  parallel_for(s.batch * s.heads, [&](std::size_t plane, std::size_t) {
    const std::size_t b = plane / s.heads;
    const std::size_t h = plane % s.heads;
    const std::size_t first = h * s.d;
    const ConstMatrix g = types_->matrix().slice_cols(first, s.d);
    for (std::size_t i = 0; i < s.m; ++i) {
      const float* from = in.q.head(b, h).row_data(i);
      float* to = q.head(b, h).row_data(i);
      float* positioned = qv.head(b, h).row_data(i);
      for (std::size_t c = 0; c < s.d; ++c) to[c] = from[c] + u_->value[first + c];
      if (apart(i)) {
        std::fill_n(to + s.d, types(), 0.0F);
        std::fill_n(positioned, s.d, 0.0F);
        continue;
      }
      for (std::size_t c = 0; c < s.d; ++c) positioned[c] = from[c] + v_->value[first + c];
      const std::array<float, 2> terms = type_terms(from, &s_->value[first], g);
      const std::int32_t type = token.of_query(b, i);
      for (std::size_t r = 0; r < types(); ++r) {
        to[s.d + r] = terms[token.same(type, static_cast<std::int32_t>(r)) ? 1 : 0];
      }
    }
    for (std::size_t j = 0; j < s.n; ++j) {
      float* to = k.head(b, h).row_data(j);
      std::copy_n(in.k.head(b, h).row_data(j), s.d, to);
      std::fill_n(to + s.d, types(), 0.0F);
      if (!apart(j)) to[s.d + static_cast<std::size_t>(token.of_key(b, j))] = 1.0F;
    }
  });
  report(prepare_work(s));
  x.in.q = q;
  x.in.k = k;
  x.in.relative.q = qv;
  return x;
}

// Beside the product Kr, which reports itself.
Work FunnelAttention::prepare_work(const AttentionShape& s) const {
  const std::size_t rows = positioned(s);
  Work work = flops(Kind::kAdd, (s.batch * s.m + 2 * rows) * width(),
                    16 * (s.batch * s.m + 2 * rows) * width());
  work.maccs = 2 * rows * width();
  return work;
}

std::size_t FunnelAttention::prepare_bytes(const AttentionShape& s) const {
  const std::size_t count = distance_count(s);
  const std::size_t wide = s.heads * (s.d + types());
  return Arena::bytes_for<std::int32_t>(bucket_count(s)) + Arena::bytes_for(count * inputs()) +
         Arena::bytes_for(count * width()) + Arena::bytes_for(packed_floats(count, s)) +
         Arena::bytes_for(s.batch * s.m * wide) + Arena::bytes_for(s.batch * s.m * width()) +
         Arena::bytes_for(s.batch * s.n * wide);
}

Work FunnelAttention::spread_work(const AttentionShape& s) const {
  const std::size_t rows = positioned(s);
  const std::size_t all = s.batch * s.m;
  Work work = flops(Kind::kAdd, (3 * all + 3 * rows) * width(), 16 * (all + rows) * width());
  work.maccs = 4 * rows * width();
  return work;
}

AttentionCost FunnelAttention::cost(const AttentionShape& s) const {
  static const ThreadKept<std::vector<std::int32_t>> kept;
  std::vector<std::int32_t>& buckets = kept();
  if (buckets.size() < bucket_count(s)) buckets.resize(bucket_count(s));
  fill_buckets(s, std::span(buckets).first(bucket_count(s)));
  const std::size_t count = distance_count(s);
  const std::size_t w = width();
  const std::size_t dm = inputs();
  const std::size_t wide = s.heads * (s.d + types());
  AttentionCost cost =
      sparse_cost(FunnelPattern(widened(s), config_.cls),
                  {.bucket = buckets.data() + s.n - 1, .table = count, .width = s.d});
  const Work prepared = distances_.forward_work(count) + prepare_work(s);
  cost.forward += prepared;
  cost.backward += prepared;
  cost.backward += sum_table_work(count, s);
  cost.backward += product_work(w, dm, count);
  cost.backward += spread_work(s);
  const std::size_t parameters = w * dm + 5 * w;
  cost.update += flops(Kind::kAdd, parameters, 12 * parameters);
  cost.signals = Signals::floats(w, dm);
  cost.forward_scratch += prepare_bytes(s);
  cost.backward_scratch +=
      prepare_bytes(s) + Arena::bytes_for(s.batch * s.m * wide) +
      Arena::bytes_for(s.batch * s.n * wide) + Arena::bytes_for(s.batch * s.m * w) +
      Arena::bytes_for(s.batch * packed_floats(count, s)) + Arena::bytes_for(count * w);
  return cost;
}

void FunnelAttention::run_forward(const ForwardCall& call) const {
  const Operands x = prepare(call.in, call.arena);
  sparse_forward(FunnelPattern(x.shape, config_.cls), x.in, call.y, call.saved, call.arena);
}

void FunnelAttention::run_backward(const BackwardCall& call) const {
  const AttentionInputs& in = call.in;
  Arena& arena = call.arena;
  const AttentionShape s = shape_of(in);
  const Operands x = prepare(in, arena);
  SparseResults results;
  results.dq = take_heads(arena, s, s.m, x.shape.d);
  results.dk = take_heads(arena, s, s.n, x.shape.d);
  results.dv = call.grad.v;
  results.relative.q = take_heads(arena, s, s.m, s.d);
  results.relative.table = arena.matrix(s.batch * s.heads * x.r.rows, tile_pitch(s.d));
  const Matrix dkr = arena.matrix(x.r.rows, width());
  sparse_backward(FunnelPattern(x.shape, config_.cls), x.in, call.y, call.dy, call.saved, results,
                  arena);

  const Signals signals(call.signals, width(), inputs());
  sum_table(results.relative.table, s, dkr);
  gemm(dkr, x.r, signals.weight, {.transpose_a = true});
  parallel_for(s.heads, [&](std::size_t h, std::size_t) {
    spread_head(in, h, results.dq, results.relative.q, call.grad, signals);
    for (std::size_t b = 0; b < s.batch; ++b) {
      for (std::size_t j = 0; j < s.n; ++j) {
        std::copy_n(results.dk.head(b, h).row_data(j), s.d, call.grad.k.head(b, h).row_data(j));
      }
    }
  });
  report(spread_work(s));
}

void FunnelAttention::spread_head(const AttentionInputs& in, std::size_t h, const Heads& dq,
                                  const Heads& dqr, const AttentionGradients& grad,
                                  const Signals& signals) const {
  const std::size_t d = in.q.d;
  const std::size_t first = h * d;
  const ConstMatrix g = types_->matrix().slice_cols(first, d);
  const Matrix dg = signals.types.slice_cols(first, d);
  const float* offset = &s_->value[first];
  const Types token(in, config_);
  for (float* to :
       {signals.u + first, signals.v + first, signals.s + first, dg.row_data(0), dg.row_data(1)}) {
    std::fill_n(to, d, 0.0F);
  }
  for (std::size_t row = 0; row < in.q.batch * in.q.n; ++row) {
    const std::size_t b = row / in.q.n;
    const std::size_t i = row % in.q.n;
    const float* q = in.q.head(b, h).row_data(i);
    const float* wide = dq.head(b, h).row_data(i);  // through q + u and through q + v
    const float* positions = dqr.head(b, h).row_data(i);
    float* to = grad.q.head(b, h).row_data(i);
    for (std::size_t c = 0; c < d; ++c) signals.u[first + c] += wide[c] - positions[c];
    if (apart(i)) {
      for (std::size_t c = 0; c < d; ++c) to[c] = wide[c] - positions[c];
      continue;
    }
    std::array<float, 2> terms{};
    const std::int32_t type = token.of_query(b, i);
    for (std::size_t r = 0; r < types(); ++r) {
      terms[token.same(type, static_cast<std::int32_t>(r)) ? 1 : 0] += wide[d + r];
    }
    for (std::size_t c = 0; c < d; ++c) {
      const float through = terms[0] * g.row_data(0)[c] + terms[1] * g.row_data(1)[c];
      to[c] = wide[c] + through;
      signals.v[first + c] += positions[c];
      signals.s[first + c] += through;
      dg.row_data(0)[c] += terms[0] * (q[c] + offset[c]);
      dg.row_data(1)[c] += terms[1] * (q[c] + offset[c]);
    }
  }
}

void FunnelAttention::run_accumulate(const AttentionInputs& /*in*/,
                                     std::span<const float> /*saved*/,
                                     std::span<const float> signals) const {
  distances_.add_gradient({signals.data(), width(), inputs()});
  const float* next = signals.data() + width() * inputs();
  for (Parameter* p : {u_, v_, s_, types_}) {
    axpy(1.0F, ConstMatrix(next, p->rows, p->cols), p->gradient_matrix());
    next += p->size();
  }
}

}  // namespace longspan
