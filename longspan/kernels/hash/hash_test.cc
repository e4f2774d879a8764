#include "longspan/kernels/hash/hash.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "longspan/base/random.h"
#include "longspan/testing/for_each_target.h"
#include "longspan/testing/guarded_matrix.h"

namespace longspan {
namespace hash_test {

using testing::for_each_target;
using testing::GuardedMatrix;

// argmax([x·R; −x·R]) over the columns [first, first + half) of the rotations.
std::size_t argmax_of(const GuardedMatrix& x, std::size_t i, const GuardedMatrix& rotations,
                      std::size_t first, std::size_t half) {
  double best = -1e300;
  std::size_t at = 0;
  for (std::size_t c = 0; c < 2 * half; ++c) {
    double y = 0.0;
    for (std::size_t k = 0; k < x.view().cols; ++k) {
      y += double{x.at(i, k)} * rotations.at(k, first + c % half);
    }
    if (c >= half) y = -y;
    if (y > best) {
      best = y;
      at = c;
    }
  }
  return at;
}

TEST(Hash, BucketIsTheLargestProjection) {
  for_each_target([] {
    for (const std::size_t d : {1U, 3U, 17U, 64U}) {
      for (const std::size_t n : {1U, 15U, 64U, 131U}) {
        LshCode code;
        code.rounds = 3;
        code.factors = {6, 4, 0, 0};
        ASSERT_EQ(code.buckets(), 24U);
        ASSERT_EQ(code.projections(), 5U);
        const GuardedMatrix x = GuardedMatrix::random(n, d, 1);
        const GuardedMatrix rotations = GuardedMatrix::random(d, 15, 2);
        std::vector<float> scratch(lsh_scratch(d, code));
        std::vector<std::int32_t> buckets(3 * n, -1);
        lsh_buckets(x.view(), code, rotations.view(), buckets.data(), n, scratch.data());
        for (std::size_t r = 0; r < 3; ++r) {
          for (std::size_t i = 0; i < n; ++i) {
            const std::size_t want =
                argmax_of(x, i, rotations, 5 * r, 3) + 6 * argmax_of(x, i, rotations, 5 * r + 3, 2);
            ASSERT_EQ(buckets[r * n + i], static_cast<std::int32_t>(want)) << n << " " << d;
          }
        }
      }
    }
  });
}

TEST(Hash, ZeroHasABucket) {
  LshCode code;
  code.factors = {4, 0, 0, 0};
  std::vector<float> x(8, 0.0F);
  const std::vector<float> rotations(8 * 2, 1.0F);
  std::vector<float> scratch(lsh_scratch(8, code));
  std::int32_t bucket = -1;
  lsh_buckets(ConstMatrix(x.data(), 1, 8), code, ConstMatrix(rotations.data(), 8, 2), &bucket, 1,
              scratch.data());
  EXPECT_EQ(bucket, 0);
}

TEST(Hash, BitsAreSigns) {
  for_each_target([] {
    for (const std::size_t d : {1U, 5U, 64U}) {
      for (const std::size_t bits : {1U, 31U, 63U, 64U}) {
        const std::size_t n = 67;
        const GuardedMatrix x = GuardedMatrix::random(n, d, 3);
        const GuardedMatrix planes = GuardedMatrix::random(bits, d + 1, 4);
        std::vector<float> scratch(sign_scratch(d, bits));
        std::vector<std::uint64_t> codes(n);
        sign_bits(x.view(), planes.view(), codes.data(), scratch.data());
        for (std::size_t i = 0; i < n; ++i) {
          for (std::size_t k = 0; k < 64; ++k) {
            double y = 0.0;
            if (k < bits) {
              y = -planes.at(k, d);
              for (std::size_t c = 0; c < d; ++c) y += double{planes.at(k, c)} * x.at(i, c);
            }
            ASSERT_EQ(codes[i] >> k & 1U, y > 0.0 ? 1U : 0U) << i << " bit " << k;
          }
        }
      }
    }
  });
}

// Two directions at angle θ differ in a bit with probability θ/π: 4000 planes give it to ±3σ.
TEST(Hash, BitsMeasureTheAngle) {
  constexpr std::size_t kBlocks = 125;
  constexpr std::size_t kBits = 32;
  const RandomKey key = derive(5, "planes");
  for (const double angle : {0.1, 0.5, 1.0, 2.0, 3.0}) {
    const std::vector<float> x = {1.0F, 0.0F, static_cast<float>(std::cos(angle)),
                                  static_cast<float>(std::sin(angle))};
    std::vector<float> scratch(sign_scratch(2, kBits));
    std::size_t differ = 0;
    for (std::size_t block = 0; block < kBlocks; ++block) {
      std::vector<float> planes(kBits * 3);
      for (std::size_t i = 0; i < planes.size(); ++i) {
        planes[i] = i % 3 == 2 ? 0.0F : random_normal(key, block * planes.size() + i);
      }
      std::uint64_t codes[2];
      sign_bits(ConstMatrix(x.data(), 2, 2), ConstMatrix(planes.data(), kBits, 3), codes,
                scratch.data());
      differ += static_cast<std::size_t>(__builtin_popcountll(codes[0] ^ codes[1]));
    }
    const double total = kBlocks * kBits;
    const double want = angle / std::numbers::pi;
    EXPECT_NEAR(static_cast<double>(differ) / total, want,
                3 * std::sqrt(want * (1 - want) / total));
  }
}

// With b = 2 buckets per round a round is one sign, so rounds collide with probability 1 − θ/π;
// with more buckets less often, and the nearer the more.
TEST(Hash, BucketsCollideByAngle) {
  LshCode code;
  code.rounds = 4000;
  const RandomKey key = derive(6, "rotations");
  double previous[2] = {2.0, 2.0};
  for (const double angle : {0.2, 0.8, 1.5, 2.5}) {
    const std::vector<float> x = {1.0F, 0.0F, static_cast<float>(std::cos(angle)),
                                  static_cast<float>(std::sin(angle))};
    double rate[2] = {0.0, 0.0};
    for (const std::size_t which : {0U, 1U}) {
      code.factors = {which == 0 ? 2U : 8U, 0, 0, 0};
      std::vector<float> rotations(2 * code.rounds * code.projections());
      for (std::size_t i = 0; i < rotations.size(); ++i) rotations[i] = random_normal(key, i);
      std::vector<float> scratch(lsh_scratch(2, code));
      std::vector<std::int32_t> buckets(2 * code.rounds);
      lsh_buckets(ConstMatrix(x.data(), 2, 2), code,
                  ConstMatrix(rotations.data(), 2, code.rounds * code.projections()),
                  buckets.data(), 2, scratch.data());
      for (std::size_t r = 0; r < code.rounds; ++r) {
        rate[which] += buckets[2 * r] == buckets[2 * r + 1] ? 1.0 : 0.0;
      }
      rate[which] /= static_cast<double>(code.rounds);
      EXPECT_LT(rate[which], previous[which]);
      previous[which] = rate[which];
    }
    const double want = 1 - angle / std::numbers::pi;
    EXPECT_NEAR(rate[0], want, 3 * std::sqrt(want * (1 - want) / static_cast<double>(code.rounds)));
    EXPECT_LT(rate[1], rate[0]);
  }
}

}  // namespace hash_test
}  // namespace longspan
