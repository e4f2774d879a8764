#include "longspan/kernels/hash/cluster.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "longspan/base/random.h"
#include "longspan/kernels/hash/sort.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace cluster_test {

using testing::for_each_target;

std::uint64_t random_code(RandomKey key, std::size_t i) {
  return std::uint64_t{random_bits(key, 2 * i)} << 32U | random_bits(key, 2 * i + 1);
}

int distance(std::uint64_t a, std::uint64_t b) { return __builtin_popcountll(a ^ b); }

std::vector<std::uint64_t> random_codes(std::size_t n) {
  std::vector<std::uint64_t> codes(n);
  for (std::size_t i = 0; i < n; ++i) codes[i] = random_code(7, i);
  return codes;
}

struct Clusters {
  Clusters(const std::vector<std::uint64_t>& codes, std::size_t clusters, std::size_t iterations)
      : centres(clusters), assignment(codes.size()) {
    std::vector<std::int32_t> counts(majority_scratch(clusters));
    if (!codes.empty()) spaced_codes(codes, centres);
    for (std::size_t l = 0; l < iterations; ++l) {
      nearest_codes(codes, centres, assignment.data());
      majority_codes(codes, assignment.data(), centres, counts.data());
    }
  }
  std::vector<std::uint64_t> centres;
  std::vector<std::int32_t> assignment;
};

// Lloyd's iterations from the definition.
Clusters by_definition(const std::vector<std::uint64_t>& codes, std::size_t clusters,
                       std::size_t iterations) {
  Clusters r({}, clusters, 0);
  const std::size_t n = codes.size();
  r.assignment.resize(n);
  for (std::size_t c = 0; c < clusters; ++c) r.centres[c] = codes[c * n / clusters];
  for (std::size_t l = 0; l < iterations; ++l) {
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t best = 0;
      for (std::size_t c = 1; c < clusters; ++c) {
        if (distance(codes[i], r.centres[c]) < distance(codes[i], r.centres[best])) best = c;
      }
      r.assignment[i] = static_cast<std::int32_t>(best);
    }
    for (std::size_t c = 0; c < clusters; ++c) {
      std::uint64_t centre = 0;
      std::size_t size = 0;
      for (std::size_t bit = 0; bit < 64; ++bit) {
        std::size_t ones = 0;
        size = 0;
        for (std::size_t i = 0; i < n; ++i) {
          if (r.assignment[i] != static_cast<std::int32_t>(c)) continue;
          ++size;
          ones += codes[i] >> bit & 1U;
        }
        if (2 * ones > size) centre |= std::uint64_t{1} << bit;
      }
      if (size > 0) r.centres[c] = centre;
    }
  }
  return r;
}

TEST(Cluster, IsLloydInHammingSpace) {
  for_each_target([] {
    for (const std::size_t n : {7U, 64U, 133U}) {
      for (const std::size_t clusters : {1U, 2U, 6U}) {
        for (const std::size_t iterations : {1U, 3U, 10U}) {
          const auto codes = random_codes(n);
          const Clusters got(codes, clusters, iterations);
          const Clusters want = by_definition(codes, clusters, iterations);
          EXPECT_EQ(got.assignment, want.assignment) << n << " " << clusters << " " << iterations;
          EXPECT_EQ(got.centres, want.centres);
        }
      }
    }
  });
}

TEST(Cluster, FindsPlantedClusters) {
  constexpr std::size_t kPerCluster = 20;
  const auto centres = random_codes(4);
  std::vector<std::uint64_t> codes;
  for (std::size_t i = 0; i < 4 * kPerCluster; ++i) {
    const std::uint64_t noise = std::uint64_t{1} << random_below(3, i, 64);
    codes.push_back(centres[i / kPerCluster] ^ noise);
  }
  const Clusters got(codes, 4, 10);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    EXPECT_EQ(got.assignment[i], got.assignment[i / kPerCluster * kPerCluster]);
  }
  EXPECT_EQ(std::set<std::int32_t>(got.assignment.begin(), got.assignment.end()).size(), 4U);
  for (const std::uint64_t c : centres) {
    EXPECT_EQ(std::count(got.centres.begin(), got.centres.end(), c), 1);
  }
}

TEST(Cluster, EmptyClustersStay) {
  const std::vector<std::uint64_t> codes(6, 42);
  const Clusters got(codes, 3, 10);
  EXPECT_EQ(got.assignment, std::vector<std::int32_t>(6, 0));
  EXPECT_EQ(got.centres, std::vector<std::uint64_t>(3, 42));
}

TEST(Sort, IsStable) {
  for (const std::size_t n : {0U, 1U, 5U, 100U}) {
    constexpr std::size_t kGroups = 7;
    std::vector<std::int32_t> group(n);
    for (std::size_t i = 0; i < n; ++i) {
      group[i] = static_cast<std::int32_t>(random_below(9, i, kGroups - 1));  // the last is empty
    }
    std::vector<std::int32_t> first(kGroups + 1, -5);
    std::vector<std::int32_t> order(n);
    sort_by_group(group, first, order.data());
    EXPECT_EQ(first[0], 0);
    EXPECT_EQ(first[kGroups], static_cast<std::int32_t>(n));
    std::vector<std::int32_t> want;
    for (std::size_t g = 0; g < kGroups; ++g) {
      EXPECT_EQ(first[g], static_cast<std::int32_t>(want.size()));
      for (std::size_t i = 0; i < n; ++i) {
        if (group[i] == static_cast<std::int32_t>(g)) want.push_back(static_cast<std::int32_t>(i));
      }
    }
    EXPECT_EQ(order, want);
  }
}

}  // namespace cluster_test
}  // namespace longspan
