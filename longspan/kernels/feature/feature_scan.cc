#include "longspan/kernels/feature/feature_scan.h"

#include <limits>

#include "longspan/base/integers.h"
#include "longspan/kernels/feature/feature_plan.h"

namespace longspan {

namespace {

using detail::FeatureCounts;
using detail::FeaturePlan;
using detail::FeatureRange;
using detail::touch_rows;

constexpr std::size_t kReadBlocks = 8;  // blocks of queries that a task reads

FeatureCounts total(std::span<const FeatureCounts> counts) {
  FeatureCounts sum;
  for (const FeatureCounts& c : counts) sum += c;
  return sum;
}

class Forward {
 public:
  // `states` may be those of tokens that came before; else they come from the arena.
  Forward(const FeaturePlan& plan, const FeatureTensors& in, Heads y, std::span<float> saved,
          Arena& arena, std::span<float> states = {})
      : plan_(plan),
        map_(plan.map()),
        in_(in),
        y_(y),
        counts_(arena.take<FeatureCounts>(workers())),
        floats_(tile_width(feature_forward_scratch(plan.sizes))),
        scratch_(arena.take(workers() * floats_)),
        states_(states.empty() ? arena.take(plan.kv_planes() * plan.parts * plan.state) : states),
        kept_(arena.take(plan.kv_planes() * plan.saved_kept())),
        shifts_(arena.take(plan.kv_planes())),
        saved_(saved) {
    std::ranges::fill(counts_, FeatureCounts{});
    std::ranges::fill(shifts_, 0.0F);
  }

  Work run() {
    if (map_.kind == FeatureKind::kShifted) find_shifts();
    in_.causal ? run_causal() : run_plain();
    keep();
    return plan_.forward_work(total(counts_));
  }

  Work decode() {
    parallel_for(plan_.kv_planes(), [&](std::size_t plane, std::size_t worker) {
      const FeatureState s = state(plane, 0);
      if (s.empty()) std::fill_n(s.sum, plan_.sizes.features, map_.sum_epsilon);
      scan(plane, 0, worker);
    });
    return plan_.forward_work(total(counts_));
  }

 private:
  FeatureState state(std::size_t kv_plane, std::size_t part) const {
    return feature_state(plan_.sizes,
                         states_.data() + (kv_plane * plan_.parts + part) * plan_.state);
  }
  float* scratch(std::size_t worker) const { return scratch_.data() + worker * floats_; }
  float* saved_plane(std::size_t kv_plane) const {
    return saved_.data() + plan_.saved_levels() + kv_plane * plan_.saved_per_plane();
  }
  float* levels(std::size_t plane) const {
    return saved_.empty() ? nullptr : saved_.data() + plane * in_.q.n;
  }
  std::size_t batch_of(std::size_t kv_plane) const { return kv_plane / in_.k.heads; }
  ConstMatrix rows(const ConstHeads& x, std::size_t kv_plane, const FeatureRange& r) const {
    return x.head(batch_of(kv_plane), kv_plane % in_.k.heads).slice_rows(r.key, r.keys);
  }

  void find_shifts() {
    parallel_for(plan_.kv_planes(), [&](std::size_t plane, std::size_t worker) {
      float most = std::numeric_limits<float>::lowest();
      for (std::size_t t = 0; t < plan_.blocks(); ++t) {
        const FeatureRange r = plan_.block(batch_of(plane), t);
        if (r.keys == 0) continue;
        const ConstMatrix k = rows(in_.k, plane, r);
        most = std::max(most, feature_largest(map_, k, plan_.sizes, scratch(worker)));
        counts_[worker].shifted += r.keys;
      }
      shifts_[plane] = most;
    });
  }

  void clear(std::size_t kv_plane, std::size_t slot, bool first) const {
    const FeatureState s = state(kv_plane, slot);
    std::fill_n(s.top, plan_.state, 0.0F);
    if (first && in_.causal) std::fill_n(s.sum, plan_.sizes.features, map_.sum_epsilon);
  }

  // φ of a block's keys; true if there are any.
  bool look(std::size_t kv_plane, const FeatureRange& r, const FeatureState& s,
            std::size_t worker) {
    if (r.keys == 0) return false;
    feature_keys(map_, rows(in_.k, kv_plane, r), rows(in_.v, kv_plane, r), shifts_[kv_plane], s.top,
                 map_.running() && s.empty(), scratch(worker));
    counts_[worker].keys += r.keys;
    return true;
  }
  void absorb(std::size_t kv_plane, const FeatureRange& r, const FeatureState& s,
              std::size_t worker) {
    feature_absorb(map_, plan_.sizes, rows(in_.k, kv_plane, r), s, scratch(worker));
    counts_[worker].absorbed += r.keys;
    ++counts_[worker].blocks;
  }
  // The states of part `part`'s keys alone, for the key heads from `first` on.
  void add_up(std::size_t first, std::size_t part, std::size_t slot, std::size_t worker) {
    for (std::size_t i = 0; i < plan_.side; ++i) clear(first + i, slot, part == 0);
    for (std::size_t t = plan_.first_block(part); t < plan_.first_block(part + 1); ++t) {
      const FeatureRange all = plan_.block(batch_of(first), t);
      touch_rows(in_.k, first, plan_.side, all.key, all.keys);
      touch_rows(in_.v, first, plan_.side, all.key, all.keys);
      for (std::size_t plane = first; plane < first + plan_.side; ++plane) {
        const FeatureState s = state(plane, slot);
        const FeatureRange r = plan_.block(batch_of(plane), t);
        if (by_rows()) {
          absorb_rows(plane, r, s, worker);
        } else if (look(plane, r, s, worker)) {
          absorb(plane, r, s, worker);
        }
      }
    }
  }
  bool by_rows() const { return map_.by_rows() && !in_.causal; }
  void absorb_rows(std::size_t kv_plane, const FeatureRange& r, const FeatureState& s,
                   std::size_t worker) {
    if (r.keys == 0) return;
    feature_rows_absorb(map_, rows(in_.k, kv_plane, r), rows(in_.v, kv_plane, r), s,
                        scratch(worker));
    counts_[worker].keys += r.keys;
    counts_[worker].absorbed += r.keys;
    ++counts_[worker].blocks;
  }
  void merge(std::size_t kv_plane, std::size_t from, std::size_t to, std::size_t worker) {
    feature_merge(map_, plan_.sizes, state(kv_plane, from), state(kv_plane, to));
    ++counts_[worker].merges;
  }

  void run_plain() {
    const std::size_t groups = plan_.kv_planes() / plan_.side;
    parallel_for(groups * plan_.parts, [&](std::size_t task, std::size_t worker) {
      const std::size_t part = task % plan_.parts;
      add_up(task / plan_.parts * plan_.side, part, part, worker);
    });
    parallel_for(plan_.kv_planes(), [&](std::size_t plane, std::size_t worker) {
      for (std::size_t part = 1; part < plan_.parts; ++part) merge(plane, part, 0, worker);
      if (!map_.over_sequence) return;
      feature_divide(plan_.sizes, map_.gain, state(plane, 0), kept(plane));
      ++counts_[worker].divisions;
    });
    const std::size_t step = kReadBlocks * kFeatureBlock;
    const std::size_t pieces = divide_up(in_.q.n, step);
    const std::size_t heads = plan_.side * plan_.group();
    parallel_for(groups * pieces, [&](std::size_t task, std::size_t worker) {
      const std::size_t first = task % pieces * step;
      const std::size_t last = std::min(first + step, in_.q.n);
      for (std::size_t i = first; i < last; i += kFeatureBlock) {
        FeatureRange r;
        r.query = i;
        r.queries = std::min(kFeatureBlock, last - i);
        touch_rows(in_.q, task / pieces * heads, heads, i, r.queries);
        touch_rows(y_, task / pieces * heads, heads, i, r.queries);
        for (std::size_t h = 0; h < heads; ++h) {
          const std::size_t plane = task / pieces * heads + h;
          read(plane, r, state(kv_plane_of(plane), 0), worker);
        }
      }
    });
  }

  void run_causal() {
    const std::size_t parts = plan_.parts;
    parallel_for(plan_.kv_planes() * (parts - 1), [&](std::size_t task, std::size_t worker) {
      const std::size_t part = task % (parts - 1);
      add_up(task / (parts - 1), part, part + 1, worker);
    });
    parallel_for(plan_.kv_planes(), [&](std::size_t plane, std::size_t worker) {
      clear(plane, 0, true);
      for (std::size_t part = 2; part < parts; ++part) merge(plane, part - 1, part, worker);
      if (saved_.empty() || parts < 2) return;
      std::copy_n(state(plane, 1).top, (parts - 1) * plan_.state, saved_plane(plane));
    });
    parallel_for(plan_.kv_planes() * parts, [&](std::size_t task, std::size_t worker) {
      scan(task / parts, task % parts, worker);
    });
    for (std::size_t plane = 0; plan_.blind() > 0 && plane < plan_.planes(); ++plane) {
      blind(plane);
    }
  }

  void scan(std::size_t kv_plane, std::size_t part, std::size_t worker) {
    const FeatureState s = state(kv_plane, part);
    for (std::size_t t = plan_.first_block(part); t < plan_.first_block(part + 1); ++t) {
      const FeatureRange r = plan_.block(batch_of(kv_plane), t);
      const bool keys = look(kv_plane, r, s, worker);
      keep_top(kv_plane, t, s);
      for (std::size_t g = 0; g < plan_.group() && r.queries > 0; ++g) {
        read(kv_plane * plan_.group() + g, r, s, worker);
      }
      if (keys) absorb(kv_plane, r, s, worker);
    }
    if (part + 1 == plan_.parts) keep_top(kv_plane, plan_.blocks(), s);
  }

  // Head h of a sequence reads key head h / group, so planes of a group follow each other.
  std::size_t kv_plane_of(std::size_t plane) const { return plane / plan_.group(); }

  void read(std::size_t plane, const FeatureRange& r, const FeatureState& s, std::size_t worker) {
    const std::size_t b = plane / in_.q.heads;
    const std::size_t h = plane % in_.q.heads;
    const FeatureQueries block{in_.q.head(b, h).slice_rows(r.query, r.queries), r.keys, r.seen,
                               rows(in_.k, kv_plane_of(plane), r)};
    float* level = levels(plane) == nullptr ? nullptr : levels(plane) + r.query;
    const Matrix y = y_.head(b, h).slice_rows(r.query, r.queries);
    if (by_rows()) {
      feature_rows_read(map_, block.q, s, y, level, scratch(worker));
    } else {
      feature_read(map_, block, s, y, level, scratch(worker));
    }
    counts_[worker].reads += r.queries;
    counts_[worker].queries += r.queries;
    counts_[worker].pairs += block.pairs();
  }

  void blind(std::size_t plane) {
    const Matrix y = y_.head(plane / in_.q.heads, plane % in_.q.heads);
    for (std::size_t i = 0; i < plan_.blind(); ++i) {
      std::ranges::fill(y.row(i), 0.0F);
      if (!saved_.empty()) {
        levels(plane)[i] = map_.running() ? std::numeric_limits<float>::infinity() : 0.0F;
      }
    }
  }

  FeatureState kept(std::size_t kv_plane) const {
    return feature_state(plan_.sizes, kept_.data() + kv_plane * plan_.saved_kept());
  }
  void keep_top(std::size_t kv_plane, std::size_t t, const FeatureState& s) const {
    if (saved_.empty() || plan_.saved_tops() == 0) return;
    std::copy_n(s.top, plan_.wide,
                saved_plane(kv_plane) + plan_.saved_states() * plan_.state + t * plan_.wide);
  }
  void keep() const {
    for (std::size_t plane = 0; !saved_.empty() && plane < plan_.kv_planes(); ++plane) {
      float* to = saved_plane(plane);
      if (!in_.causal) std::copy_n(state(plane, 0).top, plan_.state, to);
      to += plan_.saved_states() * plan_.state + plan_.saved_tops();
      if (plan_.saved_kept() > 0) std::copy_n(kept(plane).top, plan_.saved_kept(), to);
      if (plan_.saved_shift() > 0) to[plan_.saved_kept()] = shifts_[plane];
    }
  }

  const FeaturePlan& plan_;
  const FeatureMap& map_;
  const FeatureTensors& in_;
  Heads y_;
  std::span<FeatureCounts> counts_;
  std::size_t floats_;
  std::span<float> scratch_;
  std::span<float> states_;
  std::span<float> kept_;
  std::span<float> shifts_;
  std::span<float> saved_;
};

}  // namespace

FeatureCost feature_cost(const FeatureMap& map, const FeatureShape& shape) {
  const FeaturePlan plan(map, shape);
  FeatureCost cost;
  cost.forward = plan.forward_work(plan.forward_counts());
  cost.backward = plan.backward_work(plan.backward_counts());
  cost.saved = plan.saved();
  cost.forward_scratch = plan.forward_bytes();
  cost.backward_scratch = plan.backward_bytes();
  return cost;
}

void feature_forward(const FeatureMap& map, const FeatureTensors& in, Heads y,
                     std::span<float> saved, Arena& arena) {
  const FeaturePlan plan(map, in.shape());
  report(Forward(plan, in, y, saved, arena).run());
}

std::size_t feature_decode_floats(const FeatureMap& map, const FeatureShape& shape) {
  const FeaturePlan plan = FeaturePlan::decoding(map, shape);
  return plan.kv_planes() * plan.state;
}

FeatureCost feature_decode_cost(const FeatureMap& map, const FeatureShape& shape) {
  const FeaturePlan plan = FeaturePlan::decoding(map, shape);
  FeatureCost cost;
  cost.forward = plan.forward_work(plan.forward_counts());
  cost.forward_scratch = plan.decode_bytes();
  return cost;
}

void feature_decode(const FeatureMap& map, const FeatureTensors& in, Heads y,
                    std::span<float> state, Arena& arena) {
  const FeaturePlan plan = FeaturePlan::decoding(map, in.shape());
  report(Forward(plan, in, y, {}, arena, state).decode());
}

}  // namespace longspan
