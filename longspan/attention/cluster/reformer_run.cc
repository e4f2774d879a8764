// The whole sequence at once: forward, backward and what they cost.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "longspan/attention/cluster/reformer.h"
#include "longspan/base/error.h"
#include "longspan/base/integers.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/hash/sort.h"
#include "longspan/kernels/tiled/tiled_attention.h"

namespace longspan {

namespace {

constexpr std::size_t kHashRows = 256;  // tokens of a hashing task

// What a sequence and a head do, apart from the number of heads.
struct SequenceCounts {
  std::uint64_t tokens = 0;
  std::uint64_t pairs = 0;     // of all rounds
  std::uint64_t gathered = 0;  // of all rounds
};

}  // namespace

// One call: its memory and its phases. Planes are (sequence, head).
class ReformerAttention::Run {
 public:
  Run(const ReformerAttention& self, const AttentionShape& shape)
      : self_(self),
        s_(shape),
        hash_(self.code(self.max_length_)),
        planes_(s_.batch * s_.heads),
        rows_(planes_ * s_.n) {
    for (std::size_t b = 0; b < s_.batch; ++b) {
      const ChunkLayout l = self_.layout(s_, b);
      most_groups_ = std::max(most_groups_, l.tokens == 0 ? 0 : l.groups());
      longest_ = b == 0 || l.tokens > longest_.tokens ? l : longest_;
    }
  }

  // The arena in order; Take is take<T>(count) of an Arena or a plan.
  template <class Take>
  void take(bool backward, Take&& take) {
    counts_ = take.template operator()<ChunkCounts>(workers());
    buckets_ = take.template operator()<std::int32_t>(rows_ * rounds());
    order_ = take.template operator()<std::int32_t>(rows_ * rounds());
    if (deduplicates()) codes_ = take.template operator()<std::int32_t>(rows_ * rounds());
    factor_ = take.template operator()<float>(rows_);
    if (backward) {
      kappa_ = take.template operator()<float>(rows_);
      delta_ = take.template operator()<float>(rows_);
    } else {
      level_ = take.template operator()<float>(rows_);
      sum_ = take.template operator()<float>(rows_);
      hash_scratch_ = take.template operator()<float>(workers() * lsh_scratch(s_.d, hash_));
    }
    starts_ = take.template operator()<std::int32_t>(workers() * (hash_.buckets() + 2));
    const ChunkScratch scratch = chunk_scratch(backward);
    floats_ = take.template operator()<float>(workers() * scratch.floats);
    integers_ = take.template operator()<std::int32_t>(workers() * scratch.integers);
  }

  std::size_t bytes(bool backward) {
    std::size_t total = 0;
    take(backward, [&total]<class T>(std::size_t count) {
      total += Arena::bytes_for<T>(count);
      return std::span<T>();
    });
    return total;
  }

  void book(bool backward, Arena& arena) {
    take(backward, [&arena]<class T>(std::size_t count) { return arena.take<T>(count); });
    std::ranges::fill(counts_, ChunkCounts{});
  }

  void forward(const AttentionInputs& in, Heads y) {
    hash(in);
    sort(in);
    for_planes([&](std::size_t first, std::size_t count) {
      for (std::size_t r = 0; r < rounds(); ++r) {
        parallel_for(count * most_groups_, [&](std::size_t task, std::size_t worker) {
          const std::size_t plane = first + task / most_groups_;
          const std::size_t group = task % most_groups_;
          const ChunkedHead head = chunked(in, plane);
          if (group >= groups_of(head)) return;
          const ChunkState state{y.head(plane / s_.heads, plane % s_.heads),
                                 level_.data() + plane * s_.n, sum_.data() + plane * s_.n};
          chunk_forward(head, r, group, state, floats(worker, false), integers(worker, false),
                        counts_[worker]);
        });
      }
    });
    clear_padding(y);
  }

  void keep(std::span<float> saved) const {
    std::memcpy(saved.data(), level_.data(), level_.size_bytes());
    std::memcpy(saved.data() + rows_, buckets_.data(), buckets_.size_bytes());
  }

  void backward(const AttentionInputs& in, ConstHeads y, ConstHeads dy,
                std::span<const float> saved, const AttentionGradients& grad) {
    std::memcpy(buckets_.data(), saved_buckets(saved, s_).data(), buckets_.size_bytes());
    sort(in);
    for_planes([&](std::size_t first, std::size_t count) {
      parallel_for(count, [&](std::size_t i, std::size_t) {
        start_gradients(in, y, dy, saved, grad, first + i);
      });
      for (std::size_t step = 0; step < rounds() * longest_.phases(); ++step) {
        parallel_for(count * most_groups_, [&](std::size_t task, std::size_t worker) {
          const std::size_t plane = first + task / most_groups_;
          const std::size_t group = task % most_groups_;
          const ChunkedHead head = chunked(in, plane);
          if (group >= groups_of(head)) return;
          if (head.layout.phase(group) != step % longest_.phases()) return;
          chunk_backward(head, gradient(dy, saved, grad, plane), step / longest_.phases(), group,
                         floats(worker, true), integers(worker, true), counts_[worker]);
        });
      }
    });
  }

  // What ran, from the kernels' counts; tokens are summed here.
  SequenceCounts ran() const {
    ChunkCounts total;
    for (const ChunkCounts& c : counts_) total += c;
    return {total.queries / rounds(), total.pairs, total.gathered};
  }
  // The same from the shape.
  SequenceCounts planned() const {
    SequenceCounts c;
    for (std::size_t b = 0; b < s_.batch; ++b) {
      const ChunkLayout l = self_.layout(s_, b);
      c.tokens += s_.heads * l.tokens;
      c.pairs += s_.heads * rounds() * l.pairs();
      c.gathered += s_.heads * rounds() * l.gathered();
    }
    return c;
  }

  Work forward_work(const SequenceCounts& c) const {
    const std::uint64_t turns = rounds() * c.tokens;
    const std::uint64_t projections = hash_.projections();
    Work work;
    work.maccs = c.tokens * s_.d + turns * projections * s_.d + c.pairs * (s_.d + s_.e);
    work[Kind::kMatmul] = 3 * c.tokens;
    work[Kind::kHash] = turns * projections;
    work[Kind::kSort] = 2 * turns;
    work[Kind::kSoftmax] = 5 * c.pairs + turns * (2 * s_.e + 6) + 2 * c.tokens + repetitions(c);
    work.bytes[static_cast<std::size_t>(Kind::kMatmul)] = tensor_bytes(1);
    work.bytes[static_cast<std::size_t>(Kind::kGather)] = 4 * c.gathered * (s_.d + s_.e);
    return work;
  }

  Work backward_work(const SequenceCounts& c) const {
    const std::uint64_t turns = rounds() * c.tokens;
    Work work;
    work.maccs = c.tokens * (s_.d + s_.e) + c.pairs * (3 * s_.d + 2 * s_.e) + c.gathered * s_.d;
    work[Kind::kMatmul] = 4 * c.tokens;
    work[Kind::kSort] = 2 * turns;
    work[Kind::kSoftmax] = 6 * c.pairs + repetitions(c);
    work[Kind::kAdd] = turns * s_.d + c.gathered * (3 * s_.d + s_.e);
    work.bytes[static_cast<std::size_t>(Kind::kMatmul)] = tensor_bytes(2);
    work.bytes[static_cast<std::size_t>(Kind::kGather)] = 8 * c.gathered * (s_.d + s_.e);
    return work;
  }

 private:
  std::size_t rounds() const { return self_.config_.rounds; }
  bool deduplicates() const { return self_.config_.deduplicate && rounds() > 1; }
  std::uint64_t repetitions(const SequenceCounts& c) const {
    return deduplicates() ? c.pairs * (rounds() + 1) : 0;
  }
  std::uint64_t tensor_bytes(std::uint64_t times) const {
    return 4 * rows_ * times * (s_.d + 2 * s_.e);
  }
  ChunkScratch chunk_scratch(bool backward) const {
    return backward ? chunk_backward_scratch(longest_, s_.d, s_.e)
                    : chunk_forward_scratch(longest_, s_.d, s_.e);
  }
  float* floats(std::size_t worker, bool backward) const {
    return floats_.data() + worker * chunk_scratch(backward).floats;
  }
  std::int32_t* integers(std::size_t worker, bool backward) const {
    return integers_.data() + worker * chunk_scratch(backward).integers;
  }
  // f(first, count) for as many planes as there are workers, which share their groups: what all
  // rounds of a plane read and add to stays near.
  template <class F>
  void for_planes(const F& f) const {
    for (std::size_t first = 0; first < planes_; first += workers()) {
      f(first, std::min(workers(), planes_ - first));
    }
  }
  static std::size_t groups_of(const ChunkedHead& head) {
    return head.layout.tokens == 0 ? 0 : head.layout.groups();
  }

  ChunkedHead chunked(const AttentionInputs& in, std::size_t plane) const {
    const std::size_t b = plane / s_.heads;
    const std::size_t at = plane * s_.n * rounds();
    ChunkedHead head;
    head.q = head.k = in.q.head(b, plane % s_.heads);
    head.v = in.v.head(b, plane % s_.heads);
    head.factor = factor_.data() + plane * s_.n;
    head.order = order_.data() + at;
    head.bucket = self_.config_.same_bucket ? buckets_.data() + at : nullptr;
    head.code = deduplicates() ? codes_.data() + at : nullptr;
    head.layout = self_.layout(s_, b);
    head.real = in.mask.keys(b, s_.n);
    head.blind_padding = self_.config_.padding != ReformerPadding::kBucket;
    head.causal = s_.causal;
    if (self_.strict(s_)) head.reach = head.layout.before * head.layout.chunk;
    return head;
  }

  void hash(const AttentionInputs& in) {
    const std::size_t pieces = divide_up(s_.n, kHashRows);
    const std::size_t scratch = lsh_scratch(s_.d, hash_);
    const ConstMatrix rotations = self_.rotations_->matrix();
    parallel_for(planes_ * pieces, [&](std::size_t task, std::size_t worker) {
      const std::size_t plane = task / pieces;
      const std::size_t b = plane / s_.heads;
      const std::size_t h = plane % s_.heads;
      const std::size_t tokens = self_.layout(s_, b).tokens;
      const std::size_t first = task % pieces * kHashRows;
      if (first >= tokens) return;
      const std::size_t count = std::min(kHashRows, tokens - first);
      std::int32_t* to = buckets_.data() + plane * s_.n * rounds() + first;
      lsh_buckets(in.q.head(b, h).slice_rows(first, count), hash_,
                  rotations.slice_rows(h * s_.d, s_.d), to, s_.n,
                  hash_scratch_.data() + worker * scratch);
    });
  }

  // Sorts every round, and finds f (and κ) of every token.
  void sort(const AttentionInputs& in) {
    const std::size_t buckets = hash_.buckets() + 2;
    parallel_for(planes_ * rounds(), [&](std::size_t task, std::size_t worker) {
      const std::size_t plane = task / rounds();
      const std::size_t r = task % rounds();
      const ChunkedHead head = chunked(in, plane);
      const std::size_t tokens = head.layout.tokens;
      const std::span<std::int32_t> mine(buckets_.data() + (plane * rounds() + r) * s_.n, s_.n);
      const std::size_t padded =
          self_.config_.padding == ReformerPadding::kBucket ? head.real : tokens;
      std::ranges::fill(mine.subspan(padded), static_cast<std::int32_t>(hash_.buckets()));
      const std::span<std::int32_t> starts(starts_.data() + worker * buckets, buckets);
      sort_by_group(mine.first(tokens), starts,
                    order_.data() + plane * s_.n * rounds() + r * tokens);
      if (deduplicates()) meeting_codes(head, r, codes_.data() + plane * s_.n * rounds());
    });
    normalise(in.q);
  }

  // Heads that lie side by side are read along whole rows.
  void normalise(const ConstHeads& q) {
    const std::size_t pieces = divide_up(s_.n, kHashRows);
    parallel_for(s_.batch * pieces, [&](std::size_t task, std::size_t) {
      const std::size_t b = task / pieces;
      const std::size_t first = task % pieces * kHashRows;
      for (std::size_t i = first; i < std::min(first + kHashRows, s_.n); ++i) {
        for (std::size_t h = 0; h < s_.heads; ++h) {
          const Factor f = self_.factor(q.head(b, h).row(i));
          const std::size_t at = (b * s_.heads + h) * s_.n + i;
          factor_[at] = f.f;
          if (!kappa_.empty()) kappa_[at] = f.kappa;
        }
      }
    });
  }

  void clear_padding(Heads y) const {
    parallel_for(planes_, [&](std::size_t plane, std::size_t) {
      const std::size_t tokens = self_.layout(s_, plane / s_.heads).tokens;
      const Matrix rows = y.head(plane / s_.heads, plane % s_.heads);
      for (std::size_t i = tokens; i < s_.n; ++i) {
        std::ranges::fill(rows.row(i), 0.0F);
        level_[plane * s_.n + i] = std::numeric_limits<float>::infinity();
      }
    });
  }

  // dq = 0 and dv = 0, but dv = dy where y was v; D.
  void start_gradients(const AttentionInputs& in, ConstHeads y, ConstHeads dy,
                       std::span<const float> saved, const AttentionGradients& grad,
                       std::size_t plane) const {
    const std::size_t b = plane / s_.heads;
    const std::size_t h = plane % s_.heads;
    const std::size_t tokens = chunked(in, plane).layout.tokens;
    const Matrix dq = grad.q.head(b, h);
    const Matrix dv = grad.v.head(b, h);
    tiled_delta(y.head(b, h), dy.head(b, h), delta_.data() + plane * s_.n);
    for (std::size_t i = 0; i < s_.n; ++i) {
      std::ranges::fill(dq.row(i), 0.0F);
      if (i < tokens && std::isinf(saved[plane * s_.n + i])) {
        std::ranges::copy(dy.head(b, h).row(i), dv.row_data(i));
      } else {
        std::ranges::fill(dv.row(i), 0.0F);
      }
    }
  }

  ChunkGradient gradient(ConstHeads dy, std::span<const float> saved,
                         const AttentionGradients& grad, std::size_t plane) const {
    const std::size_t b = plane / s_.heads;
    const std::size_t h = plane % s_.heads;
    ChunkGradient g;
    g.dy = dy.head(b, h);
    g.lse = saved.data() + plane * s_.n;
    g.delta = delta_.data() + plane * s_.n;
    g.kappa = kappa_.data() + plane * s_.n;
    g.dq = g.dk = grad.q.head(b, h);
    g.dv = grad.v.head(b, h);
    return g;
  }

  const ReformerAttention& self_;
  AttentionShape s_;
  LshCode hash_;
  std::size_t planes_;
  std::size_t rows_;
  std::size_t most_groups_ = 0;
  ChunkLayout longest_;
  std::span<ChunkCounts> counts_;
  std::span<std::int32_t> buckets_, order_, codes_;  // [planes][rounds][n]
  std::span<float> factor_, kappa_, delta_, level_, sum_;
  std::span<float> hash_scratch_, floats_;
  std::span<std::int32_t> starts_, integers_;
};

AttentionCost ReformerAttention::cost(const AttentionShape& s) const {
  if (decodes(s)) return rows_cost(s);
  Run run(*this, s);
  const SequenceCounts counts = run.planned();
  AttentionCost cost;
  cost.forward = run.forward_work(counts);
  cost.backward = run.backward_work(counts);
  cost.saved = s.batch * s.heads * s.n * (1 + config_.rounds);
  cost.forward_scratch = run.bytes(false);
  cost.backward_scratch = run.bytes(true);
  return cost;
}

void ReformerAttention::run_forward(const ForwardCall& call) const {
  const AttentionInputs& in = call.in;
  const Heads y = call.y;
  const std::span<float> saved = call.saved;
  Arena& arena = call.arena;
  check_more(shape_of(in));
  if (decodes(shape_of(in))) return run_rows(in, y, arena);
  Run run(*this, shape_of(in));
  run.book(false, arena);
  run.forward(in, y);
  if (!saved.empty()) run.keep(saved);
  report(run.forward_work(run.ran()));
}

void ReformerAttention::run_backward(const BackwardCall& call) const {
  const AttentionInputs& in = call.in;
  const ConstHeads y = call.y;
  const ConstHeads dy = call.dy;
  const std::span<const float> saved = call.saved;
  const AttentionGradients& grad = call.grad;
  Arena& arena = call.arena;
  require(in.q.n == in.k.n, "[reformer] {} queries and {} keys; backward needs equal lengths",
          in.q.n, in.k.n);
  Run run(*this, shape_of(in));
  run.book(true, arena);
  run.backward(in, y, dy, saved, grad);
  report(run.backward_work(run.ran()));
}

}  // namespace longspan
