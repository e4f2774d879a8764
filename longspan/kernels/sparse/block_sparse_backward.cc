#include "longspan/kernels/sparse/block_sparse.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/sparse/block_sparse_backward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "longspan/kernels/sparse/block_sparse-inl.h"
// clang-format on

#ifndef LONGSPAN_KERNELS_BLOCK_SPARSE_BACKWARD_CC_
#define LONGSPAN_KERNELS_BLOCK_SPARSE_BACKWARD_CC_
namespace longspan {

// The parts of the scratch, in floats.
struct SparseBackwardLayout {
  static constexpr std::size_t kPitch = tile_pitch(kQueryBlock);
  std::size_t keys, values, dk, dv, qt, dyt, dqt, q, dy, p, ds, lse, delta;
  std::size_t qrt, qr, dqrt, relative, drelative, band, dband, total;

  SparseBackwardLayout(std::size_t d, std::size_t e, std::size_t buckets, bool bands) {
    std::size_t at = 0;
    auto take = [&at](std::size_t floats) { return (at += floats) - floats; };
    keys = take(kKeyBlock * tile_pitch(d));
    values = take(kKeyBlock * tile_pitch(e));
    dk = take(kKeyBlock * tile_pitch(d));
    dv = take(kKeyBlock * tile_pitch(e));
    qt = take(d * kPitch);
    dyt = take(e * kPitch);
    dqt = take(d * kPitch);
    q = take(kQueryBlock * tile_pitch(d));
    dy = take(kQueryBlock * tile_pitch(e));
    p = take(kKeyBlock * kPitch);
    ds = take(kKeyBlock * kPitch);
    lse = take(kPitch);
    delta = take(kPitch);
    qrt = take(buckets > 0 ? d * kPitch : 0);
    qr = take(buckets > 0 ? kQueryBlock * tile_pitch(d) : 0);
    dqrt = take(buckets > 0 ? d * kPitch : 0);
    relative = take(buckets * kPitch);
    drelative = take(buckets * kPitch);
    band = take(bands ? kKeyBlock * kBandPitch : 0);
    dband = take(bands ? kKeyBlock * kBandPitch : 0);
    total = at;
  }
};

}  // namespace longspan
#endif

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {
namespace {

// A tile of queries, packed once for its whole list.
struct SparseQueries {
  Right q, dy;               // [query][d], [query][e]
  const float *qt, *dyt;     // [d][kPitch] scaled by s·log₂e, [e][kPitch] scaled by s
  const float *lse, *delta;  // L, s·D
  float *p, *ds;             // [kKeyBlock][kPitch]
  float* dqt;                // [d][kPitch]
  RelativeScores relative;
  float *drelative, *dband;  // their gradients
};

// Sums of one tile of keys.
struct KeySums {
  float* dk;
  std::size_t dk_stride;
  float* dv;
  std::size_t dv_stride;
};

// P and dS of a tile; keys that a group of lanes does not see become zeros.
void sparse_tile_gradients(const SparseHead& head, const SparseTile& t, const TileKeys& keys,
                           const SparseQueries& x) {
  for_each_group(tile_width(t.lanes), [&](std::size_t column, auto vectors) HWY_ATTR {
    constexpr int kVectors = vectors();
    constexpr std::size_t kWidth = kVectors * kVectorLanes;
    const Rows rows = group_rows<kVectors>(head, t, column);
    if (rows.count() > 0) {
      const std::size_t from = rows.begin * kPitch;
      tile_gemm_group<kVectors>({keys.k.data + rows.begin * keys.k.stride, keys.k.stride},
                                {x.qt, kPitch}, rows.count(), head.q.cols, {x.p + from, kPitch},
                                column);
      tile_gemm_group<kVectors>({keys.v.data + rows.begin * keys.v.stride, keys.v.stride},
                                {x.dyt, kPitch}, rows.count(), head.v.cols, {x.ds + from, kPitch},
                                column);
      if (head.relative.active(t.keys))
        add_relative<kVectors>(head, t, rows, column, x.relative, x.p);
      hide_outside<kVectors>(head, t, rows, column, x.p);
      for (std::size_t c = column; c < column + kWidth; c += kVectorLanes) {
        if (exceeds(x.lse + c, false)) limit_to_level(x.p + from + c, rows.count(), x.lse + c);
      }
      if (head.dropout.active()) {
        for_each_sparse_dropout<kVectors>(
            head, t, rows, column, [&x](std::size_t at, VF f) HWY_ATTR {
              dropped_gradient(x.p + at, x.ds + at, f, x.lse + at % kPitch, x.delta + at % kPitch);
            });
      } else {
        for (std::size_t c = column; c < column + kWidth; c += kVectorLanes) {
          score_gradient(x.p + from + c, x.ds + from + c, rows.count(), x.lse + c, x.delta + c);
        }
      }
    }
    for (std::size_t j = 0; j < t.keys.size(); ++j) {
      if (j >= rows.begin && j < rows.end) continue;
      std::fill_n(x.p + j * kPitch + column, kWidth, 0.0F);
      std::fill_n(x.ds + j * kPitch + column, kWidth, 0.0F);
    }
  });
}

// The lanes that see some of the keys [begin, end) of a tile.
Rows lanes_of(const SparseHead& head, const SparseTile& t, Rows keys) {
  const KeyRange part{t.keys.begin + keys.begin, t.keys.begin + keys.end, t.keys.kind};
  Rows lanes{0, t.lanes};
  if (t.keys.kind != KeyRange::Kind::kBanded) return lanes;
  while (lanes.begin < lanes.end && head.seen_end(t.query + lanes.begin, part) == 0) ++lanes.begin;
  while (lanes.end > lanes.begin && head.seen_begin(t.query + lanes.end - 1, part) == part.size()) {
    --lanes.end;
  }
  return lanes;
}

// dV += Pᵀ·dy and dK += dSᵀ·Q, in a banded tile 16 keys at a time.
void add_key_gradients(const SparseHead& head, const SparseTile& t, const SparseQueries& x,
                       const KeySums& sums) {
  const bool banded = t.keys.kind == KeyRange::Kind::kBanded;
  const std::size_t step = banded ? kTileUnit : t.keys.size();
  for (std::size_t key = 0; key < t.keys.size(); key += step) {
    const std::size_t rows = std::min(step, t.keys.size() - key);
    const Rows lanes = lanes_of(head, t, {key, key + rows});
    if (lanes.count() == 0) continue;
    const std::size_t from = key * kPitch + lanes.begin;
    tile_gemm({x.p + from, kPitch}, {x.dy.data + lanes.begin * x.dy.stride, x.dy.stride}, rows,
              lanes.count(), tile_width(head.v.cols),
              {sums.dv + key * sums.dv_stride, sums.dv_stride, Start::kAdd});
    tile_gemm({x.ds + from, kPitch}, {x.q.data + lanes.begin * x.q.stride, x.q.stride}, rows,
              lanes.count(), tile_width(head.q.cols),
              {sums.dk + key * sums.dk_stride, sums.dk_stride, Start::kAdd});
  }
}

// dQᵀ += Kᵀ·dSᵀ.
void add_query_gradient(const SparseHead& head, const SparseTile& t, const TileKeys& keys,
                        const SparseQueries& x) {
  for_each_group(tile_width(t.lanes), [&](std::size_t column, auto vectors) HWY_ATTR {
    constexpr int kVectors = vectors();
    const Rows rows = group_rows<kVectors>(head, t, column);
    if (rows.count() == 0) return;
    tile_gemm_group<kVectors>({keys.k.data + rows.begin * keys.k.stride, keys.k.stride, true},
                              {x.ds + rows.begin * kPitch, kPitch}, head.q.cols, rows.count(),
                              {x.dqt, kPitch, Start::kAdd}, column);
  });
}

// d(T·qrᵀ)[bucket] += dS: lanes are apart, so that only the bucket can repeat.
HWY_INLINE void add_table_gradient(const Buckets& b, const float* ds, std::size_t lanes,
                                   float* drelative) {
  const DF d;
  if (lanes == kVectorLanes && b.equal()) {
    float* to = drelative + static_cast<std::size_t>(*b.at) * kPitch;
    hn::StoreU(hn::Add(hn::LoadU(d, to), hn::LoadU(d, ds)), d, to);
    return;
  }
  for (std::size_t i = 0; i < lanes; ++i) {
    drelative[static_cast<std::size_t>(b.at[i * b.stride]) * kPitch + i] += ds[i];
  }
}

HWY_INLINE void add_keys_gradient(const Buckets& b, const float* ds, std::size_t lanes,
                                  float* row) {
  const DF d;
  if (lanes == kVectorLanes && b.consecutive()) {
    float* to = row + *b.at;
    hn::StoreU(hn::Add(hn::LoadU(d, to), hn::LoadU(d, ds)), d, to);
  } else if (lanes == kVectorLanes && b.equal()) {
    row[*b.at] += hn::GetLane(hn::SumOfLanes(d, hn::LoadU(d, ds)));
  } else {
    for (std::size_t i = 0; i < lanes; ++i) row[b.at[i * b.stride]] += ds[i];
  }
}

void add_relative_gradient(const SparseHead& head, const SparseTile& t, const SparseQueries& x,
                           const SparseGradient& gradient) {
  for (std::size_t j = 0; j < t.keys.size(); ++j) {
    for (std::size_t lane = 0; lane < t.lanes; lane += kVectorLanes) {
      const Buckets b = buckets_at(head, t, j, lane);
      const float* ds = x.ds + j * kPitch + lane;
      const std::size_t lanes = std::min(kVectorLanes, t.lanes - lane);
      if (head.relative.table.rows > 0) add_table_gradient(b, ds, lanes, x.drelative + lane);
      if (head.relative.keys.rows > 0) {
        add_keys_gradient(b, ds, lanes, gradient.dkeys.row_data(t.keys.begin + j));
      }
      if (head.relative.bands(t.keys)) {
        add_keys_gradient(b, ds, lanes, band_row(head, t, j, x.dband));
      }
    }
  }
}

// dK += d(K·Tᵀ)·T and dT += d(K·Tᵀ)ᵀ·K, band by band.
void add_band_gradients(const SparseHead& head, const SparseTile& t, const float* dband,
                        const SparseGradient& gradient, float* key_copy) {
  const ConstMatrix& table = head.relative.table;
  const std::size_t d = table.cols;
  const Right k = right_rows(head.k, t.keys.begin, t.keys.size(), key_copy);
  for_each_band(
      head, {t.query, t.lanes, {}}, t.keys, [&](std::size_t key, std::size_t keys, const Band& b) {
        const float* from = dband + key * kBandPitch;
        tile_gemm({from, kBandPitch}, {table.row_data(b.first), table.stride}, keys, b.count,
                  tile_width(d),
                  {gradient.dk.row_data(t.keys.begin + key), gradient.dk.stride, Start::kAdd});
        tile_gemm({from, kBandPitch, true}, {k.data + key * k.stride, k.stride}, b.count, keys,
                  tile_width(d),
                  {gradient.dtable.row_data(b.first), gradient.dtable.stride, Start::kAdd});
      });
}

// Adds the rows of a gathered tile to those of their keys.
void scatter_rows(const float* from, std::size_t from_stride, const std::uint32_t* index,
                  std::size_t count, Matrix to) {
  for (std::size_t j = 0; j < count; ++j) {
    float* row = to.row_data(index[j]);
    for (std::size_t c = 0; c < to.cols; ++c) row[c] += from[j * from_stride + c];
  }
}

void backward_sparse_tile(const SparseHead& head, const SparseTile& t, const KeyRange& next,
                          const SparseQueries& x, const SparseGradient& gradient, float* memory,
                          const SparseBackwardLayout& at) {
  const TileKeys keys = tile_keys(head, t.keys, memory + at.keys, memory + at.values);
  prefetch_keys(gradient.dv, t.keys);
  prefetch_keys(gradient.dk, t.keys);
  if (head.relative.bands(t.keys)) {
    band_scores(head, t, keys.k, memory + at.band);
    std::fill_n(x.dband, t.keys.size() * kBandPitch, 0.0F);
  }
  sparse_tile_gradients(head, t, keys, x);
  prefetch_keys(head.k, next);
  if (t.keys.kind == KeyRange::Kind::kGathered) {
    const KeySums sums{memory + at.dk, tile_pitch(head.k.cols), memory + at.dv,
                       tile_pitch(head.v.cols)};
    std::fill_n(sums.dk, t.keys.size() * sums.dk_stride, 0.0F);
    std::fill_n(sums.dv, t.keys.size() * sums.dv_stride, 0.0F);
    add_key_gradients(head, t, x, sums);
    const std::uint32_t* index = head.gathered + t.keys.begin;
    scatter_rows(sums.dk, sums.dk_stride, index, t.keys.size(), gradient.all_dk);
    scatter_rows(sums.dv, sums.dv_stride, index, t.keys.size(), gradient.all_dv);
  } else {
    add_key_gradients(head, t, x,
                      {gradient.dk.row_data(t.keys.begin), gradient.dk.stride,
                       gradient.dv.row_data(t.keys.begin), gradient.dv.stride});
  }
  prefetch_keys(head.v, next);
  add_query_gradient(head, t, keys, x);
  if (head.relative.active(t.keys)) add_relative_gradient(head, t, x, gradient);
  if (head.relative.bands(t.keys)) {
    add_band_gradients(head, t, x.dband, gradient, memory + at.keys);
  }
}

SparseQueries pack_sparse_queries(const SparseHead& head, const QueryTile& tile,
                                  const SparseGradient& gradient, float* memory,
                                  const SparseBackwardLayout& at) {
  SparseQueries x;
  x.q = right_rows(head.q, tile.first, tile.lanes, memory + at.q);
  x.dy = right_rows(gradient.dy, tile.first, tile.lanes, memory + at.dy);
  pack_queries({x.q.data, tile.lanes, head.q.cols, x.q.stride}, head.scale * kLog2E,
               memory + at.qt);
  pack_queries({x.dy.data, tile.lanes, head.v.cols, x.dy.stride}, head.scale, memory + at.dyt);
  std::fill_n(memory + at.dqt, head.q.cols * kPitch, 0.0F);
  std::fill_n(memory + at.lse, kPitch, std::numeric_limits<float>::infinity());
  std::fill_n(memory + at.delta, kPitch, 0.0F);
  std::copy_n(gradient.lse, tile.lanes, memory + at.lse);
  for (std::size_t lane = 0; lane < tile.lanes; ++lane) {
    memory[at.delta + lane] = head.scale * gradient.delta[lane];
  }
  x.qt = memory + at.qt;
  x.dyt = memory + at.dyt;
  x.lse = memory + at.lse;
  x.delta = memory + at.delta;
  x.p = memory + at.p;
  x.ds = memory + at.ds;
  x.dqt = memory + at.dqt;
  x.relative = {memory + at.relative, memory + at.band};
  x.drelative = memory + at.drelative;
  x.dband = memory + at.dband;
  return x;
}

// dT += d(T·qrᵀ)·qr and dqr = Tᵀ·d(T·qrᵀ), which dq contains.
void finish_relative(const SparseHead& head, const QueryTile& tile, Rows rows,
                     const SparseGradient& gradient, float* memory,
                     const SparseBackwardLayout& at) {
  const RelativeTerms& r = head.relative;
  const std::size_t d = r.table.cols;
  float* dqrt = memory + at.dqrt;
  const float* drelative = memory + at.drelative + rows.begin * kPitch;
  tile_gemm({r.table.row_data(rows.begin), r.table.stride, true}, {drelative, kPitch}, d,
            rows.count(), tile_width(tile.lanes), {dqrt, kPitch});
  for (std::size_t c = 0; c < d; ++c) {
    for (std::size_t i = 0; i < tile.lanes; ++i) {
      memory[at.dqt + c * kPitch + i] += dqrt[c * kPitch + i];
    }
  }
  if (gradient.dqr.rows > 0) {
    transpose<false>(dqrt, kPitch, d, tile.lanes, 1.0F, gradient.dqr.row_data(tile.first),
                     gradient.dqr.stride);
  }
  const Right qr = right_rows(r.q, tile.first, tile.lanes, memory + at.qr);
  tile_gemm({drelative, kPitch}, qr, rows.count(), tile.lanes, tile_width(d),
            {gradient.dtable.row_data(rows.begin), gradient.dtable.stride, Start::kAdd});
}

}  // namespace

void SparseBackward(const SparseHead& head, const QueryTile& tile, const SparseGradient& gradient,
                    float* memory, TileCounts& counts) {
  const std::size_t d = head.q.cols;
  const SparseBackwardLayout at(d, head.v.cols, head.relative.table.rows, head.relative.bands());
  const SparseQueries x = pack_sparse_queries(head, tile, gradient, memory, at);
  const Rows rows = table_rows(head, tile);
  relative_scores(head, tile, rows, memory + at.qrt, memory + at.relative);
  std::fill_n(memory + at.drelative + rows.begin * kPitch, rows.count() * kPitch, 0.0F);
  for_each_tile(head, tile, [&](const SparseTile& t, const KeyRange& next) {
    backward_sparse_tile(head, t, next, x, gradient, memory, at);
  });
  if (rows.count() > 0) {
    finish_relative(head, tile, rows, gradient, memory, at);
  } else {
    // Every key that it sees is gathered.
    for (std::size_t i = 0; i < std::min(tile.lanes, gradient.dqr.rows); ++i) {
      std::ranges::fill(gradient.dqr.row(tile.first + i), 0.0F);
    }
  }
  transpose<false>(memory + at.dqt, kPitch, d, tile.lanes, 1.0F, gradient.dq.row_data(tile.first),
                   gradient.dq.stride);
  count_query_tile(head, tile, counts);
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {

HWY_EXPORT(SparseBackward);

std::size_t sparse_backward_scratch(std::size_t d, std::size_t e, std::size_t buckets, bool bands) {
  return SparseBackwardLayout(d, e, buckets, bands).total;
}

void sparse_backward(const SparseHead& head, const QueryTile& tile, const SparseGradient& gradient,
                     float* scratch, TileCounts& counts) {
  HWY_DYNAMIC_DISPATCH(SparseBackward)(head, tile, gradient, scratch, counts);
}

}  // namespace longspan
#endif  // HWY_ONCE
