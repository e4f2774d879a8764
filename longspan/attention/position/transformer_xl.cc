#include "longspan/attention/position/transformer_xl.h"

#include <algorithm>
#include <vector>

#include "longspan/attention/position/relative_table.h"
#include "longspan/base/error.h"
#include "longspan/base/thread_kept.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/rows/vector.h"
#include "longspan/kernels/tiled/tile_layout.h"

namespace longspan {

namespace {

// Distances that a query of the segment can have: of a causal mask those from 0 on.
struct Distances {
  explicit Distances(const AttentionShape& s)
      : first(s.causal ? 0 : 1 - static_cast<std::ptrdiff_t>(s.n)),
        count(
            static_cast<std::size_t>(static_cast<std::ptrdiff_t>(s.history_length + s.n) - first)),
        noted(s.notes && s.m < s.n ? s.history_length + s.n - s.m : 0) {}
  std::size_t fresh() const { return count - noted; }
  std::ptrdiff_t first;
  std::size_t count;  // T
  std::size_t noted;  // whose rows of Kr are in the notes
};

void fill_buckets(const Distances& distances, std::size_t keys, std::span<std::int32_t> out) {
  const auto last = static_cast<std::ptrdiff_t>(distances.count) - 1;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::ptrdiff_t distance =
        static_cast<std::ptrdiff_t>(i) - static_cast<std::ptrdiff_t>(keys - 1);
    out[i] =
        static_cast<std::int32_t>(std::clamp<std::ptrdiff_t>(distance - distances.first, 0, last));
  }
}

// to = q + bias, heads in columns.
void add_bias(ConstHeads q, std::span<const float> bias, Heads to) {
  for (std::size_t plane = 0; plane < q.batch * q.heads; ++plane) {
    const std::size_t h = plane % q.heads;
    for (std::size_t i = 0; i < q.n; ++i) {
      const float* from = q.head(plane / q.heads, h).row_data(i);
      float* row = to.head(plane / q.heads, h).row_data(i);
      for (std::size_t c = 0; c < q.d; ++c) row[c] = from[c] + bias[h * q.d + c];
    }
  }
}

// The rows of history and then those of the segment, by head.
void join(ConstMatrix history, ConstHeads fresh, Heads to) {
  const std::size_t before = to.n - fresh.n;
  for (std::size_t plane = 0; plane < to.batch * to.heads; ++plane) {
    const std::size_t b = plane / to.heads;
    const std::size_t h = plane % to.heads;
    const Matrix all = to.head(b, h);
    copy(history.slice_rows(b * before, before).slice_cols(h * to.d, to.d),
         all.slice_rows(0, before));
    copy(fresh.head(b, h), all.slice_rows(before, fresh.n));
  }
}

}  // namespace

// What forward and backward compute on.
struct TransformerXlAttention::Operands {
  AttentionShape shape;  // with the history among the keys
  Matrix r;              // R
  SparseInputs in;
};

Abilities TransformerXlAttention::can(const TransformerXlConfig& /*config*/) {
  return {.causal = true, .key_lengths = true, .dropout = true, .decode = true};
}

Streams TransformerXlAttention::streams(const TransformerXlConfig& /*config*/,
                                        const AttentionLayout& layout) {
  Streams streams = Streams::qkv(layout);
  streams.on_call = {streams.given[1], streams.given[2]};
  for (Stream& s : streams.on_call) s.source = Source::kHistory;
  streams.on_call.push_back({.name = "distances",
                             .group = "relative",
                             .heads = layout.heads,
                             .width = layout.d_head,
                             .source = Source::kTable,
                             .bias = false});
  return streams;
}

TransformerXlAttention::TransformerXlAttention(const TransformerXlConfig& config,
                                               const AttentionSite& site)
    : Attention(can(config)),
      distances_(site.projections.of("distances")),
      history_(site.projections.of("k", "v")) {
  const Initializer normal = Initializer::normal(site.deviation);
  u_ = &site.parameters.declare(site.name + ".relative.u", site.width(), normal);
  v_ = &site.parameters.declare(site.name + ".relative.v", site.width(), normal);
}

void TransformerXlAttention::check_more(const AttentionShape& s) const {
  require(s.d == s.e, "[transformer-xl] keys are {} wide and values {}; need equal widths", s.d,
          s.e);
  require(s.history_length == 0 || history_.declared(),
          "[transformer-xl] a history of {} tokens; there are no projections for it",
          s.history_length);
}

AttentionShape TransformerXlAttention::extended(const AttentionShape& s,
                                                std::span<std::int32_t> lengths) const {
  AttentionShape all = s;
  all.n = s.history_length + s.n;
  all.history_length = 0;
  for (std::size_t b = 0; b < s.key_lengths.size(); ++b) {
    lengths[b] = s.key_lengths[b] + static_cast<std::int32_t>(s.history_length);
  }
  all.key_lengths = lengths.first(s.key_lengths.size());
  return all;
}

TransformerXlAttention::Operands TransformerXlAttention::prepare(const AttentionInputs& in,
                                                                 Arena& arena) const {
  const AttentionShape s = shape_of(in);
  const std::size_t w = width();
  const std::size_t rows = s.batch * s.m;
  Operands x;
  x.shape = extended(s, arena.take<std::int32_t>(s.batch));
  const Distances distances(s);
  const auto buckets = arena.take<std::int32_t>(bucket_count(x.shape.n));
  fill_buckets(distances, x.shape.n, buckets);
  x.r = arena.matrix(distances.fresh(), inputs());
  fill_sinusoids(distances.first + static_cast<std::ptrdiff_t>(distances.noted), 1, x.r);
  const Matrix kr = arena.matrix(distances.fresh(), w);
  distances_.forward(x.r, kr);
  x.in = SparseInputs::of(in);
  x.in.relative.bucket = buckets.data() + x.shape.n - 1;
  x.in.relative.table = pack_table(
      kr, s, s.notes ? in.notes : arena.take(packed_floats(distances.count, s)), distances.noted);
  const Heads qu = Heads::from_columns(arena.matrix(rows, w), s.batch, s.heads);
  const Heads qv = Heads::from_columns(arena.matrix(rows, w), s.batch, s.heads);
  add_bias(in.q, u_->value, qu);
  add_bias(in.q, v_->value, qv);
  report(flops(Kind::kAdd, 2 * rows * w, 16 * rows * w));
  x.in.q = qu;
  x.in.relative.q = qv;
  if (s.history_length == 0) return x;

  const Matrix projected = arena.matrix(s.batch * s.history_length, 2 * w);
  history_.forward(in.history, projected);
  const Heads k = Heads::from_columns(arena.matrix(s.batch * x.shape.n, w), s.batch, s.heads);
  const Heads v = Heads::from_columns(arena.matrix(s.batch * x.shape.n, w), s.batch, s.heads);
  join(projected.slice_cols(0, w), in.k, k);
  join(projected.slice_cols(w, w), in.v, v);
  x.in.k = k;
  x.in.v = v;
  return x;
}

std::size_t TransformerXlAttention::note_floats(const AttentionShape& s) const {
  return packed_floats(s.history_length + s.n, s);
}

Work TransformerXlAttention::prepare_work(const AttentionShape& s) const {
  const std::size_t w = width();
  const std::size_t history = s.batch * s.history_length;
  const std::size_t rows = s.batch * s.m;
  Work work = distances_.forward_work(Distances(s).fresh());
  work += flops(Kind::kAdd, 2 * rows * w, 16 * rows * w);
  if (history > 0) work += history_.forward_work(history);
  return work;
}

std::size_t TransformerXlAttention::prepare_bytes(const AttentionShape& s) const {
  const std::size_t w = width();
  const std::size_t all = s.history_length + s.n;
  const Distances distances(s);
  std::size_t bytes =
      Arena::bytes_for<std::int32_t>(s.batch) + Arena::bytes_for<std::int32_t>(bucket_count(all)) +
      Arena::bytes_for(distances.fresh() * inputs()) + Arena::bytes_for(distances.fresh() * w) +
      2 * Arena::bytes_for(s.batch * s.m * w);
  if (!s.notes) bytes += Arena::bytes_for(packed_floats(distances.count, s));
  if (s.history_length > 0) {
    bytes += Arena::bytes_for(s.batch * s.history_length * 2 * w) +
             2 * Arena::bytes_for(s.batch * all * w);
  }
  return bytes;
}

AttentionCost TransformerXlAttention::cost(const AttentionShape& s) const {
  check_more(s);
  static const ThreadKept<std::vector<std::int32_t>> kept_lengths;
  std::vector<std::int32_t>& lengths = kept_lengths();
  static const ThreadKept<std::vector<std::int32_t>> kept_buckets;
  std::vector<std::int32_t>& buckets = kept_buckets();
  if (lengths.size() < s.batch) lengths.resize(s.batch);
  const AttentionShape all = extended(s, lengths);
  const Distances distances(s);
  if (buckets.size() < bucket_count(all.n)) buckets.resize(bucket_count(all.n));
  fill_buckets(distances, all.n, std::span(buckets).first(bucket_count(all.n)));
  const std::size_t w = width();
  const std::size_t dm = inputs();
  const std::size_t history = s.batch * s.history_length;
  const std::size_t rows = s.batch * s.m;
  AttentionCost cost = sparse_cost(
      FullPattern(all), {.bucket = buckets.data() + all.n - 1, .table = distances.count});
  cost.forward += prepare_work(s);
  cost.backward += prepare_work(s);
  cost.backward += sum_table_work(distances.count, s);
  cost.backward += product_work(w, dm, distances.count);
  cost.backward += flops(Kind::kAdd, 3 * rows * w, 8 * rows * w);
  cost.update += flops(Kind::kAdd, w * dm + 2 * w, 12 * (w * dm + 2 * w));
  if (history > 0) cost.update += history_.update_work(history);
  cost.signals = w * dm + 2 * w + distances.count * w + history * 2 * w;
  cost.forward_scratch += prepare_bytes(s);
  cost.backward_scratch += prepare_bytes(s) + Arena::bytes_for(rows * w) +
                           Arena::bytes_for(s.batch * packed_floats(distances.count, s));
  if (history > 0) cost.backward_scratch += 2 * Arena::bytes_for(s.batch * all.n * w);
  return cost;
}

void TransformerXlAttention::run_forward(const ForwardCall& call) const {
  const AttentionInputs& in = call.in;
  const Heads y = call.y;
  const std::span<float> saved = call.saved;
  Arena& arena = call.arena;
  const Operands x = prepare(in, arena);
  sparse_forward(FullPattern(x.shape), x.in, y, saved, arena);
}

void TransformerXlAttention::run_backward(const BackwardCall& call) const {
  const AttentionInputs& in = call.in;
  const ConstHeads y = call.y;
  const ConstHeads dy = call.dy;
  const std::span<const float> saved = call.saved;
  const AttentionGradients& grad = call.grad;
  const std::span<float> signals = call.signals;
  Arena& arena = call.arena;
  const AttentionShape s = shape_of(in);
  const std::size_t w = width();
  const std::size_t h = s.history_length;
  const Operands x = prepare(in, arena);
  SparseResults results{grad.q, grad.k, grad.v, {}};
  results.relative.q = Heads::from_columns(arena.matrix(s.batch * s.m, w), s.batch, s.heads);
  results.relative.table = arena.matrix(s.batch * s.heads * x.r.rows, tile_pitch(s.d));
  if (h > 0) {
    results.dk = Heads::from_columns(arena.matrix(s.batch * x.shape.n, w), s.batch, s.heads);
    results.dv = Heads::from_columns(arena.matrix(s.batch * x.shape.n, w), s.batch, s.heads);
  }
  sparse_backward(FullPattern(x.shape), x.in, y, dy, saved, results, arena);

  // Signals: dW_kR, du, dv, dKr, the gradient of the projected history.
  const Matrix dkr(signals.data() + w * inputs() + 2 * w, x.r.rows, w);
  sum_table(results.relative.table, s, dkr);
  gemm(dkr, x.r, {signals.data(), w, inputs()}, {.transpose_a = true});
  const std::span<float> du = signals.subspan(w * inputs(), w);
  const std::span<float> dv = signals.subspan(w * inputs() + w, w);
  std::ranges::fill(du, 0.0F);
  std::ranges::fill(dv, 0.0F);
  for (std::size_t plane = 0; plane < s.batch * s.heads; ++plane) {
    const std::size_t first = plane % s.heads * s.d;
    const Matrix dq = grad.q.head(plane / s.heads, plane % s.heads);
    const Matrix dqr = results.relative.q.head(plane / s.heads, plane % s.heads);
    for (std::size_t i = 0; i < s.m; ++i) {
      for (std::size_t c = 0; c < s.d; ++c) {
        du[first + c] += dq.row_data(i)[c] - dqr.row_data(i)[c];
        dv[first + c] += dqr.row_data(i)[c];
      }
    }
  }
  report(flops(Kind::kAdd, 3 * s.batch * s.m * w, 8 * s.batch * s.m * w));
  if (h == 0) return;
  const Matrix past(dkr.data + dkr.size(), s.batch * h, 2 * w);
  for (std::size_t plane = 0; plane < s.batch * s.heads; ++plane) {
    const std::size_t b = plane / s.heads;
    const std::size_t head = plane % s.heads;
    const Matrix dk = results.dk.head(b, head);
    const Matrix dvs = results.dv.head(b, head);
    copy(dk.slice_rows(0, h), past.slice_rows(b * h, h).slice_cols(head * s.d, s.d));
    copy(dvs.slice_rows(0, h), past.slice_rows(b * h, h).slice_cols(w + head * s.d, s.d));
    copy(dk.slice_rows(h, s.n), grad.k.head(b, head));
    copy(dvs.slice_rows(h, s.n), grad.v.head(b, head));
  }
}

ConstMatrix TransformerXlAttention::history_signal(std::span<const float> signals,
                                                   const AttentionShape& s) const {
  const ConstMatrix dkr = table_signal(signals, s);
  return {dkr.data + dkr.size(), s.batch * s.history_length, 2 * width()};
}

ConstMatrix TransformerXlAttention::table_signal(std::span<const float> signals,
                                                 const AttentionShape& s) const {
  return {signals.data() + width() * (inputs() + 2), Distances(s).count, width()};
}

void TransformerXlAttention::run_accumulate(const AttentionInputs& in,
                                            std::span<const float> /*saved*/,
                                            std::span<const float> signals) const {
  const AttentionShape s = shape_of(in);
  const std::size_t w = width();
  distances_.add_gradient({signals.data(), w, inputs()});
  const float* next = signals.data() + w * inputs();
  for (Parameter* p : {u_, v_}) {
    axpy(1.0F, ConstMatrix(next, p->rows, p->cols), p->gradient_matrix());
    next += p->size();
  }
  if (s.history_length > 0) history_.accumulate(in.history, history_signal(signals, s));
}

}  // namespace longspan
