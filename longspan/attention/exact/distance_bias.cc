#include "longspan/attention/exact/distance_bias.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "longspan/kernels/tiled/tiled_attention.h"

namespace longspan {

namespace {

constexpr auto kLog2E = std::numbers::log2e_v<float>;

std::ptrdiff_t first_distance(std::size_t m) { return 1 - static_cast<std::ptrdiff_t>(m); }

// Calls use(i, bucket) for the first `count` distances. Far ones share a bucket, so that few
// logarithms are taken.
template <class Use>
void for_each_bucket(const Buckets& buckets, std::size_t m, std::size_t count, const Use& use) {
  const auto far = static_cast<std::ptrdiff_t>(buckets.span);
  const std::size_t before = bucket_of(buckets, far);
  const std::size_t after = bucket_of(buckets, -far);
  for (std::size_t i = 0; i < count; ++i) {
    const std::ptrdiff_t r = first_distance(m) + static_cast<std::ptrdiff_t>(i);
    use(i, r >= far ? before : r <= -far ? after : bucket_of(buckets, r));
  }
}

}  // namespace

std::size_t bucket_of(const Buckets& b, std::ptrdiff_t r) {
  const std::size_t each = b.two_sided ? b.count / 2 : b.count;
  const std::size_t first = b.two_sided && r < 0 ? each : 0;
  const auto distance =
      static_cast<std::size_t>(b.two_sided ? std::abs(r) : std::max<std::ptrdiff_t>(r, 0));
  const std::size_t exact = each / 2;
  if (distance < exact) return first + distance;
  // In single precision, as the models that have such tables were trained.
  const auto near = static_cast<float>(exact);
  const auto range =
      static_cast<float>(std::log(static_cast<double>(b.span) / static_cast<double>(exact)));
  const float part = std::log(static_cast<float>(distance) / near) / range;
  const auto more = static_cast<std::size_t>(part * static_cast<float>(each - exact));
  return first + std::min(exact + more, each - 1);
}

double alibi_slope(std::size_t head, std::size_t heads) {
  const std::size_t lower = std::bit_floor(heads);
  const auto own = static_cast<double>(head < lower ? head + 1 : 2 * (head - lower) + 1);
  const auto of = static_cast<double>(head < lower ? lower : 2 * lower);
  return std::exp2(-8.0 * own / of);
}

std::size_t distance_floats(std::size_t m, std::size_t n) { return m - 1 + n + kQueryBlock; }

void fill_alibi(double slope, std::size_t heads, std::size_t m, std::size_t n, std::span<float> d) {
  const std::size_t count = distance_floats(m, n);
  for (std::size_t h = 0; h < heads; ++h) {
    const auto steep = static_cast<float>(slope * alibi_slope(h, heads)) * kLog2E;
    float* to = d.data() + h * count;
    for (std::size_t i = 0; i < count; ++i) {
      to[i] =
          -steep * static_cast<float>(std::abs(first_distance(m) + static_cast<std::ptrdiff_t>(i)));
    }
  }
}

void fill_buckets(const Buckets& buckets, std::span<const float> table, std::size_t heads,
                  std::size_t m, std::size_t n, std::span<float> d) {
  const std::size_t count = distance_floats(m, n);
  for_each_bucket(buckets, m, count, [&](std::size_t i, std::size_t bucket) {
    const float* from = table.data() + bucket * heads;
    for (std::size_t h = 0; h < heads; ++h) d[h * count + i] = kLog2E * from[h];
  });
}

void gather_buckets(const Buckets& buckets, std::span<const float> d, std::size_t m, std::size_t n,
                    std::size_t head, std::size_t heads, std::span<float> to) {
  for_each_bucket(buckets, m, m - 1 + n,
                  [&](std::size_t i, std::size_t bucket) { to[bucket * heads + head] += d[i]; });
}

}  // namespace longspan
