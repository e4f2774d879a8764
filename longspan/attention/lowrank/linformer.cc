#include "longspan/attention/lowrank/linformer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "longspan/attention/lowrank/linformer_scores.h"
#include "longspan/base/cost.h"
#include "longspan/base/error.h"
#include "longspan/base/integers.h"
#include "longspan/base/number.h"
#include "longspan/base/parallel.h"
#include "longspan/base/thread_kept.h"
#include "longspan/kernels/gemm/gemm.h"

namespace longspan {

namespace {

// Rows and columns of a product that a task computes; the tokens of a projection are packed once
// for all its slots, if they are not many.
constexpr std::size_t kDown = 256;
constexpr std::size_t kAcross = 64;
constexpr std::size_t kTokens = 128;  // columns of dE that a task computes

// K̄ and V̄, [batch, k, heads·d] and [batch, k, heads·e] one after the other.
template <class T>
struct Slots {
  HeadsView<T> k;
  HeadsView<T> v;

  Slots(T* memory, const AttentionShape& s, std::size_t slots)
      : k(HeadsView<T>::from_columns({memory, s.batch * slots, s.kv_heads * s.d}, s.batch,
                                     s.kv_heads)),
        v(HeadsView<T>::from_columns(
            {memory + floats(s, slots, s.d), s.batch * slots, s.kv_heads * s.e}, s.batch,
            s.kv_heads)) {}

  static std::size_t floats(const AttentionShape& s, std::size_t slots, std::size_t width) {
    return (s.batch * slots * s.kv_heads * width + 15) / 16 * 16;
  }
  static std::size_t floats(const AttentionShape& s, std::size_t slots) {
    return floats(s, slots, s.d) + floats(s, slots, s.e);
  }
};

// Heads that lie side by side can be one product if they share their projection.
template <class T>
bool side_by_side(const HeadsView<T>& x) {
  return x.heads == 1 || x.head_stride == x.d;
}

template <class T>
MatrixView<T> columns(const HeadsView<T>& x, std::size_t b, std::size_t piece, std::size_t pieces) {
  const MatrixView<T> head = x.head(b, piece);
  return {head.data, x.n, pieces == 1 ? x.heads * x.d : x.d, x.row_stride};
}

}  // namespace

Abilities LinformerAttention::can(const LinformerConfig& c) {
  check_numbers(kName, c);
  return {.cross = true,
          .key_lengths = true,
          .dropout = true,
          .grouped_heads = true,
          .not_causal = "every slot mixes all positions, so the past would see the future"};
}

LinformerAttention::LinformerAttention(const LinformerConfig& config, const AttentionSite& site)
    : Attention(can(config)),
      config_(config),
      max_length_(config.length == 0 ? site.max_length : config.length) {
  require(max_length_ > 0, "[linformer] the longest sequence is unknown; set length");
  if (config_.projection == LinformerProjection::kPool) return;
  const bool learned = config_.projection == LinformerProjection::kLearned;
  const std::size_t heads = config_.sharing == LinformerSharing::kNone ? site.kv_heads : 1;
  const std::size_t rows = heads * (learned ? config_.k : 1);
  const std::size_t cols = learned ? max_length_ : window();
  const Initializer draw =
      Initializer::normal(1.0F / std::sqrt(static_cast<float>(learned ? config_.k : cols)));
  const bool stack = config_.sharing == LinformerSharing::kLayerwise;
  const std::string name = (stack ? site.stack : site.name) + ".linformer";
  e_ = stack ? site.parameters.find(name + ".e") : nullptr;
  if (e_ == nullptr) e_ = &site.parameters.declare(name + ".e", rows, cols, draw);
  const bool one = stack || config_.sharing == LinformerSharing::kKeyValue;
  if (stack) e_->place.block.reset();
  f_ = one ? e_ : &site.parameters.declare(name + ".f", rows, cols, draw);
}

std::size_t LinformerAttention::slots(std::size_t length) const {
  return config_.projection == LinformerProjection::kLearned
             ? config_.k
             : divide_up(length, std::max<std::size_t>(1, window()));
}

void LinformerAttention::check_more(const AttentionShape& s) const {
  require(s.n <= max_length_, "[linformer] {} keys; it was made for at most {}", s.n, max_length_);
}

// What flash sees; `lengths` has room for the batch.
AttentionShape LinformerAttention::slot_shape(const AttentionShape& s,
                                              std::span<std::int32_t> lengths) const {
  AttentionShape t = s;
  t.n = slots(s.n);
  t.key_lengths = {};
  if (config_.projection == LinformerProjection::kLearned || s.key_lengths.empty()) return t;
  for (std::size_t b = 0; b < s.batch; ++b) {
    lengths[b] = static_cast<std::int32_t>(slots(static_cast<std::size_t>(s.key_lengths[b])));
  }
  t.key_lengths = lengths.first(s.batch);
  return t;
}

Work LinformerAttention::projection_work(const AttentionShape& s) const {
  const std::uint64_t each = config_.projection == LinformerProjection::kLearned ? config_.k : 1;
  const std::uint64_t width = s.kv_heads * (s.d + s.e);
  Work work = maccs(real_keys(s) * each * width);
  work.bytes[static_cast<std::size_t>(Kind::kMatmul)] =
      sizeof(float) * s.batch * (s.n + slots(s.n)) * width;
  return work;
}

bool LinformerAttention::scores_first(const AttentionShape& s) const {
  return config_.projection == LinformerProjection::kLearned && scores_come_first(s, config_.k);
}

AttentionCost LinformerAttention::cost(const AttentionShape& s) const {
  if (scores_first(s)) return scores_first_cost(s, config_.k);
  static const ThreadKept<std::vector<std::int32_t>> kept;
  std::vector<std::int32_t>& lengths = kept();
  if (lengths.size() < s.batch) lengths.resize(s.batch);
  const std::size_t bars = Slots<float>::floats(s, slots(s.n));
  const Work projection = projection_work(s);
  AttentionCost cost = flash_.cost(slot_shape(s, lengths));
  cost.forward += projection;
  cost.backward += projection;
  if (config_.projection != LinformerProjection::kPool) cost.update = projection;
  cost.saved += bars;
  cost.signals = bars;
  const std::size_t book = Arena::bytes_for<std::int32_t>(s.batch);
  cost.forward_scratch += Arena::bytes_for(bars) + book;
  cost.backward_scratch += book;
  return cost;
}

// The projections of one call; which = 0 for keys and 1 for values.
class LinformerAttention::Pass {
 public:
  Pass(const LinformerAttention& mechanism, const AttentionInputs& in)
      : mechanism_(mechanism), in_(in) {}

  // bars = E·K and F·V.
  void project(const Slots<float>& bars) const {
    for_both([&](bool values) {
      const ConstHeads& x = values ? in_.v : in_.k;
      const Heads& bar = values ? bars.v : bars.k;
      if (!learned())
        return each_head([&](std::size_t b, std::size_t h) { pool(values, b, h, x, bar); });
      each_tile(x, bar.n, [&](std::size_t b, std::size_t piece, std::size_t pieces, const Tile& t) {
        const std::size_t keys = in_.mask.keys(b, x.n);
        gemm_serial(
            table(values, piece, pieces).slice_rows(t.row, t.rows).slice_cols(0, keys),
            columns(x, b, piece, pieces).slice_rows(0, keys).slice_cols(t.col, t.cols),
            columns(bar, b, piece, pieces).slice_rows(t.row, t.rows).slice_cols(t.col, t.cols));
      });
    });
  }

  // dk = Eᵀ·dK̄ and dv = Fᵀ·dV̄, zeros for padding.
  void unproject(const Slots<const float>& bars, const Heads& dk, const Heads& dv) const {
    for_both([&](bool values) {
      const Heads& dx = values ? dv : dk;
      const ConstHeads& bar = values ? bars.v : bars.k;
      if (!learned())
        return each_head([&](std::size_t b, std::size_t h) { unpool(values, b, h, bar, dx); });
      each_tile(dx, dx.n, [&](std::size_t b, std::size_t piece, std::size_t pieces, const Tile& t) {
        const std::size_t keys = in_.mask.keys(b, dx.n);
        const std::size_t real = std::clamp(keys, t.row, t.row + t.rows) - t.row;
        const Matrix to =
            columns(dx, b, piece, pieces).slice_rows(t.row, t.rows).slice_cols(t.col, t.cols);
        gemm_serial(table(values, piece, pieces).slice_cols(t.row, real),
                    columns(bar, b, piece, pieces).slice_cols(t.col, t.cols),
                    to.slice_rows(0, real), {.transpose_a = true});
        for (std::size_t i = real; i < t.rows; ++i) std::ranges::fill(to.row(i), 0.0F);
      });
    });
  }

  // dE += dK̄·Kᵀ and dF += dV̄·Vᵀ, over the batch in order.
  void accumulate(const Slots<const float>& bars) const {
    for_both([&](bool values) {
      const ConstHeads& x = values ? in_.v : in_.k;
      const ConstHeads& bar = values ? bars.v : bars.k;
      const Parameter& p = *(values ? mechanism_.f_ : mechanism_.e_);
      if (!learned()) return accumulate_kernel(x, bar, p);
      const std::size_t pieces = pieces_of(x);
      const std::size_t tables = own() ? x.heads : 1;
      const std::size_t across = divide_up(x.n, kTokens);
      parallel_for(tables * across, [&](std::size_t task, std::size_t) {
        const std::size_t first = task % across * kTokens;
        for (std::size_t b = 0; b < x.batch; ++b) {
          const std::size_t keys = in_.mask.keys(b, x.n);
          const std::size_t real = std::clamp(keys, first, std::min(first + kTokens, x.n)) - first;
          for (std::size_t piece = 0; piece < pieces; ++piece) {
            if (own() && piece != task / across) continue;
            gemm_serial(columns(bar, b, piece, pieces),
                        columns(x, b, piece, pieces).slice_rows(first, real),
                        p.gradient_matrix()
                            .slice_rows(task / across * bar.n, bar.n)
                            .slice_cols(first, real),
                        {.transpose_b = true, .add = true});
          }
        }
      });
    });
  }

 private:
  struct Tile {
    std::size_t row, rows, col, cols;
  };

  bool learned() const { return mechanism_.config_.projection == LinformerProjection::kLearned; }
  bool own() const { return mechanism_.config_.sharing == LinformerSharing::kNone; }
  template <class T>
  std::size_t pieces_of(const HeadsView<T>& x) const {
    return own() || !side_by_side(x) ? x.heads : 1;
  }
  ConstMatrix table(bool values, std::size_t piece, std::size_t /*pieces*/) const {
    const ConstMatrix all = (values ? mechanism_.f_ : mechanism_.e_)->matrix();
    return all.slice_rows(own() ? piece * mechanism_.config_.k : 0, mechanism_.config_.k);
  }

  template <class F>
  static void for_both(const F& f) {
    f(false);
    f(true);
  }
  // f(b, h) for every key head.
  template <class F>
  void each_head(const F& f) const {
    parallel_for(in_.k.batch * in_.k.heads,
                 [&](std::size_t task, std::size_t) { f(task / in_.k.heads, task % in_.k.heads); });
  }
  // f(b, piece, pieces, tile) for tiles of [rows, columns of x].
  template <class T, class F>
  void each_tile(const HeadsView<T>& x, std::size_t rows, const F& f) const {
    const std::size_t pieces = pieces_of(x);
    const std::size_t cols = pieces == 1 ? x.heads * x.d : x.d;
    const std::size_t down = divide_up(rows, kDown);
    const std::size_t across = divide_up(cols, kAcross);
    parallel_for(x.batch * pieces * down * across, [&](std::size_t task, std::size_t) {
      const std::size_t row = task / across % down * kDown;
      const std::size_t col = task % across * kAcross;
      const std::size_t plane = task / across / down;
      f(plane / pieces, plane % pieces, pieces,
        Tile{row, std::min(kDown, rows - row), col, std::min(kAcross, cols - col)});
    });
  }

  // The weight of offset r in a slot that holds `count` tokens.
  float weight(bool values, std::size_t h, std::size_t r, std::size_t count) const {
    if (mechanism_.config_.projection == LinformerProjection::kPool)
      return 1.0F / static_cast<float>(count);
    const Parameter& p = *(values ? mechanism_.f_ : mechanism_.e_);
    return p.value[(own() ? h : 0) * p.cols + r];
  }
  // f(slot, token, offset, tokens in the slot) for the tokens of a sequence.
  template <class F>
  void each_token(std::size_t b, const F& f) const {
    const std::size_t w = mechanism_.window();
    const std::size_t keys = in_.mask.keys(b, in_.k.n);
    for (std::size_t j = 0; j < keys; ++j) {
      f(j / w, j, j % w, std::min(w, keys - j / w * w));
    }
  }
  void pool(bool values, std::size_t b, std::size_t h, const ConstHeads& x,
            const Heads& bar) const {
    const Matrix to = bar.head(b, h);
    const ConstMatrix from = x.head(b, h);
    for (std::size_t t = 0; t < to.rows; ++t) std::ranges::fill(to.row(t), 0.0F);
    each_token(b, [&](std::size_t t, std::size_t j, std::size_t r, std::size_t count) {
      const float c = weight(values, h, r, count);
      for (std::size_t i = 0; i < to.cols; ++i) to.row_data(t)[i] += c * from.row_data(j)[i];
    });
  }
  void unpool(bool values, std::size_t b, std::size_t h, const ConstHeads& bar,
              const Heads& dx) const {
    const Matrix to = dx.head(b, h);
    const ConstMatrix from = bar.head(b, h);
    each_token(b, [&](std::size_t t, std::size_t j, std::size_t r, std::size_t count) {
      const float c = weight(values, h, r, count);
      for (std::size_t i = 0; i < to.cols; ++i) to.row_data(j)[i] = c * from.row_data(t)[i];
    });
    for (std::size_t j = in_.mask.keys(b, dx.n); j < dx.n; ++j) {
      std::ranges::fill(to.row(j), 0.0F);
    }
  }
  void accumulate_kernel(const ConstHeads& x, const ConstHeads& bar, const Parameter& p) const {
    for (std::size_t b = 0; b < x.batch; ++b) {
      for (std::size_t h = 0; h < x.heads; ++h) {
        const ConstMatrix from = bar.head(b, h);
        const ConstMatrix tokens = x.head(b, h);
        each_token(b, [&](std::size_t t, std::size_t j, std::size_t r, std::size_t) {
          float dot = 0.0F;
          for (std::size_t i = 0; i < x.d; ++i) dot += from.row_data(t)[i] * tokens.row_data(j)[i];
          p.gradient[(own() ? h : 0) * p.cols + r] += dot;
        });
      }
    }
  }

  const LinformerAttention& mechanism_;
  const AttentionInputs& in_;
};

namespace {

LinformerTables tables_of(const Parameter& e, const Parameter& f, const LinformerConfig& config) {
  return {e.matrix(), f.matrix(), config.k, config.sharing == LinformerSharing::kNone};
}

AttentionInputs slot_inputs(const AttentionInputs& in, ConstHeads k, ConstHeads v,
                            const AttentionShape& shape) {
  AttentionInputs slots = in;
  slots.k = k;
  slots.v = v;
  slots.mask.key_lengths = shape.key_lengths;
  return slots;
}

}  // namespace

void LinformerAttention::run_forward(const ForwardCall& call) const {
  const AttentionInputs& in = call.in;
  const Heads y = call.y;
  const std::span<float> saved = call.saved;
  Arena& arena = call.arena;
  const AttentionShape s = shape_of(in);
  check_more(s);
  if (scores_first(s)) {
    return scores_first_forward(tables_of(*e_, *f_, config_), in, y, saved, arena);
  }
  const std::size_t floats = Slots<float>::floats(s, slots(s.n));
  const auto memory = arena.take(floats);
  const AttentionShape t = slot_shape(s, arena.take<std::int32_t>(s.batch));
  const Slots<float> bars(memory.data(), s, slots(s.n));
  Pass(*this, in).project(bars);
  report(projection_work(s));
  const std::span<float> rest = saved.empty() ? saved : saved.subspan(floats);
  if (!saved.empty()) std::ranges::copy(memory, saved.begin());
  flash_.forward({slot_inputs(in, bars.k, bars.v, t), y, rest, arena});
}

void LinformerAttention::run_backward(const BackwardCall& call) const {
  const AttentionInputs& in = call.in;
  const ConstHeads y = call.y;
  const ConstHeads dy = call.dy;
  const std::span<const float> saved = call.saved;
  const AttentionGradients& grad = call.grad;
  const std::span<float> signals = call.signals;
  Arena& arena = call.arena;
  const AttentionShape s = shape_of(in);
  if (scores_first(s)) {
    return scores_first_backward(tables_of(*e_, *f_, config_), in, dy, saved, grad, signals, arena);
  }
  const std::size_t floats = Slots<float>::floats(s, slots(s.n));
  const AttentionShape t = slot_shape(s, arena.take<std::int32_t>(s.batch));
  const Slots<const float> bars(saved.data(), s, slots(s.n));
  const Slots<float> dbars(signals.data(), s, slots(s.n));
  flash_.backward({slot_inputs(in, bars.k, bars.v, t),
                   y,
                   dy,
                   saved.subspan(floats),
                   {.q = grad.q, .k = dbars.k, .v = dbars.v},
                   {},
                   arena});
  Pass(*this, in).unproject(Slots<const float>(signals.data(), s, slots(s.n)), grad.k, grad.v);
  report(projection_work(s));
}

void LinformerAttention::run_accumulate(const AttentionInputs& in, std::span<const float> /*saved*/,
                                        std::span<const float> signals) const {
  if (config_.projection == LinformerProjection::kPool) return;
  const AttentionShape s = shape_of(in);
  if (scores_first(s)) {
    return scores_first_accumulate(in, config_.k, config_.sharing == LinformerSharing::kNone,
                                   signals, e_->gradient_matrix(), f_->gradient_matrix());
  }
  Pass(*this, in).accumulate(Slots<const float>(signals.data(), s, slots(s.n)));
  report(projection_work(s));
}

}  // namespace longspan
