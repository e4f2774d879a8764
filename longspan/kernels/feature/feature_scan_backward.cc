#include <cmath>

#include "longspan/kernels/feature/feature_plan.h"
#include "longspan/kernels/feature/feature_scan.h"
#include "longspan/kernels/tiled/tiled_attention.h"

namespace longspan {

namespace {

using detail::FeatureCounts;
using detail::FeaturePlan;
using detail::FeatureRange;
using detail::touch_rows;

struct Gradients {
  Heads q;
  Heads k;
  Heads v;
};

class Backward {
 public:
  Backward(const FeaturePlan& plan, const FeatureTensors& in, ConstHeads dy,
           std::span<const float> saved, const Gradients& grad, Arena& arena)
      : plan_(plan),
        map_(plan.map()),
        in_(in),
        dy_(dy),
        grad_(grad),
        saved_(saved),
        counts_(arena.take<FeatureCounts>(workers())),
        floats_(tile_width(feature_backward_scratch(plan.sizes))),
        scratch_(arena.take(workers() * floats_)),
        delta_(arena.take(plan.planes() * in.q.n)),
        slots_(in.causal ? plan.parts : plan.query_parts),
        sums_(arena.take(plan.kv_planes() * slots_ * plan.state)),
        states_(arena.take(in.causal ? plan.kv_planes() * plan.parts * plan.state : 0)) {
    std::ranges::fill(counts_, FeatureCounts{});
  }

  Work run(ConstHeads y) {
    parallel_for(plan_.planes(), [&](std::size_t plane, std::size_t worker) {
      const std::size_t b = plane / in_.q.heads;
      const std::size_t h = plane % in_.q.heads;
      tiled_delta(y.head(b, h), dy_.head(b, h), delta_.data() + plane * in_.q.n);
      counts_[worker].deltas += in_.q.n;
    });
    in_.causal ? run_causal() : run_plain();
    clear_padding();
    FeatureCounts total;
    for (const FeatureCounts& c : counts_) total += c;
    return plan_.backward_work(total);
  }

 private:
  float* scratch(std::size_t worker) const { return scratch_.data() + worker * floats_; }
  FeatureState sums(std::size_t kv_plane, std::size_t slot) const {
    return feature_state(plan_.sizes, sums_.data() + (kv_plane * slots_ + slot) * plan_.state);
  }
  // What forward kept; nothing writes to it.
  float* saved_plane(std::size_t kv_plane) const {
    const float* at = saved_.data() + plan_.saved_levels() + kv_plane * plan_.saved_per_plane();
    return const_cast<float*>(at);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  }
  float* top(std::size_t kv_plane, std::size_t t) const {
    if (plan_.saved_tops() == 0) return nullptr;
    return saved_plane(kv_plane) + plan_.saved_states() * plan_.state + t * plan_.wide;
  }
  float* kept(std::size_t kv_plane) const {
    return saved_plane(kv_plane) + plan_.saved_states() * plan_.state + plan_.saved_tops();
  }
  float shift(std::size_t kv_plane) const {
    return plan_.saved_shift() == 0 ? 0.0F : kept(kv_plane)[plan_.saved_kept()];
  }
  std::size_t batch_of(std::size_t kv_plane) const { return kv_plane / in_.k.heads; }
  template <class T>
  MatrixView<T> rows(const HeadsView<T>& x, std::size_t kv_plane, const FeatureRange& r) const {
    return x.head(batch_of(kv_plane), kv_plane % in_.k.heads).slice_rows(r.key, r.keys);
  }
  FeatureQueries queries(std::size_t plane, const FeatureRange& r) const {
    const ConstMatrix q = in_.q.head(plane / in_.q.heads, plane % in_.q.heads);
    return {q.slice_rows(r.query, r.queries), r.keys, r.seen,
            rows(in_.k, plane / plan_.group(), r)};
  }
  FeatureSignal signal(std::size_t plane, const FeatureRange& r) const {
    const std::size_t at = plane * in_.q.n + r.query;
    const ConstMatrix dy = dy_.head(plane / in_.q.heads, plane % in_.q.heads);
    return {dy.slice_rows(r.query, r.queries), saved_.data() + at, delta_.data() + at};
  }
  Matrix dq(std::size_t plane, const FeatureRange& r) const {
    return grad_.q.head(plane / in_.q.heads, plane % in_.q.heads).slice_rows(r.query, r.queries);
  }
  static void clear(const FeatureState& s, std::size_t floats) { std::fill_n(s.top, floats, 0.0F); }

  // dq of a block of one head; puts the queries into `collect` if it is given.
  void query_block(std::size_t plane, const FeatureRange& r, const FeatureState& state,
                   const FeatureState* collect, std::size_t worker) {
    const FeatureQueries block = queries(plane, r);
    feature_query_backward(map_, block, signal(plane, r), state, dq(plane, r), collect,
                           scratch(worker));
    counts_[worker].queries += r.queries;
    counts_[worker].query_gradients += r.queries;
    counts_[worker].query_pairs += block.pairs();
    counts_[worker].collected += collect == nullptr ? 0 : r.queries;
  }

  void run_plain() {
    const std::size_t parts = plan_.query_parts;
    const std::size_t groups = plan_.kv_planes() / plan_.side;
    parallel_for(groups * parts, [&](std::size_t task, std::size_t worker) {
      plain_queries(task / parts * plan_.side, task % parts, worker);
    });
    parallel_for(plan_.kv_planes(), [&](std::size_t plane, std::size_t worker) {
      for (std::size_t part = 1; part < parts; ++part) add_sums(plane, part, 0, nullptr, worker);
      if (!map_.over_sequence) return;
      feature_divide_backward(plan_.sizes, map_.gain,
                              feature_state(plan_.sizes, saved_plane(plane)),
                              feature_state(plan_.sizes, kept(plane)), sums(plane, 0));
      ++counts_[worker].divisions;
    });
    parallel_for(groups * plan_.parts, [&](std::size_t task, std::size_t worker) {
      const std::size_t first = task / plan_.parts * plan_.side;
      const std::size_t part = task % plan_.parts;
      for (std::size_t t = plan_.first_block(part); t < plan_.first_block(part + 1); ++t) {
        const FeatureRange all = plan_.block(batch_of(first), t);
        touch_rows(in_.k, first, plan_.side, all.key, all.keys);
        touch_rows(in_.v, first, plan_.side, all.key, all.keys);
        touch_rows(grad_.k, first, plan_.side, all.key, all.keys);
        touch_rows(grad_.v, first, plan_.side, all.key, all.keys);
        for (std::size_t plane = first; plane < first + plan_.side; ++plane) {
          float* c = map_.over_sequence ? kept(plane) : saved_plane(plane);
          key_block(plane, plan_.block(batch_of(plane), t), c, sums(plane, 0), worker);
        }
      }
    });
  }

  // dq, R and w of a part of the queries, for the key heads from `first` on.
  void plain_queries(std::size_t first, std::size_t part, std::size_t worker) {
    for (std::size_t i = 0; i < plan_.side; ++i) clear(sums(first + i, part), plan_.state);
    for (std::size_t t = plan_.first_query_block(part); t < plan_.first_query_block(part + 1);
         ++t) {
      FeatureRange r;
      r.query = t * kFeatureBlock;
      r.queries = std::min(kFeatureBlock, in_.q.n - r.query);
      const std::size_t heads = plan_.side * plan_.group();
      touch_rows(in_.q, first * plan_.group(), heads, r.query, r.queries);
      touch_rows(dy_, first * plan_.group(), heads, r.query, r.queries);
      touch_rows(grad_.q, first * plan_.group(), heads, r.query, r.queries);
      for (std::size_t h = 0; h < heads; ++h) {
        const std::size_t kv_plane = first + h / plan_.group();
        const FeatureState collect = sums(kv_plane, part);
        query_block(first * plan_.group() + h, r, feature_state(plan_.sizes, saved_plane(kv_plane)),
                    &collect, worker);
      }
    }
  }

  // dk and dv of a block; its queries, if any, join R and w.
  void key_block(std::size_t kv_plane, const FeatureRange& r, float* c, const FeatureState& sum,
                 std::size_t worker) {
    if (r.keys > 0) {
      feature_key_backward_begin(map_, rows(in_.k, kv_plane, r), rows(in_.v, kv_plane, r),
                                 shift(kv_plane), c, sum, scratch(worker));
      counts_[worker].keys += r.keys;
      counts_[worker].key_gradients += r.keys;
    }
    for (std::size_t g = 0; g < plan_.group() && r.queries > 0; ++g) {
      const std::size_t plane = kv_plane * plan_.group() + g;
      collect_block(plane, r, c, sum, worker);
      counts_[worker].key_pairs += queries(plane, r).pairs();
    }
    if (r.keys > 0) {
      feature_key_backward_slopes(map_, plan_.sizes, r.keys, scratch(worker));
      finish(kv_plane, r, worker);
    }
  }
  void finish(std::size_t kv_plane, const FeatureRange& r, std::size_t worker) const {
    feature_key_backward_finish(map_, rows(grad_.k, kv_plane, r), rows(grad_.v, kv_plane, r),
                                scratch(worker));
  }

  // Whether forward cut off keys of block t, whose c then rose far.
  bool far(std::size_t kv_plane, std::size_t t, std::size_t worker) const {
    constexpr float kFar = 80.0F;  // less than what is cut off, whatever c lags behind
    const FeatureRange r = plan_.block(batch_of(kv_plane), t);
    if (!map_.running() || r.keys == 0) return false;
    const float* before = top(kv_plane, t);
    const float* after = top(kv_plane, t + 1);
    bool rises = false;
    for (std::size_t m = 0; m < plan_.sizes.features; ++m) rises |= after[m] - before[m] > kFar;
    return rises && feature_cut_off(map_, plan_.sizes, rows(in_.k, kv_plane, r), top(kv_plane, t),
                                    scratch(worker));
  }
  // The same as lower and key_block for such a block.
  void far_block(std::size_t kv_plane, std::size_t t, const FeatureState& sum, std::size_t worker) {
    FeatureRange r = plan_.block(batch_of(kv_plane), t);
    feature_key_backward_begin(map_, rows(in_.k, kv_plane, r), rows(in_.v, kv_plane, r),
                               shift(kv_plane), top(kv_plane, t + 1), sum, scratch(worker));
    feature_key_backward_slopes(map_, plan_.sizes, r.keys, scratch(worker));
    counts_[worker].keys += r.keys;
    counts_[worker].key_gradients += r.keys;
    for (std::size_t g = 0; g < plan_.group() && r.queries > 0; ++g) {
      const std::size_t plane = kv_plane * plan_.group() + g;
      feature_key_backward_pairs(map_, queries(plane, r), signal(plane, r), scratch(worker));
      counts_[worker].key_pairs += queries(plane, r).pairs();
    }
    finish(kv_plane, r, worker);
    lower(kv_plane, t, sum, worker);
    r.keys = 0;
    for (std::size_t g = 0; g < plan_.group() && r.queries > 0; ++g) {
      collect_block(kv_plane * plan_.group() + g, r, top(kv_plane, t), sum, worker);
    }
  }
  void collect_block(std::size_t plane, const FeatureRange& r, const float* c,
                     const FeatureState& sum, std::size_t worker) {
    feature_key_backward_add(map_, queries(plane, r), signal(plane, r), c, sum, plan_.sizes.e,
                             scratch(worker));
    counts_[worker].queries += r.queries;
    counts_[worker].collected += r.queries;
  }
  void lower(std::size_t kv_plane, std::size_t t, const FeatureState& sum, std::size_t worker) {
    ++counts_[worker].blocks;
    if (map_.running()) feature_lower(plan_.sizes, top(kv_plane, t), top(kv_plane, t + 1), sum);
  }

  void run_causal() {
    const std::size_t parts = plan_.parts;
    // R and w of the queries in part p + 1 go to slot p.
    parallel_for(plan_.kv_planes() * (parts - 1), [&](std::size_t task, std::size_t worker) {
      add_up_queries(task / (parts - 1), task % (parts - 1), worker);
    });
    parallel_for(plan_.kv_planes(), [&](std::size_t plane, std::size_t worker) {
      clear(sums(plane, parts - 1), plan_.state);
      for (std::size_t p = parts - 1; p-- > 1;) add_sums(plane, p, p - 1, this, worker);
    });
    parallel_for(plan_.kv_planes() * parts * 2, [&](std::size_t task, std::size_t worker) {
      const std::size_t plane = task / 2 / parts;
      const std::size_t part = task / 2 % parts;
      task % 2 == 0 ? scan_queries(plane, part, worker) : scan_keys(plane, part, worker);
    });
  }

  void add_up_queries(std::size_t kv_plane, std::size_t slot, std::size_t worker) {
    const FeatureState sum = sums(kv_plane, slot);
    clear(sum, plan_.state);
    for (std::size_t t = plan_.first_block(slot + 2); t-- > plan_.first_block(slot + 1);) {
      lower(kv_plane, t, sum, worker);
      FeatureRange r = plan_.block(batch_of(kv_plane), t);
      r.keys = 0;
      for (std::size_t g = 0; g < plan_.group() && r.queries > 0; ++g) {
        collect_block(kv_plane * plan_.group() + g, r, top(kv_plane, t), sum, worker);
      }
    }
  }

  // Slot `to` += slot `from`, which in a causal scan (`relative`) refers to the c at the start of
  // part from + 1 while `to` refers to that of part to + 1.
  void add_sums(std::size_t kv_plane, std::size_t from, std::size_t to, const Backward* relative,
                std::size_t worker) {
    const FeatureState source = sums(kv_plane, from);
    const FeatureState target = sums(kv_plane, to);
    const std::size_t pitch = tile_pitch(plan_.sizes.e);
    for (std::size_t m = 0; m < plan_.sizes.features; ++m) {
      float factor = 1.0F;
      if (relative != nullptr && map_.running()) {
        factor = std::exp2(top(kv_plane, plan_.first_block(to + 1))[m] -
                           top(kv_plane, plan_.first_block(from + 1))[m]);
      }
      target.sum[m] += factor * source.sum[m];
      for (std::size_t c = 0; c < plan_.sizes.e; ++c) {
        target.moment[m * pitch + c] += factor * source.moment[m * pitch + c];
      }
    }
    ++counts_[worker].merges;
    if (relative != nullptr) ++counts_[worker].blocks;
  }

  void scan_queries(std::size_t kv_plane, std::size_t part, std::size_t worker) {
    const FeatureState s =
        feature_state(plan_.sizes, states_.data() + (kv_plane * plan_.parts + part) * plan_.state);
    if (part == 0) {
      clear(s, plan_.state);
      std::fill_n(s.sum, plan_.sizes.features, map_.sum_epsilon);
    } else {
      std::copy_n(saved_plane(kv_plane) + (part - 1) * plan_.state, plan_.state, s.top);
    }
    for (std::size_t t = plan_.first_block(part); t < plan_.first_block(part + 1); ++t) {
      const FeatureRange r = plan_.block(batch_of(kv_plane), t);
      if (r.keys > 0) {
        feature_keys(map_, rows(in_.k, kv_plane, r), rows(in_.v, kv_plane, r), shift(kv_plane),
                     s.top, map_.running() && s.empty(), scratch(worker));
        counts_[worker].keys += r.keys;
      }
      for (std::size_t g = 0; g < plan_.group() && r.queries > 0; ++g) {
        query_block(kv_plane * plan_.group() + g, r, s, nullptr, worker);
      }
      if (r.keys == 0) continue;
      feature_absorb(map_, plan_.sizes, rows(in_.k, kv_plane, r), s, scratch(worker));
      counts_[worker].absorbed += r.keys;
      ++counts_[worker].blocks;
    }
  }

  void scan_keys(std::size_t kv_plane, std::size_t part, std::size_t worker) {
    const FeatureState sum = sums(kv_plane, part);
    for (std::size_t t = plan_.first_block(part + 1); t-- > plan_.first_block(part);) {
      if (far(kv_plane, t, worker)) {
        far_block(kv_plane, t, sum, worker);
        continue;
      }
      lower(kv_plane, t, sum, worker);
      key_block(kv_plane, plan_.block(batch_of(kv_plane), t), top(kv_plane, t), sum, worker);
    }
  }

  void clear_padding() const {
    for (std::size_t plane = 0; plane < plan_.kv_planes(); ++plane) {
      for (std::size_t j = plan_.shape().keys(batch_of(plane)); j < in_.k.n; ++j) {
        std::ranges::fill(grad_.k.head(batch_of(plane), plane % in_.k.heads).row(j), 0.0F);
        std::ranges::fill(grad_.v.head(batch_of(plane), plane % in_.k.heads).row(j), 0.0F);
      }
    }
    for (std::size_t plane = 0; plane < plan_.planes(); ++plane) {
      const Matrix q = grad_.q.head(plane / in_.q.heads, plane % in_.q.heads);
      for (std::size_t i = 0; i < plan_.blind(); ++i) std::ranges::fill(q.row(i), 0.0F);
    }
  }

  const FeaturePlan& plan_;
  const FeatureMap& map_;
  const FeatureTensors& in_;
  ConstHeads dy_;
  Gradients grad_;
  std::span<const float> saved_;
  std::span<FeatureCounts> counts_;
  std::size_t floats_;
  std::span<float> scratch_;
  std::span<float> delta_;
  std::size_t slots_;
  std::span<float> sums_;
  std::span<float> states_;
};

}  // namespace

void feature_backward(const FeatureMap& map, const FeatureTensors& in, ConstHeads y, ConstHeads dy,
                      std::span<const float> saved, Heads dq, Heads dk, Heads dv, Arena& arena) {
  const FeaturePlan plan(map, in.shape());
  report(Backward(plan, in, dy, saved, {dq, dk, dv}, arena).run(y));
}

}  // namespace longspan
