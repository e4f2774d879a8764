#include "longspan/layers/short_convolution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "longspan/kernels/rows/draw_normal.h"
#include "longspan/testing/allocations.h"
#include "longspan/testing/check_branch.h"
#include "longspan/testing/check_layer.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace short_convolution_test {

using testing::Complex;
using testing::Tensor;
using testing::Weights;

constexpr std::size_t kChannels = 7;

struct Built {
  explicit Built(std::size_t width, bool bias = true)
      : layer(parameters, "c", {.width = width}, {.d_model = kChannels, .bias = bias}) {
    parameters.allocate();
    parameters.initialize(3, draw_normal);
    testing::randomize(parameters, 4);
  }
  Parameters parameters;
  ShortConvolution layer;
};

Tensor<Complex> reference(const Pass& pass, const Weights& w, bool bias) {
  const Tensor<Complex> x = w.get<Complex>("x");
  const Tensor<Complex> taps = w.get<Complex>("c.weight");
  Tensor<Complex> y(x.rows, x.cols);
  for (std::size_t row = 0; row < x.rows; ++row) {
    const std::size_t t = row % pass.length;
    const std::size_t b = row / pass.length;
    if (!pass.lengths.empty() && t >= static_cast<std::size_t>(pass.lengths[b])) continue;
    for (std::size_t c = 0; c < x.cols; ++c) {
      if (bias) y(row, c) = w.get<Complex>("c.bias")(0, c);
      for (std::size_t ago = 0; ago < taps.rows && ago <= t; ++ago) {
        y(row, c) += taps(taps.rows - 1 - ago, c) * x(row - ago, c);
      }
    }
  }
  return y;
}

TEST(ShortConvolution, KeepsItsPromises) {
  const std::vector<std::int32_t> lengths = {5, 2};
  for (const std::size_t width : {1U, 3U, 8U}) {
    for (const bool bias : {false, true}) {
      Built built(width, bias);
      testing::BranchCase check;
      check.branch = &built.layer;
      check.parameters = &built.parameters;
      check.pass.batch = 2;
      check.pass.length = 5;
      check.d_model = kChannels;
      check.reference = [&](const Weights& w) { return reference(check.pass, w, bias); };
      testing::expect_branch(check);
      check.pass.lengths = lengths;
      testing::expect_branch(check);
    }
  }
}

// In pieces of any size, what the whole sequence gives, to the bit.
TEST(ShortConvolution, DecodesTokenByToken) {
  constexpr std::size_t kBatch = 2;
  constexpr std::size_t kLength = 9;
  const Built built(4);
  std::vector<float> x = testing::random_values(kBatch * kLength * kChannels, 5);
  std::vector<float> whole(x.size());
  Pass pass;
  pass.batch = kBatch;
  pass.length = kLength;
  Arena arena(1U << 16U);
  const auto rows = [](std::vector<float>& v) {
    return Matrix(v.data(), v.size() / kChannels, kChannels);
  };
  built.layer.forward({pass, rows(x), rows(whole), nullptr, {}, arena});
  for (const std::size_t piece : {1U, 2U, 5U, 9U}) {
    DecodeCache cache{.batch = kBatch, .capacity = kLength};
    built.layer.size_cache(0, cache);
    EXPECT_EQ(cache.floats, kBatch * 3 * kChannels);
    std::vector<float> memory(cache.floats, 1.0F);
    cache.data = memory.data();
    cache.clear();
    Beside beside;
    beside.cache = &cache;
    for (std::size_t at = 0; at < kLength; at += pass.length) {
      pass.length = std::min(piece, kLength - at);
      std::vector<float> part;
      for (std::size_t b = 0; b < kBatch; ++b) {
        const auto first = x.begin() + static_cast<std::ptrdiff_t>((b * kLength + at) * kChannels);
        part.insert(part.end(), first,
                    first + static_cast<std::ptrdiff_t>(pass.length * kChannels));
      }
      std::vector<float> y(part.size());
      built.layer.forward({pass, rows(part), rows(y), nullptr, beside, arena});
      cache.used += pass.length;
      for (std::size_t b = 0; b < kBatch; ++b) {
        for (std::size_t i = 0; i < pass.length * kChannels; ++i) {
          ASSERT_EQ(y[b * pass.length * kChannels + i], whole[(b * kLength + at) * kChannels + i])
              << piece << " " << at;
        }
      }
    }
    EXPECT_EQ(testing::message_of([&] {
                built.layer.forward({pass, rows(x), rows(whole), nullptr, beside, arena});
              }),
              fmt::format("[decode] {} tokens do not fit behind 9 in a cache of 9", pass.length));
  }
}

TEST(ShortConvolution, AllocatesNothing) {
  const Built built(4);
  std::vector<float> x(40 * kChannels, 1.0F);
  std::vector<float> y(x.size());
  Pass pass;
  pass.batch = 2;
  pass.length = 20;
  Arena arena(1U << 16U);
  const Matrix from(x.data(), 40, kChannels);
  const Matrix to(y.data(), 40, kChannels);
  const std::size_t before = testing::allocations();
  built.layer.forward({pass, from, to, nullptr, {}, arena});
  built.layer.backward({pass, {}, from, to, {}, arena});
  built.layer.accumulate({pass, from, {}, to, {}, {}});
  EXPECT_EQ(testing::allocations(), before);
}

TEST(ShortConvolution, RefusesWithASentence) {
  Parameters parameters;
  EXPECT_EQ(testing::message_of([&] {
              const ShortConvolution wide(parameters, "c", {.width = 17}, {.d_model = 4});
            }),
            "[conv] width is 17; need a whole number from 1 to 16");
  const Built built(4);
  Pass pass;
  pass.history_length = 3;
  EXPECT_EQ(testing::message_of([&] { built.layer.check(pass); }),
            "[conv] cannot read earlier segments; need attention with a history");
}

}  // namespace short_convolution_test
}  // namespace longspan
