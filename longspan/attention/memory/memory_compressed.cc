#include "longspan/attention/memory/memory_compressed.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "longspan/base/cost.h"
#include "longspan/base/error.h"
#include "longspan/base/integers.h"
#include "longspan/base/number.h"
#include "longspan/base/parallel.h"
#include "longspan/base/thread_kept.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/rows/vector.h"

namespace longspan {

namespace {

// The first query whose position is `remainder` modulo `stride`, m queries being the last of n.
std::size_t first_query(const AttentionShape& s, std::size_t stride, std::size_t remainder) {
  const std::size_t offset = (s.n - s.m) % stride;
  return (remainder + stride - offset) % stride;
}

std::size_t query_count(const AttentionShape& s, std::size_t stride, std::size_t remainder) {
  const std::size_t first = first_query(s, stride, remainder);
  return first < s.m ? divide_up(s.m - first, stride) : 0;
}

// Every `stride`-th position from `first`.
template <class T>
HeadsView<T> strided(const HeadsView<T>& x, std::size_t first, std::size_t stride,
                     std::size_t count) {
  HeadsView<T> v = x;
  v.data += first * x.row_stride;
  v.row_stride *= stride;
  v.n = count;
  return v;
}

// K̄ and V̄, [batch, heads, slots, width] one after the other.
template <class T>
struct Bars {
  HeadsView<T> k;
  HeadsView<T> v;

  Bars(T* memory, const AttentionShape& s, std::size_t slots)
      : k(memory, s.batch, s.kv_heads, slots, s.d),
        v(memory + round(s.batch * s.kv_heads * slots * s.d), s.batch, s.kv_heads, slots, s.e) {}

  static std::size_t round(std::size_t floats) { return (floats + 15) / 16 * 16; }
  static std::size_t floats(const AttentionShape& s, std::size_t slots) {
    return round(s.batch * s.kv_heads * slots * s.d) + round(s.batch * s.kv_heads * slots * s.e);
  }
};

}  // namespace

Abilities MemoryCompressedAttention::can(const MemoryCompressedConfig& config) {
  check_numbers(kName, config);
  return {
      .causal = true, .key_lengths = true, .dropout = true, .grouped_heads = true, .decode = true};
}

MemoryCompressedAttention::MemoryCompressedAttention(const MemoryCompressedConfig& config,
                                                     const AttentionSite& site)
    : Attention(can(config)), config_(config) {
  const std::size_t cols = config_.stride * site.d_head;
  const Initializer draw = Initializer::normal(1.0F / std::sqrt(static_cast<float>(cols)));
  const std::size_t rows = site.kv_heads * site.d_head;
  keys_ = &site.parameters.declare(site.name + ".compressed.keys", rows, cols, draw);
  values_ = &site.parameters.declare(site.name + ".compressed.values", rows, cols, draw);
}

std::size_t MemoryCompressedAttention::real_slots(std::size_t n, std::size_t length,
                                                  bool causal) const {
  if (length == 0) return 0;
  const std::size_t shift = causal ? config_.stride - 1 : 0;
  return std::min(slots(n), slots(length + shift));
}

AttentionShape MemoryCompressedAttention::part(const AttentionShape& s, std::size_t remainder,
                                               std::span<std::int32_t> lengths) const {
  AttentionShape t = s;
  t.n = slots(s.n);
  t.key_lengths = {};
  if (s.causal) {
    t.m = query_count(s, config_.stride, remainder);
    const std::size_t first = first_query(s, config_.stride, remainder);
    const std::size_t last = first + (std::max<std::size_t>(t.m, 1) - 1) * config_.stride;
    t.n = (last + s.n - s.m) / config_.stride + 1;
  }
  if (s.key_lengths.empty()) return t;
  for (std::size_t b = 0; b < s.batch; ++b) {
    const auto length = static_cast<std::size_t>(s.key_lengths[b]);
    lengths[b] = static_cast<std::int32_t>(std::min(t.n, real_slots(s.n, length, s.causal)));
  }
  t.key_lengths = lengths.first(s.batch);
  return t;
}

Work MemoryCompressedAttention::convolution_work(const AttentionShape& s) const {
  const std::size_t shift = s.causal ? config_.stride - 1 : 0;
  const std::size_t covered = slots(s.n) * config_.stride - shift;  // tokens that a slot can hold
  std::uint64_t keys = 0;
  for (std::size_t b = 0; b < s.batch; ++b) {
    const std::size_t length =
        s.key_lengths.empty() ? s.n : static_cast<std::size_t>(s.key_lengths[b]);
    keys += std::min(length, covered);
  }
  Work work = maccs(s.kv_heads * keys * (s.d * s.d + s.e * s.e));
  work.bytes[static_cast<std::size_t>(Kind::kMatmul)] =
      sizeof(float) * s.batch * s.kv_heads * (s.n + slots(s.n)) * (s.d + s.e);
  return work;
}

// dK̄ and dV̄, summed over the remainders.
Work MemoryCompressedAttention::sum_work(const AttentionShape& s) const {
  AttentionShape plain = s;
  plain.key_lengths = {};
  std::uint64_t rows = 0;
  for (std::size_t r = 0; r < remainders(s); ++r) {
    const AttentionShape t = part(plain, r, {});
    if (t.m > 0) rows += t.n;
  }
  return flops(Kind::kAdd, rows * s.batch * s.kv_heads * (s.d + s.e));
}

AttentionCost MemoryCompressedAttention::cost(const AttentionShape& s) const {
  static const ThreadKept<std::vector<std::int32_t>> kept;
  std::vector<std::int32_t>& lengths = kept();
  if (lengths.size() < s.batch) lengths.resize(s.batch);
  const std::size_t bars = Bars<float>::floats(s, slots(s.n));
  AttentionCost cost;
  for (std::size_t r = 0; r < remainders(s); ++r) {
    const AttentionShape t = part(s, r, lengths);
    if (t.m == 0) continue;
    const AttentionCost flash = flash_.cost(t);
    cost.forward += flash.forward;
    cost.backward += flash.backward;
    cost.saved += flash.saved;
    cost.forward_scratch = std::max(cost.forward_scratch, flash.forward_scratch);
    cost.backward_scratch = std::max(cost.backward_scratch, flash.backward_scratch);
  }
  cost.forward += convolution_work(s);
  cost.backward += convolution_work(s) + sum_work(s);
  cost.update = convolution_work(s);
  cost.saved += bars;
  cost.signals = bars;
  const std::size_t book = Arena::bytes_for<std::int32_t>(s.batch) + Arena::bytes_for(bars);
  cost.forward_scratch += book;
  cost.backward_scratch += book;
  return cost;
}

// The convolutions of one call.
class MemoryCompressedAttention::Pass {
 public:
  Pass(const MemoryCompressedAttention& mechanism, const AttentionInputs& in)
      : stride_(mechanism.config_.stride),
        shift_(in.mask.causal ? stride_ - 1 : 0),
        mechanism_(mechanism),
        in_(in) {}

  void forward(const Bars<float>& bars) const {
    each_head([&](bool values, std::size_t b, std::size_t h) {
      const Matrix to = (values ? bars.v : bars.k).head(b, h);
      for (std::size_t t = 0; t < to.rows; ++t) std::ranges::fill(to.row(t), 0.0F);
      const ConstMatrix x = (values ? in_.v : in_.k).head(b, h);
      for (std::size_t r = 0; r < stride_; ++r) {
        const Run run = run_of(b, r, to.rows);
        gemm_serial(tokens(x, run), weight(values, h, r), to.slice_rows(run.slot, run.count),
                    {.transpose_b = true, .add = true});
      }
    });
  }

  void backward(const Bars<const float>& bars, const Heads& dk, const Heads& dv) const {
    each_head([&](bool values, std::size_t b, std::size_t h) {
      const Matrix dx = (values ? dv : dk).head(b, h);
      for (std::size_t j = 0; j < dx.rows; ++j) std::ranges::fill(dx.row(j), 0.0F);
      const ConstMatrix from = (values ? bars.v : bars.k).head(b, h);
      for (std::size_t r = 0; r < stride_; ++r) {
        const Run run = run_of(b, r, from.rows);
        gemm_serial(from.slice_rows(run.slot, run.count), weight(values, h, r), tokens(dx, run));
      }
    });
  }

  // Over the batch in order.
  void accumulate(const Bars<const float>& bars) const {
    parallel_for(2 * in_.k.heads, [&](std::size_t task, std::size_t) {
      const bool values = task % 2 == 1;
      const std::size_t h = task / 2;
      const ConstHeads& x = values ? in_.v : in_.k;
      const Parameter& p = *(values ? mechanism_.values_ : mechanism_.keys_);
      for (std::size_t b = 0; b < x.batch; ++b) {
        const ConstMatrix from = (values ? bars.v : bars.k).head(b, h);
        for (std::size_t r = 0; r < stride_; ++r) {
          const Run run = run_of(b, r, from.rows);
          gemm_serial(from.slice_rows(run.slot, run.count), tokens(x.head(b, h), run),
                      p.gradient_matrix().slice_rows(h * x.d, x.d).slice_cols(r * x.d, x.d),
                      {.transpose_a = true, .add = true});
        }
      }
    });
  }

 private:
  // Tokens `token`, token + s, … fall on offset r of the slots from `slot` on.
  struct Run {
    std::size_t slot = 0;
    std::size_t token = 0;
    std::size_t count = 0;
  };
  Run run_of(std::size_t b, std::size_t r, std::size_t slots) const {
    Run run;
    run.slot = r < shift_ ? 1 : 0;
    run.token = run.slot * stride_ + r - shift_;
    const std::size_t keys = in_.mask.keys(b, in_.k.n);
    if (run.slot >= slots || run.token >= keys) return {};
    run.count = std::min(slots - run.slot, divide_up(keys - run.token, stride_));
    return run;
  }
  template <class T>
  MatrixView<T> tokens(const MatrixView<T>& x, const Run& run) const {
    return {x.row_data(run.token), run.count, x.cols, x.stride * stride_};
  }
  ConstMatrix weight(bool values, std::size_t h, std::size_t r) const {
    const std::size_t d = values ? in_.v.d : in_.k.d;
    return (values ? mechanism_.values_ : mechanism_.keys_)
        ->matrix()
        .slice_rows(h * d, d)
        .slice_cols(r * d, d);
  }
  // f(values, b, h) for keys and values of every key head.
  template <class F>
  void each_head(const F& f) const {
    parallel_for(in_.k.batch * in_.k.heads * 2, [&](std::size_t task, std::size_t) {
      f(task % 2 == 1, task / 2 / in_.k.heads, task / 2 % in_.k.heads);
    });
  }

  std::size_t stride_;
  std::size_t shift_;
  const MemoryCompressedAttention& mechanism_;
  const AttentionInputs& in_;
};

namespace {

AttentionInputs part_inputs(const AttentionInputs& in, ConstHeads q, const ConstHeads& k,
                            const ConstHeads& v, const AttentionShape& part,
                            std::size_t remainder) {
  AttentionInputs inputs = in;
  inputs.q = q;
  inputs.k = k.first(part.n);
  inputs.v = v.first(part.n);
  inputs.mask.key_lengths = part.key_lengths;
  inputs.dropout.key = derive(in.dropout.key, remainder);
  return inputs;
}

}  // namespace

void MemoryCompressedAttention::run_forward(const ForwardCall& call) const {
  const AttentionInputs& in = call.in;
  const Heads y = call.y;
  const std::span<float> saved = call.saved;
  Arena& arena = call.arena;
  const AttentionShape s = shape_of(in);
  const auto lengths = arena.take<std::int32_t>(s.batch);
  const auto memory = arena.take(Bars<float>::floats(s, slots(s.n)));
  const Bars<float> bars(memory.data(), s, slots(s.n));
  Pass(*this, in).forward(bars);
  report(convolution_work(s));
  if (!saved.empty()) std::ranges::copy(memory, saved.begin());
  std::size_t at = memory.size();
  for (std::size_t r = 0; r < remainders(s); ++r) {
    const std::size_t step = s.causal ? config_.stride : 1;
    const std::size_t first = s.causal ? first_query(s, step, r) : 0;
    const AttentionShape t = part(s, r, lengths);
    if (t.m == 0) continue;
    const std::size_t floats = s.batch * s.heads * t.m;
    flash_.forward({part_inputs(in, strided(in.q, first, step, t.m), bars.k, bars.v, t, r),
                    strided(y, first, step, t.m), saved.empty() ? saved : saved.subspan(at, floats),
                    arena});
    at += floats;
  }
}

void MemoryCompressedAttention::run_backward(const BackwardCall& call) const {
  const AttentionInputs& in = call.in;
  const ConstHeads y = call.y;
  const ConstHeads dy = call.dy;
  const std::span<const float> saved = call.saved;
  const AttentionGradients& grad = call.grad;
  const std::span<float> signals = call.signals;
  Arena& arena = call.arena;
  const AttentionShape s = shape_of(in);
  const auto lengths = arena.take<std::int32_t>(s.batch);
  const auto memory = arena.take(signals.size());
  const Bars<const float> bars(saved.data(), s, slots(s.n));
  std::ranges::fill(signals, 0.0F);
  std::size_t at = signals.size();
  for (std::size_t r = 0; r < remainders(s); ++r) {
    const std::size_t step = s.causal ? config_.stride : 1;
    const std::size_t first = s.causal ? first_query(s, step, r) : 0;
    const AttentionShape t = part(s, r, lengths);
    if (t.m == 0) continue;
    const std::size_t floats = s.batch * s.heads * t.m;
    const Bars<float> own(memory.data(), s, t.n);
    flash_.backward({part_inputs(in, strided(in.q, first, step, t.m), bars.k, bars.v, t, r),
                     strided(y, first, step, t.m),
                     strided(dy, first, step, t.m),
                     saved.subspan(at, floats),
                     {.q = strided(grad.q, first, step, t.m), .k = own.k, .v = own.v},
                     {},
                     arena});
    at += floats;
    const Bars<float> sum(signals.data(), s, slots(s.n));
    parallel_for(s.batch * s.kv_heads, [&](std::size_t plane, std::size_t) {
      const auto add = [&](const Heads& from, const Heads& to) {
        const Matrix a = from.head(plane / s.kv_heads, plane % s.kv_heads);
        const Matrix b = to.head(plane / s.kv_heads, plane % s.kv_heads);
        for (std::size_t i = 0; i < a.rows; ++i) add_row(a.row(i), b.row_data(i));
      };
      add(own.k, sum.k);
      add(own.v, sum.v);
    });
  }
  Pass(*this, in).backward(Bars<const float>(signals.data(), s, slots(s.n)), grad.k, grad.v);
  report(convolution_work(s) + sum_work(s));
}

void MemoryCompressedAttention::run_accumulate(const AttentionInputs& in,
                                               std::span<const float> /*saved*/,
                                               std::span<const float> signals) const {
  const AttentionShape s = shape_of(in);
  Pass(*this, in).accumulate(Bars<const float>(signals.data(), s, slots(s.n)));
  report(convolution_work(s));
}

}  // namespace longspan
