// Decoding: the last m of n tokens, the first `global` of which are global.
#include <algorithm>
#include <vector>

#include "longspan/attention/pattern/longformer.h"
#include "longspan/attention/pattern/longformer_pattern.h"
#include "longspan/attention/position/relative_table.h"
#include "longspan/base/thread_kept.h"
#include "longspan/kernels/gemm/gemm.h"

namespace longspan {

namespace {

// Global queries among the first tokens see the keys up to themselves, global ones all of them.
AttentionShape dense_shape(AttentionShape s, std::size_t fresh) {
  s.n = s.n - s.m + fresh;
  s.m = fresh;
  return s;
}

}  // namespace

// How many of the m tokens are global.
std::size_t LongformerAttention::fresh_globals(const AttentionShape& s) const {
  const std::size_t earlier = s.n - s.m;
  return std::min(std::max(config_.global, earlier) - earlier, s.m);
}

// k^g|v^g of the first `global` tokens of each sequence.
std::size_t LongformerAttention::note_floats(const AttentionShape& s) const {
  return s.batch * std::min(config_.global, s.n) * 2 * width();
}

AttentionCost LongformerAttention::cached_cost(const AttentionShape& s) const {
  static const ThreadKept<std::vector<std::uint32_t>> kept;
  std::vector<std::uint32_t>& memory = kept();
  const std::size_t lists = s.batch + 1 + count_globals(s);
  if (memory.size() < lists) memory.resize(lists);
  const LongformerGlobals globals = find_globals(s, std::span(memory).first(lists));
  const AttentionCost local = sparse_cost(LongformerPattern(*this, s, globals));
  AttentionCost cost;
  cost.forward = local.forward;
  // As many rows of q^g as any call of m tokens can need.
  cost.forward_scratch = local.forward_scratch + Arena::bytes_for<std::uint32_t>(lists) +
                         Arena::bytes_for(s.batch * std::min(s.m, config_.global) * width());
  const std::size_t fresh = fresh_globals(s);
  if (fresh == 0) return cost;
  cost.forward += s.batch * (key_value_.forward_work(fresh) + query_.forward_work(fresh));
  const AttentionCost dense = sparse_cost(FullPattern(dense_shape(s, fresh)));
  cost.forward += dense.forward;
  if (dense.forward_scratch > local.forward_scratch) {
    cost.forward_scratch += dense.forward_scratch - local.forward_scratch;
  }
  return cost;
}

void LongformerAttention::run_cached(const AttentionInputs& in, Heads y, Arena& arena) const {
  const AttentionShape s = shape_of(in);
  check_more(s);
  const std::size_t w = width();
  const LongformerGlobals globals =
      find_globals(s, arena.take<std::uint32_t>(s.batch + 1 + count_globals(s)));
  const auto memory = arena.take(s.batch * std::min(s.m, config_.global) * w);
  {
    const Arena::Frame frame(arena);
    sparse_forward(LongformerPattern(*this, s, globals), SparseInputs::of(in), y, {}, arena);
  }
  const std::size_t fresh = fresh_globals(s);
  if (fresh == 0) return;
  const AttentionShape dense = dense_shape(s, fresh);
  const Matrix q(memory.data(), s.batch * fresh, w);
  const std::size_t capacity = in.notes.size() / (s.batch * 2 * w);
  const Matrix kv(in.notes.data(), s.batch * capacity, 2 * w);
  for (std::size_t b = 0; b < s.batch; ++b) {
    const ConstMatrix x = in.x.slice_rows(b * s.m, fresh);
    key_value_.forward(x, kv.slice_rows(b * capacity + dense.n - fresh, fresh));
    query_.forward(x, q.slice_rows(b * fresh, fresh));
  }
  AttentionInputs global = in;
  global.q = Heads::from_columns(q, s.batch, s.heads);
  global.k = Heads::from_columns(kv.slice_cols(0, w), s.batch, s.heads).first(dense.n);
  global.v = Heads::from_columns(kv.slice_cols(w, w), s.batch, s.heads).first(dense.n);
  const Arena::Frame frame(arena);
  sparse_forward(FullPattern(dense), SparseInputs::of(global), y.first(fresh), {}, arena);
}

}  // namespace longspan
