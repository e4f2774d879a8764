// Rows of the last m of n tokens, as decoding asks for them.
#include <algorithm>

#include "longspan/attention/cluster/reformer.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/hash/sort.h"
#include "longspan/kernels/tiled/tile_layout.h"
#include "longspan/kernels/tiled/tiled_attention.h"

namespace longspan {

namespace {}  // namespace

// Planes are (sequence, head); a worker takes one at a time, with scratch of its own.
class ReformerAttention::Rows {
 public:
  Rows(const ReformerAttention& self, const AttentionShape& shape)
      : self_(self),
        s_(shape),
        hash_(self.code(self.max_length_)),
        layout_(self.layout(shape, 0)),
        most_(row_keys(layout_)) {}

  // What a worker has, in the order of the arena; Take is take<T>(count) of an Arena or a plan.
  struct Room {
    std::span<std::int32_t> buckets, order, codes;  // [rounds][n]
    std::span<std::int32_t> places;                 // [m][rounds]
    std::span<std::int32_t> starts, tokens;
    std::span<float> factor, bias, k, v, hash, tile;
  };
  template <class Take>
  void take(Room& room, Take&& take) const {
    for (auto* integers : {&room.buckets, &room.order, &room.codes}) {
      *integers = take.template operator()<std::int32_t>(rounds() * s_.n);
    }
    room.places = take.template operator()<std::int32_t>(rounds() * s_.m);
    room.starts = take.template operator()<std::int32_t>(hash_.buckets() + 1);
    room.tokens = take.template operator()<std::int32_t>(most_);
    room.factor = take.template operator()<float>(s_.n);
    room.bias = take.template operator()<float>(most_);
    room.k = take.template operator()<float>(most_ * tile_pitch(s_.d));
    room.v = take.template operator()<float>(most_ * tile_pitch(s_.e));
    room.hash = take.template operator()<float>(lsh_scratch(s_.d, hash_));
    room.tile = take.template operator()<float>(tiled_forward_scratch(s_.d, s_.e));
  }

  std::size_t bytes() const {
    std::size_t total = 0;
    Room room;
    take(room, [&total]<class T>(std::size_t count) {
      total += Arena::bytes_for<T>(count);
      return std::span<T>();
    });
    return Arena::bytes_for<Room>(workers()) + workers() * total;
  }

  void run(const AttentionInputs& in, Heads y, Arena& arena) const {
    const auto rooms = arena.take<Room>(workers());
    for (Room& room : rooms) {
      take(room, [&arena]<class T>(std::size_t count) { return arena.take<T>(count); });
    }
    parallel_for(s_.batch * s_.heads, [&](std::size_t plane, std::size_t worker) {
      const Room& room = rooms[worker];
      const std::size_t b = plane / s_.heads;
      const std::size_t h = plane % s_.heads;
      const ChunkedHead head = chunked(in, b, h, room);
      hash(head.k, h, room);
      if (s_.notes) exchange(notes_of(in.notes, plane), room);
      sort(head, room);
      for (std::size_t i = 0; i < s_.m; ++i) attend(head, i, y.head(b, h), room);
    });
  }

  Work work() const {
    const std::uint64_t planes = s_.batch * s_.heads;
    const std::uint64_t hashed = planes * (s_.notes ? s_.m : s_.n);
    const std::uint64_t rows = planes * s_.m;
    const std::uint64_t pairs = rows * counted_keys();
    const std::uint64_t projections = rounds() * hash_.projections();
    Work work;
    work.maccs = hashed * s_.d * (1 + projections) + pairs * (s_.d + s_.e);
    work[Kind::kMatmul] = 3 * hashed + pairs * s_.d;
    work[Kind::kHash] = hashed * projections;
    work[Kind::kSort] = 2 * planes * rounds() * s_.n;
    work[Kind::kSoftmax] =
        5 * pairs + rows * (2 * s_.e + 2) + (deduplicates() ? pairs * (rounds() + 1) : 0);
    work.bytes[static_cast<std::size_t>(Kind::kMatmul)] = 4 * rows * (s_.d + 2 * s_.e);
    work.bytes[static_cast<std::size_t>(Kind::kSort)] = 8 * planes * rounds() * s_.n;
    work.bytes[static_cast<std::size_t>(Kind::kGather)] = 4 * pairs * (s_.d + s_.e);
    return work;
  }

 private:
  std::size_t rounds() const { return layout_.rounds; }
  bool deduplicates() const { return self_.config_.deduplicate && rounds() > 1; }
  std::size_t noted() const { return s_.notes ? s_.n - s_.m : 0; }
  std::uint64_t counted_keys() const {
    const std::size_t reach = layout_.before * layout_.chunk;
    return self_.strict(s_) ? rounds() * std::min(s_.n, reach) : most_;
  }

  ChunkedHead chunked(const AttentionInputs& in, std::size_t b, std::size_t h,
                      const Room& room) const {
    ChunkedHead head;
    head.q = in.q.head(b, h);
    head.k = in.k.head(b, h);
    head.v = in.v.head(b, h);
    head.factor = room.factor.data();
    head.order = room.order.data();
    head.bucket = self_.config_.same_bucket ? room.buckets.data() : nullptr;
    head.code = deduplicates() ? room.codes.data() : nullptr;
    head.layout = layout_;
    head.real = s_.n;
    head.causal = s_.causal;
    if (self_.strict(s_)) head.reach = layout_.before * layout_.chunk;
    return head;
  }

  // Buckets and f of the tokens that there are no notes on.
  void hash(ConstMatrix k, std::size_t h, const Room& room) const {
    lsh_buckets(k.slice_rows(noted(), s_.n - noted()), hash_,
                self_.rotations_->matrix().slice_rows(h * s_.d, s_.d),
                room.buckets.data() + noted(), s_.n, room.hash.data());
    for (std::size_t i = noted(); i < s_.n; ++i) room.factor[i] = self_.factor(k.row(i)).f;
  }

  // Notes on a plane: [rounds + 1][capacity], the buckets, which floats hold exactly, and f.
  Matrix notes_of(std::span<float> notes, std::size_t plane) const {
    const std::size_t size = notes.size() / (s_.batch * s_.heads);
    return {notes.data() + plane * size, rounds() + 1, size / (rounds() + 1)};
  }
  void exchange(Matrix notes, const Room& room) const {
    const auto swap = [&](float* row, auto mine) {
      std::copy_n(row, noted(), mine.begin());
      std::copy(mine.begin() + static_cast<std::ptrdiff_t>(noted()), mine.end(), row + noted());
    };
    for (std::size_t r = 0; r < rounds(); ++r) {
      swap(notes.row_data(r), room.buckets.subspan(r * s_.n, s_.n));
    }
    swap(notes.row_data(rounds()), room.factor);
  }

  void sort(const ChunkedHead& head, const Room& room) const {
    const std::size_t first = s_.n - s_.m;
    for (std::size_t r = 0; r < rounds(); ++r) {
      const std::span<std::int32_t> order = room.order.subspan(r * s_.n, s_.n);
      sort_by_group(room.buckets.subspan(r * s_.n, s_.n), room.starts, order.data());
      for (std::size_t place = 0; place < s_.n; ++place) {
        const auto token = static_cast<std::size_t>(order[place]);
        if (token < first) continue;
        room.places[(token - first) * rounds() + r] = static_cast<std::int32_t>(place);
      }
      if (deduplicates()) meeting_codes(head, r, room.codes.data());
    }
  }

  // y_i = Σ_j softmax_j(f_j·q_i·k_j − ln c_ij)·v_j over the row's keys; v_i if it has none.
  void attend(const ChunkedHead& head, std::size_t i, Matrix y, const Room& room) const {
    const std::size_t token = s_.n - s_.m + i;
    ChunkRow row{room.tokens.data(), room.bias.data(), 0};
    find_row(head, token, room.places.data() + i * rounds(), row);
    if (row.count == 0) {
      std::ranges::copy(head.v.row(token), y.row(i).begin());
      return;
    }
    const Matrix k(room.k.data(), row.count, s_.d, tile_pitch(s_.d));
    const Matrix v(room.v.data(), row.count, s_.e, tile_pitch(s_.e));
    for (std::size_t j = 0; j < row.count; ++j) {
      const auto key = static_cast<std::size_t>(row.tokens[j]);
      const float f = head.factor[key];
      std::ranges::transform(head.k.row(key), k.row(j).begin(), [f](float x) { return f * x; });
      std::ranges::copy(head.v.row(key), v.row(j).begin());
    }
    TiledHead tiled;
    tiled.q = head.q.slice_rows(i, 1);
    tiled.k = k;
    tiled.v = v;
    tiled.keys = row.count;
    tiled.bias = row.bias;
    TileCounts counts;  // what is seen depends on the data; work() counts what could be
    tiled_forward_few(tiled, 0, y.slice_rows(i, 1), nullptr, room.tile.data(), counts);
  }

  const ReformerAttention& self_;
  AttentionShape s_;
  LshCode hash_;
  ChunkLayout layout_;
  std::size_t most_;  // keys of a row
};

std::size_t ReformerAttention::note_floats(const AttentionShape& s) const {
  return s.batch * s.heads * (config_.rounds + 1) * s.n;
}

AttentionCost ReformerAttention::rows_cost(const AttentionShape& s) const {
  const Rows rows(*this, s);
  AttentionCost cost;
  cost.forward = rows.work();
  cost.forward_scratch = rows.bytes();
  return cost;
}

void ReformerAttention::run_rows(const AttentionInputs& in, Heads y, Arena& arena) const {
  const Rows rows(*this, shape_of(in));
  rows.run(in, y, arena);
  report(rows.work());
}

}  // namespace longspan
