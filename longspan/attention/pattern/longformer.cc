#include "longspan/attention/pattern/longformer.h"

#include <algorithm>
#include <limits>

#include "longspan/attention/pattern/longformer_pattern.h"
#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/base/thread_kept.h"
#include "longspan/kernels/rows/vector.h"

namespace longspan {

namespace {

std::size_t length_of(const AttentionShape& s, std::size_t b) {
  return s.key_lengths.empty() ? s.n : static_cast<std::size_t>(s.key_lengths[b]);
}

// Rows of x at the places `rows` of a sequence, to or from consecutive rows.
template <class From, class To>
void copy_rows(const From& from, const To& to, std::span<const std::uint32_t> rows, bool gather) {
  for (std::size_t h = 0; h < from.heads; ++h) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto source = from.head(0, h).row(gather ? rows[i] : i);
      std::ranges::copy(source, to.head(0, h).row(gather ? i : rows[i]).begin());
    }
  }
}

template <class T>
HeadsView<T> sequence(HeadsView<T> x, std::size_t b) {
  x.data += b * x.batch_stride;
  x.batch = 1;
  return x;
}

// q^g and k^g|v^g of each sequence, one sequence behind the other.
SparseInputs projected_inputs(const AttentionShape& s, ConstMatrix q, ConstMatrix kv) {
  AttentionInputs in;
  const std::size_t w = q.cols;
  in.q = ConstHeads::from_columns(q, s.batch, s.heads);
  in.k = ConstHeads::from_columns(kv.slice_cols(0, w), s.batch, s.heads);
  in.v = ConstHeads::from_columns(kv.slice_cols(w, w), s.batch, s.heads);
  return SparseInputs::of(in);
}

std::vector<std::size_t> parse_dilations(const LongformerConfig& config) {
  std::vector<std::size_t> dilations;
  for (const std::string& text : split_list(config.dilation, ':')) {
    dilations.push_back(
        read_number<std::size_t>(LongformerAttention::kName, "dilation", text, from_to(1, 1e7)));
  }
  return dilations;
}

void add_projection(const Projection& p, std::size_t rows, AttentionCost& cost) {
  cost.forward += p.forward_work(rows);
  cost.backward += p.backward_work(rows);
  cost.update += p.update_work(rows);
}

// Calls f(row of x, row of k^g, count) for the rows that are projected: one block of all, or the
// first `reach` of each sequence.
template <class F>
void for_each_block(const AttentionShape& s, std::size_t reach, F f) {
  if (!s.causal) return f(std::size_t{0}, std::size_t{0}, s.batch * s.n);
  for (std::size_t b = 0; b < s.batch; ++b) f(b * s.n, b * reach, reach);
}

}  // namespace

// k^g|v^g [batch·reach, 2w], q^g [batch·most, w] and L of the global queries, one behind the other.
struct LongformerAttention::Projected {
  Projected(float* memory, const AttentionShape& s, const LongformerGlobals& globals,
            std::size_t width)
      : kv(memory, s.batch * globals.reach, 2 * width),
        q(memory + kv.size(), s.batch * globals.most, width),
        levels(q.data + q.size(), s.batch * s.heads * globals.most) {}
  static std::size_t floats(const AttentionShape& s, const LongformerGlobals& globals,
                            std::size_t width) {
    if (globals.most == 0) return 0;
    return s.batch * (globals.reach * 2 * width + globals.most * (width + s.heads));
  }

  Matrix kv;
  Matrix q;
  std::span<float> levels;

  SparseInputs inputs(const AttentionShape& s) const { return projected_inputs(s, q, kv); }
};

Abilities LongformerAttention::can(const LongformerConfig& config) {
  check_numbers(kName, config);
  parse_dilations(config);
  return {.causal = true, .key_lengths = true, .decode = true};
}

Streams LongformerAttention::streams(const LongformerConfig& /*config*/,
                                     const AttentionLayout& layout) {
  Streams streams = Streams::qkv(layout);
  for (const char* name : {"global_q", "global_k", "global_v"}) {
    streams.on_call.push_back({.name = name,
                               .group = "global",
                               .heads = layout.heads,
                               .width = layout.d_head,
                               .bias = true});
  }
  return streams;
}

LongformerAttention::LongformerAttention(const LongformerConfig& config, const AttentionSite& site)
    : Attention(can(config)),
      config_(config),
      dilations_(parse_dilations(config)),
      query_(site.projections.of("global_q")),
      key_value_(site.projections.of("global_k", "global_v")) {}

void LongformerAttention::check_more(const AttentionShape& s) const {
  require(s.d == s.e, "[longformer] keys are {} wide and values {}; need equal widths", s.d, s.e);
  require(s.globals.empty() || s.globals.size() == s.batch * s.n,
          "[longformer] {} marks of global tokens for {} sequences of {}", s.globals.size(),
          s.batch, s.n);
  if (!decodes(s)) return;
  require(s.globals.empty() && s.key_lengths.empty(),
          "[longformer] marks of global tokens or key lengths while decoding; need whole sequences "
          "whose first tokens are global");
  require(s.notes || fresh_globals(s) == 0,
          "[longformer] decodes {} of its first {} tokens; need notes on those before",
          fresh_globals(s), config_.global);
}

bool LongformerAttention::is_global(const AttentionShape& s, std::size_t b, std::size_t i) const {
  if (i >= length_of(s, b)) return false;
  return s.globals.empty() ? i < config_.global : s.globals[b * s.n + i] != 0;
}

template <class F>
void LongformerAttention::for_each_run(const AttentionShape& s, F f) const {
  for (std::size_t b = 0; b < s.batch; ++b) {
    const std::size_t length = length_of(s, b);
    const std::size_t last = s.globals.empty() ? std::min(config_.global, length) : length;
    std::size_t index = 0;
    for (std::size_t i = 0; i < last; ++i) {
      if (!is_global(s, b, i)) continue;
      const std::size_t first = i;
      while (i < last && is_global(s, b, i)) ++i;
      f(b, first, i - first, index);
      index += i - first;
    }
  }
}

std::size_t LongformerAttention::count_globals(const AttentionShape& s) const {
  std::size_t total = 0;
  for_each_run(s,
               [&](std::size_t, std::size_t, std::size_t count, std::size_t) { total += count; });
  return total;
}

std::string_view LongformerAttention::reason(const AttentionShape& s, std::size_t head,
                                             std::size_t i, std::size_t j) const {
  i += s.n - s.m;
  if (std::max(i, j) >= length_of(s, 0) || (s.causal && j > i)) return "";
  if (is_global(s, 0, i) || is_global(s, 0, j)) return "global";
  const std::size_t distance = i > j ? i - j : j - i;
  const std::size_t step = dilation(head);
  return distance % step == 0 && distance / step <= config_.window / 2 ? "window" : "";
}

// `memory` has batch + 1 + count_globals() elements.
LongformerGlobals LongformerAttention::find_globals(const AttentionShape& s,
                                                    std::span<std::uint32_t> memory) const {
  const std::span<std::uint32_t> first = memory.first(s.batch + 1);
  const std::span<std::uint32_t> tokens = memory.subspan(s.batch + 1);
  std::ranges::fill(first, 0U);
  std::size_t used = 0;
  LongformerGlobals globals{first, tokens, 0, s.causal ? 0 : s.n};
  for_each_run(s, [&](std::size_t b, std::size_t token, std::size_t count, std::size_t index) {
    for (std::size_t i = 0; i < count; ++i) {
      tokens[used++] = static_cast<std::uint32_t>(token + i);
    }
    first[b + 1] = static_cast<std::uint32_t>(index + count);
    globals.most = std::max(globals.most, index + count);
    globals.reach = std::max(globals.reach, token + count);
  });
  for (std::size_t b = 0; b < s.batch; ++b) first[b + 1] += first[b];
  return globals;
}

AttentionCost LongformerAttention::cost(const AttentionShape& s) const {
  check_more(s);
  if (decodes(s)) return cached_cost(s);
  static const ThreadKept<std::vector<std::uint32_t>> kept;
  std::vector<std::uint32_t>& memory = kept();
  const std::size_t total = count_globals(s);
  if (memory.size() < s.batch + 1 + total) memory.resize(s.batch + 1 + total);
  const LongformerGlobals globals = find_globals(s, std::span(memory).first(s.batch + 1 + total));
  const std::size_t w = width();
  const std::size_t lists = Arena::bytes_for<std::uint32_t>(s.batch + 1 + total);
  AttentionCost cost = sparse_cost(LongformerPattern(*this, s, globals));
  if (globals.most > 0) {
    const AttentionCost dense = sparse_cost(GlobalPattern(s, globals));
    const std::size_t rows = s.batch * globals.most;
    const std::size_t outputs = Arena::bytes_for(rows * w);
    cost.saved += Projected::floats(s, globals, w);
    cost.signals = s.batch * globals.reach * 2 * w + rows * w;
    cost.forward_scratch = outputs + std::max(cost.forward_scratch, dense.forward_scratch);
    cost.backward_scratch = 2 * outputs + std::max(cost.backward_scratch, dense.backward_scratch);
    cost.forward += dense.forward;
    cost.backward += dense.backward;
    for_each_block(s, globals.reach, [&](std::size_t, std::size_t, std::size_t count) {
      add_projection(key_value_, count, cost);
    });
    for_each_run(s, [&](std::size_t, std::size_t, std::size_t count, std::size_t) {
      add_projection(query_, count, cost);
    });
  }
  cost.forward_scratch += lists + Arena::bytes_for(Projected::floats(s, globals, w));
  cost.backward_scratch += lists;
  return cost;
}

void LongformerAttention::run_forward(const ForwardCall& call) const {
  const AttentionInputs& in = call.in;
  const Heads y = call.y;
  const std::span<float> saved = call.saved;
  Arena& arena = call.arena;
  const AttentionShape s = shape_of(in);
  if (decodes(s)) return run_cached(in, y, arena);
  const std::size_t w = width();
  const LongformerGlobals globals =
      find_globals(s, arena.take<std::uint32_t>(s.batch + 1 + count_globals(s)));
  const std::size_t levels = s.batch * s.heads * s.m;
  // Booked either way, so that saving does not change the scratch.
  const auto scratch = arena.take(Projected::floats(s, globals, w));
  const std::span<float> kept = saved.empty() ? saved : saved.first(levels);
  const Matrix out = globals.most > 0 ? arena.matrix(s.batch * globals.most, w) : Matrix();
  {
    const Arena::Frame frame(arena);
    sparse_forward(LongformerPattern(*this, s, globals), SparseInputs::of(in), y, kept, arena);
  }
  if (globals.most == 0) return;
  const Projected x(saved.empty() ? scratch.data() : saved.data() + levels, s, globals, w);
  for_each_block(s, globals.reach, [&](std::size_t from, std::size_t to, std::size_t count) {
    key_value_.forward(in.x.slice_rows(from, count), x.kv.slice_rows(to, count));
  });
  for_each_run(s, [&](std::size_t b, std::size_t first, std::size_t count, std::size_t index) {
    query_.forward(in.x.slice_rows(b * s.n + first, count),
                   x.q.slice_rows(b * globals.most + index, count));
  });
  const Heads outputs = Heads::from_columns(out, s.batch, s.heads);
  {
    const Arena::Frame frame(arena);
    sparse_forward(GlobalPattern(s, globals), x.inputs(s), outputs, x.levels, arena);
  }
  for (std::size_t b = 0; b < s.batch; ++b) {
    copy_rows(sequence(outputs, b), sequence(y, b), globals.of(b), false);
    // What the window computed for these rows is dropped: P = 0 in its backward.
    for (std::size_t h = 0; h < s.heads && !kept.empty(); ++h) {
      for (const std::size_t i : globals.of(b)) {
        kept[(b * s.heads + h) * s.m + i] = std::numeric_limits<float>::infinity();
      }
    }
  }
}

void LongformerAttention::run_backward(const BackwardCall& call) const {
  const AttentionInputs& in = call.in;
  const ConstHeads y = call.y;
  const ConstHeads dy = call.dy;
  const std::span<const float> saved = call.saved;
  const AttentionGradients& grad = call.grad;
  const std::span<float> signals = call.signals;
  Arena& arena = call.arena;
  const AttentionShape s = shape_of(in);
  require(s.m == s.n, "[longformer] {} queries and {} keys; backward needs equal lengths", s.m,
          s.n);
  const std::size_t w = width();
  const LongformerGlobals globals =
      find_globals(s, arena.take<std::uint32_t>(s.batch + 1 + count_globals(s)));
  const std::size_t levels = s.batch * s.heads * s.m;
  const std::size_t rows = s.batch * globals.most;
  const Matrix y_rows = rows > 0 ? arena.matrix(rows, w) : Matrix();
  const Matrix dy_rows = rows > 0 ? arena.matrix(rows, w) : Matrix();
  {
    const Arena::Frame frame(arena);
    sparse_backward(LongformerPattern(*this, s, globals), SparseInputs::of(in), y, dy,
                    saved.first(levels), {grad.q, grad.k, grad.v, {}}, arena);
  }
  if (globals.most == 0) {
    fill(grad.x, 0.0F);
    return;
  }
  const Heads ys = Heads::from_columns(y_rows, s.batch, s.heads);
  const Heads dys = Heads::from_columns(dy_rows, s.batch, s.heads);
  for (std::size_t b = 0; b < s.batch; ++b) {
    copy_rows(sequence(y, b), sequence(ys, b), globals.of(b), true);
    copy_rows(sequence(dy, b), sequence(dys, b), globals.of(b), true);
  }
  // Only read: the constructor is shared with forward, which writes.
  const Projected x(const_cast<float*>(saved.data()) + levels, s, globals, w);  // NOLINT
  const Matrix dkv(signals.data(), s.batch * globals.reach, 2 * w);
  const Matrix dq(dkv.data + dkv.size(), rows, w);
  {
    const Arena::Frame frame(arena);
    sparse_backward(GlobalPattern(s, globals), x.inputs(s), ys, dys, x.levels,
                    {Heads::from_columns(dq, s.batch, s.heads),
                     Heads::from_columns(dkv.slice_cols(0, w), s.batch, s.heads),
                     Heads::from_columns(dkv.slice_cols(w, w), s.batch, s.heads),
                     {}},
                    arena);
  }
  if (s.causal) fill(grad.x, 0.0F);
  for_each_block(s, globals.reach, [&](std::size_t to, std::size_t from, std::size_t count) {
    key_value_.backward(dkv.slice_rows(from, count), grad.x.slice_rows(to, count), /*add=*/false);
  });
  for_each_run(s, [&](std::size_t b, std::size_t first, std::size_t count, std::size_t index) {
    query_.backward(dq.slice_rows(b * globals.most + index, count),
                    grad.x.slice_rows(b * s.n + first, count), /*add=*/true);
  });
}

void LongformerAttention::run_accumulate(const AttentionInputs& in,
                                         std::span<const float> /*saved*/,
                                         std::span<const float> signals) const {
  const AttentionShape s = shape_of(in);
  if (signals.empty()) return;
  const std::size_t w = width();
  std::size_t most = 0;
  std::size_t reach = s.causal ? 0 : s.n;
  for_each_run(s, [&](std::size_t, std::size_t token, std::size_t count, std::size_t index) {
    most = std::max(most, index + count);
    reach = std::max(reach, token + count);
  });
  const ConstMatrix dkv(signals.data(), s.batch * reach, 2 * w);
  const ConstMatrix dq(dkv.data + dkv.size(), s.batch * most, w);
  for_each_block(s, reach, [&](std::size_t at, std::size_t from, std::size_t count) {
    const bool all = !s.causal || s.key_lengths.empty();
    key_value_.accumulate(in.x.slice_rows(at, count), dkv.slice_rows(from, count),
                          all ? s.key_lengths : s.key_lengths.subspan(at / s.n, 1));
  });
  for_each_run(s, [&](std::size_t b, std::size_t first, std::size_t count, std::size_t index) {
    query_.accumulate(in.x.slice_rows(b * s.n + first, count),
                      dq.slice_rows(b * most + index, count));
  });
}

}  // namespace longspan
