#include "longspan/kernels/feature/feature_plan.h"

#include "longspan/base/cost.h"
#include "longspan/base/integers.h"

namespace longspan::detail {

namespace {

// Enough parts for the cores of a large machine, but a part has some blocks. A causal part costs a
// second look at its keys.
std::size_t part_count(std::size_t planes, std::size_t blocks, bool causal) {
  constexpr std::size_t kMostParts = 8;
  constexpr std::size_t kLeastBlocks = 4;
  const std::size_t tasks = causal ? 8 : 16;
  return std::clamp<std::size_t>(divide_up(tasks, planes), 1,
                                 std::clamp<std::size_t>(blocks / kLeastBlocks, 1, kMostParts));
}

// Heads that are read side by side, whose states stay in the second cache.
std::size_t side_heads(const FeatureShape& shape, std::size_t state) {
  constexpr std::size_t kMostFloats = std::size_t{1} << 18U;
  std::size_t side = 1;
  while (!shape.causal && side < 8 && shape.kv_heads % (2 * side) == 0 &&
         (side < 2 || 2 * side * state <= kMostFloats)) {
    side *= 2;
  }
  return side;
}

}  // namespace

FeatureCounts& FeatureCounts::operator+=(const FeatureCounts& o) {
  keys += o.keys;
  queries += o.queries;
  shifted += o.shifted;
  reads += o.reads;
  absorbed += o.absorbed;
  blocks += o.blocks;
  merges += o.merges;
  divisions += o.divisions;
  pairs += o.pairs;
  query_pairs += o.query_pairs;
  key_pairs += o.key_pairs;
  query_gradients += o.query_gradients;
  key_gradients += o.key_gradients;
  collected += o.collected;
  deltas += o.deltas;
  return *this;
}

FeaturePlan::FeaturePlan(const FeatureMap& map, const FeatureShape& shape)
    : sizes{shape.d, shape.e, map.features(shape.d)}, map_(map), shape_(shape) {
  state = feature_state_floats(sizes);
  side = side_heads(shape, state);
  parts = part_count(kv_planes() / side, blocks(), shape.causal);
  query_parts = part_count(kv_planes() / side, query_blocks(), false);
  wide = tile_width(sizes.features);
}

FeaturePlan FeaturePlan::decoding(const FeatureMap& map, const FeatureShape& shape) {
  FeaturePlan plan(map, shape);
  plan.parts = 1;
  return plan;
}

FeatureRange FeaturePlan::block(std::size_t b, std::size_t index) const {
  FeatureRange r;
  r.key = index * kFeatureBlock;
  const std::size_t end = std::min(r.key + kFeatureBlock, shape_.n);
  const std::size_t length = shape_.keys(b);
  r.keys = std::min(end, length) > r.key ? std::min(end, length) - r.key : 0;
  if (!shape_.causal || end + shape_.m <= shape_.n) return r;
  const std::size_t lead = r.key + shape_.m;  // of the block's first position
  r.query = lead > shape_.n ? lead - shape_.n : 0;
  r.queries = end + shape_.m - shape_.n - r.query;
  r.seen = r.query + shape_.n - shape_.m - r.key + 1;
  return r;
}

std::size_t FeaturePlan::alike(std::size_t b, std::size_t index, std::size_t last) const {
  const std::size_t first = index * kFeatureBlock;
  std::size_t stop = std::min(last, shape_.n / kFeatureBlock);  // whole blocks
  if (index >= stop) return 1;
  // Where padding begins, and where the queries of a causal shape do, blocks change.
  const std::size_t queries = shape_.causal && shape_.n > shape_.m ? shape_.n - shape_.m : 0;
  for (const std::size_t change : {shape_.keys(b), queries}) {
    if (first >= change) continue;
    stop = std::min(stop, change / kFeatureBlock);
    if (index >= stop) return 1;
  }
  return stop - index;
}

FeatureCounts FeaturePlan::forward_counts() const {
  FeatureCounts c;
  for (std::size_t b = 0; b < shape_.batch; ++b) {
    for (std::size_t part = 0; part < parts; ++part) {
      // All parts but the last are looked at twice if causal.
      const std::uint64_t times = shape_.causal && part + 1 < parts ? 2 : 1;
      const std::size_t last = first_block(part + 1);
      for (std::size_t t = first_block(part), run = 1; t < last; t += run) {
        run = alike(b, t, last);
        const FeatureRange r = block(b, t);
        const FeatureQueries q{{nullptr, r.queries, 0}, r.keys, r.seen};
        c.keys += run * times * r.keys;
        c.absorbed += run * times * r.keys;
        c.blocks += r.keys > 0 ? run * times : 0;
        c.reads += run * group() * r.queries;
        c.pairs += run * group() * q.pairs();
      }
    }
    if (map_.kind == FeatureKind::kShifted) c.shifted += shape_.keys(b);
  }
  c.merges = shape_.batch * (shape_.causal ? std::max<std::size_t>(parts, 2) - 2 : parts - 1);
  c.divisions = map_.over_sequence ? shape_.batch : 0;
  c.keys *= shape_.kv_heads;
  c.absorbed *= shape_.kv_heads;
  c.blocks *= shape_.kv_heads;
  c.reads *= shape_.kv_heads;
  c.pairs *= shape_.kv_heads;
  c.merges *= shape_.kv_heads;
  c.divisions *= shape_.kv_heads;
  c.shifted *= shape_.kv_heads;
  if (!shape_.causal) c.reads = planes() * shape_.m;
  c.queries = c.reads;
  return c;
}

FeatureCounts FeaturePlan::backward_counts() const {
  FeatureCounts c;
  std::uint64_t real = 0;   // keys that are not padding
  std::uint64_t again = 0;  // queries that a part adds up before the scan
  for (std::size_t b = 0; b < shape_.batch; ++b) {
    real += shape_.keys(b);
    for (std::size_t part = 0; shape_.causal && part < parts; ++part) {
      const std::size_t last = first_block(part + 1);
      for (std::size_t t = first_block(part), run = 1; t < last; t += run) {
        run = alike(b, t, last);
        const FeatureRange r = block(b, t);
        const FeatureQueries q{{nullptr, r.queries, 0}, r.keys, r.seen};
        c.query_pairs += run * group() * q.pairs();
        again += part > 0 ? run * group() * r.queries : 0;
        // The scan for dq raises c, the reverse scan lowers it, as does adding up.
        c.blocks += run * ((r.keys > 0 ? 1 : 0) + 1 + (part > 0 ? 1 : 0));
      }
    }
  }
  const std::uint64_t queries = planes() * (shape_.m - blind());
  const std::uint64_t heads = shape_.kv_heads;
  c.query_pairs *= heads;
  c.key_pairs = c.query_pairs;
  c.query_gradients = queries;
  c.key_gradients = heads * real;
  c.deltas = planes() * shape_.m;
  if (shape_.causal) {
    c.blocks = heads * (c.blocks + shape_.batch * (std::max<std::size_t>(parts, 2) - 2));
    c.keys = 2 * heads * real;
    c.absorbed = heads * real;
    c.queries = 2 * queries + heads * again;
    c.collected = queries + heads * again;
    c.merges = kv_planes() * (std::max<std::size_t>(parts, 2) - 2);
  } else {
    c.keys = heads * real;
    c.queries = queries;
    c.collected = queries;
    c.merges = kv_planes() * (query_parts - 1);
    c.divisions = map_.over_sequence ? kv_planes() : 0;
  }
  return c;
}

Work FeaturePlan::features_work(const FeatureCounts& c) const {
  const std::size_t d = shape_.d;
  const std::uint64_t m = sizes.features;
  const std::uint64_t e = shape_.e;
  Work work = (c.keys + c.queries + c.shifted) * map_.projection_work(d) +
              c.keys * map_.key_work(d) + c.queries * map_.query_work(d) +
              flops(Kind::kFeature, c.shifted * m);
  work += flops(Kind::kAdd, c.merges * m * (e + 1));
  work += flops(Kind::kFeature, c.divisions * m * (e + 1));
  if (map_.running()) work += flops(Kind::kFeature, c.blocks * m * (e + 3));
  return work;
}

Work FeaturePlan::forward_work(const FeatureCounts& c) const {
  const std::uint64_t m = sizes.features;
  const std::uint64_t e = shape_.e;
  Work work = features_work(c);
  work += maccs(c.reads * m * (e + 1) + c.absorbed * m * e + c.pairs * (m + e));
  work += flops(Kind::kAdd, c.absorbed * m + c.pairs);
  work += flops(Kind::kFeature, c.reads * (e + 1));
  work.bytes[static_cast<std::size_t>(Kind::kMatmul)] =
      sizeof(float) * (planes() * shape_.m + kv_planes() * shape_.n) * (shape_.d + e);
  return work;
}

Work FeaturePlan::backward_work(const FeatureCounts& c) const {
  const std::size_t d = shape_.d;
  const std::uint64_t m = sizes.features;
  const std::uint64_t e = shape_.e;
  Work work = features_work(c);
  work += maccs(c.deltas * e + c.query_gradients * m * (e + 1) + c.collected * m * (e + 1) +
                c.absorbed * m * e + c.key_gradients * 2 * m * e + c.query_pairs * (e + m) +
                c.key_pairs * 2 * (e + m));
  work += c.query_gradients * (map_.derivative_work(d, false) + map_.projection_work(d));
  work += c.key_gradients * (map_.derivative_work(d, true) + map_.projection_work(d));
  work += flops(Kind::kAdd, c.query_pairs + c.key_pairs + c.key_gradients * m + c.absorbed * m);
  // Plain kinds divide ∂L/∂φ(q) and φ(q) by the denominator.
  if (!map_.running()) {
    work += flops(Kind::kFeature, (c.query_gradients + c.collected) * m);
  }
  work.bytes[static_cast<std::size_t>(Kind::kMatmul)] =
      2 * sizeof(float) * (planes() * shape_.m + kv_planes() * shape_.n) * (shape_.d + e);
  return work;
}

std::size_t FeaturePlan::forward_bytes() const {
  return Arena::bytes_for<FeatureCounts>(workers()) +
         Arena::bytes_for(workers() * tile_width(feature_forward_scratch(sizes))) + state_bytes() +
         Arena::bytes_for(kv_planes() * saved_kept()) + Arena::bytes_for(kv_planes());
}

std::size_t FeaturePlan::backward_bytes() const {
  const std::size_t sums = shape_.causal ? parts : query_parts;
  return Arena::bytes_for<FeatureCounts>(workers()) +
         Arena::bytes_for(workers() * tile_width(feature_backward_scratch(sizes))) +
         Arena::bytes_for(planes() * shape_.m) + Arena::bytes_for(kv_planes() * sums * state) +
         Arena::bytes_for(shape_.causal ? kv_planes() * parts * state : 0);
}

void touch_rows(const ConstHeads& x, std::size_t plane, std::size_t planes, std::size_t first,
                std::size_t count) {
  constexpr std::size_t kLine = 16;
  if (x.head_stride != x.d) return;
  const ConstMatrix head = x.head(plane / x.heads, plane % x.heads);
  for (std::size_t i = first; i < first + count; ++i) {
    const volatile float* row = head.row_data(i);
    for (std::size_t c = 0; c < planes * x.d; c += kLine) static_cast<void>(row[c]);
  }
}

}  // namespace longspan::detail
