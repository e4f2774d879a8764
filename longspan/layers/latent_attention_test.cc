#include "longspan/layers/latent_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "longspan/base/meter.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/rows/draw_normal.h"
#include "longspan/layers/branches.h"
#include "longspan/testing/allocations.h"
#include "longspan/testing/check_branch.h"
#include "longspan/testing/check_layer.h"
#include "longspan/testing/dry_branch.h"
#include "longspan/testing/latent_reference.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace latent_attention_test {

using testing::Complex;
using testing::LatentReference;
using testing::Weights;

constexpr std::size_t kModel = 9;
constexpr double kBase = 30.0;

// What a test varies.
struct Setting {
  LatentAttentionConfig config;
  std::size_t heads = 3;
  bool causal = true;
  bool bias = true;
  bool rotated = true;
  bool interleaved = true;
  float dropout = 0.0F;
};

LatentAttentionConfig small(LatentForm form = LatentForm::kAuto) {
  return {.rank = 7, .query_rank = 5, .nope = 3, .rope = 4, .value = 2, .form = form};
}

struct Built {
  explicit Built(const Setting& s) : setting(s) {
    MultiHeadAttentionConfig c{.d_model = kModel,
                               .heads = s.heads,
                               .causal = s.causal,
                               .bias = s.bias,
                               .output_bias = s.bias,
                               .dropout = s.dropout};
    std::shared_ptr<RotaryTable> table;
    if (s.rotated) {
      table = std::make_shared<RotaryTable>(
          RotaryConfig{.base = kBase, .interleaved = s.interleaved}, 2000, 6);
    }
    c.rotary = table;
    layer.emplace(parameters, "a", s.config, c);
    parameters.allocate();
    parameters.initialize(3, draw_normal);
    testing::randomize(parameters, 4);
    if (table != nullptr) table->allocate();
  }

  Setting setting;
  Parameters parameters;
  std::optional<LatentAttention> layer;
};

LatentReference reference_of(const Setting& s, const Pass& pass) {
  LatentReference l{.config = s.config,
                    .name = "a",
                    .heads = s.heads,
                    .causal = s.causal,
                    .base = s.rotated ? kBase : 0.0,
                    .interleaved = s.interleaved};
  if (pass.training) l.dropout = {s.dropout, derive(pass.key, "attention")};
  for (std::size_t b = 0; b < pass.batch; ++b) {
    const auto real =
        pass.lengths.empty() ? pass.length : static_cast<std::size_t>(pass.lengths[b]);
    l.rows.push_back(pass.packed ? real : pass.length);
    l.real.push_back(real);
  }
  return l;
}

void expect_promises(const Setting& s, const Pass& pass) {
  const Built built(s);
  testing::BranchCase check;
  check.branch = &*built.layer;
  check.parameters = const_cast<Parameters*>(&built.parameters);  // NOLINT
  check.pass = pass;
  check.d_model = kModel;
  const LatentReference reference = reference_of(s, pass);
  check.reference = [&](const Weights& w) {
    return latent_attention(reference, w, w.get<Complex>("x"));
  };
  testing::expect_branch(check);
}

Pass pass_of(std::size_t batch, std::size_t length, std::span<const std::int32_t> lengths = {}) {
  Pass pass;
  pass.batch = batch;
  pass.length = length;
  pass.lengths = lengths;
  return pass;
}

TEST(LatentAttention, KeepsItsPromises) {
  const std::vector<std::int32_t> lengths = {5, 2};
  for (const std::size_t query_rank : {0U, 5U}) {
    for (const bool causal : {false, true}) {
      for (const bool rotated : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {} {}", query_rank, causal, rotated));
        Setting s{.config = small(), .causal = causal, .bias = causal, .rotated = rotated};
        s.config.query_rank = query_rank;
        s.interleaved = query_rank > 0;
        expect_promises(s, pass_of(2, 5));
        expect_promises(s, pass_of(2, 5, lengths));
      }
    }
  }
}

// Of one token alone queries have no gradient but rounding; packed ones are below.
TEST(LatentAttention, KeepsThemInAnyShape) {
  for (const std::size_t length : {2U, 7U, 67U}) {
    for (const std::size_t heads : {1U, 2U}) {
      Setting s{.config = {.rank = 6, .nope = 5, .rope = 0, .value = 8}, .heads = heads};
      s.config.scale = 0.7;
      expect_promises(s, pass_of(1, length));
    }
  }
}

TEST(LatentAttention, DropsWeights) {
  Setting s{.config = small(), .dropout = 0.3F};
  Pass pass = pass_of(2, 6);
  pass.training = true;
  pass.key = 77;
  const Built built(s);
  const testing::DryBranch walked = testing::walk_branch(*built.layer, pass, kModel);
  EXPECT_EQ(walked.cost.forward.other[static_cast<std::size_t>(Kind::kDropout)], 3U * 2 * 21);
  expect_promises(s, pass);
}

TEST(LatentAttention, ReadsPackedSequences) {
  const std::vector<std::int32_t> lengths = {3, 3, 1, 6, 2};
  for (const bool causal : {false, true}) {
    Pass pass = pass_of(5, 6, lengths);
    pass.packed = true;
    expect_promises({.config = small(), .causal = causal}, pass);
  }
}

// y of x, in pieces, and the work of each piece.
struct Decoded {
  std::vector<float> y;
  std::vector<Work> work;
  std::vector<float> cache;
};

Decoded decode(const Built& built, std::span<const float> x, std::size_t batch, std::size_t length,
               std::size_t piece) {
  Decoded decoded;
  decoded.y.resize(x.size());
  DecodeCache cache{.batch = batch, .capacity = length};
  built.layer->size_cache(0, cache);
  decoded.cache.assign(cache.floats, 1.0F);
  cache.data = decoded.cache.data();
  cache.clear();
  Beside beside;
  beside.cache = &cache;
  for (std::size_t at = 0; at < length;) {
    const std::size_t count = std::min(piece, length - at);
    std::vector<float> part;
    for (std::size_t b = 0; b < batch; ++b) {
      const auto first = x.begin() + static_cast<std::ptrdiff_t>((b * length + at) * kModel);
      part.insert(part.end(), first, first + static_cast<std::ptrdiff_t>(count * kModel));
    }
    std::vector<float> y(part.size());
    const Pass pass = pass_of(batch, count);
    const Matrix from(part.data(), batch * count, kModel);
    const Matrix to(y.data(), batch * count, kModel);
    const CostTable cost = testing::expect_dry_is_wet([&](Arena& arena) {
      const Place::Scope scope("mha", Phase::kForward);
      built.layer->forward({pass, from, to, nullptr, beside, arena});
    });
    decoded.work.push_back(cost.find("mha")->second.forward);
    for (std::size_t b = 0; b < batch; ++b) {
      std::copy_n(y.begin() + static_cast<std::ptrdiff_t>(b * count * kModel), count * kModel,
                  decoded.y.begin() + static_cast<std::ptrdiff_t>((b * length + at) * kModel));
    }
    at += count;
    cache.used = at;
  }
  return decoded;
}

// In pieces of any size and in either form, what the whole sequence gives.
TEST(LatentAttention, DecodesAsTheWholeInEitherForm) {
  for (const std::size_t heads : {3U, 32U}) {
    for (const LatentForm form :
         {LatentForm::kAuto, LatentForm::kExpanded, LatentForm::kAbsorbed}) {
      for (const bool rotated : {false, true}) {
        const Built built({.config = small(form), .heads = heads, .rotated = rotated});
        constexpr std::size_t kBatch = 2;
        constexpr std::size_t kLength = 37;
        std::vector<float> x = testing::random_values(kBatch * kLength * kModel, 5);
        std::vector<float> whole(x.size());
        Arena arena(1U << 22U);
        built.layer->forward({pass_of(kBatch, kLength),
                              Matrix(x.data(), kBatch * kLength, kModel),
                              Matrix(whole.data(), kBatch * kLength, kModel),
                              nullptr,
                              {},
                              arena});
        const std::vector<double> want(whole.begin(), whole.end());
        for (const std::size_t piece : {1U, 2U, 5U, 9U, 20U, 37U}) {
          const Decoded got = decode(built, x, kBatch, kLength, piece);
          testing::expect_close(
              got.y, want, 3e-6,
              fmt::format("{} heads, form {}, pieces of {}", heads, name_of(form), piece));
        }
      }
    }
  }
}

TEST(LatentAttention, RemembersALatentAndAKeyForEachToken) {
  const Built built({.config = small()});
  DecodeCache cache{.batch = 3, .capacity = 50};
  built.layer->size_cache(0, cache);
  EXPECT_EQ(cache.floats, 3U * 50 * (7 + 4));
  EXPECT_EQ(cache.parts[0].token, 7U + 4);
}

// Each piece takes the form with fewer MACCs, which are those of the head comment and of the
// projections.
TEST(LatentAttention, TakesTheCheaperForm) {
  constexpr std::size_t kLength = 60;
  const Built built({.config = small()});
  const LatentAttention& layer = *built.layer;
  const std::vector<float> x = testing::random_values(kLength * kModel, 5);
  bool expanded = false;
  bool absorbed = false;
  for (const std::size_t piece : {1U, 2U, 3U, 4U, 6U, 20U}) {
    const Decoded got = decode(built, x, 1, kLength, piece);
    for (std::size_t i = 0; i < got.work.size(); ++i) {
      const std::size_t n = std::min(kLength, (i + 1) * piece);
      const std::size_t m = n - i * piece;
      const std::uint64_t own = m * (kModel * 5 + 5 * 21 + kModel * 11 + 6 * kModel);
      const std::uint64_t less = std::min(layer.expanded_maccs(m, n), layer.absorbed_maccs(m, n));
      EXPECT_EQ(got.work[i].maccs, own + less) << m << " of " << n;
      (layer.expanded_maccs(m, n) <= layer.absorbed_maccs(m, n) ? expanded : absorbed) = true;
    }
  }
  EXPECT_TRUE(expanded && absorbed);
}

TEST(LatentAttention, ExpandsUpToWhereThatCostsNoMore) {
  const LatentAttentionConfig configs[] = {
      small(),
      {.rank = 512, .nope = 128, .rope = 64, .value = 128},
      {.rank = 3, .nope = 4, .rope = 2, .value = 2},
      {.rank = 2, .nope = 4, .rope = 2, .value = 2},
      {.rank = 9, .nope = 1, .rope = 0, .value = 30},
  };
  for (const LatentAttentionConfig& config : configs) {
    const Built built({.config = config});
    const LatentAttention& layer = *built.layer;
    for (std::size_t m = 1; m < 300; m = m * 3 / 2 + 1) {
      const std::size_t most = layer.most_expanded(m);
      for (std::size_t n = m; n < 1500; n += 1 + n / 50) {
        ASSERT_EQ(n <= most, layer.expanded_maccs(m, n) <= layer.absorbed_maccs(m, n))
            << m << " of " << n << ", rank " << config.rank;
      }
    }
  }
}

// What `count` tokens of two sequences take, position by position, never becomes less.
void expect_growing_memory(const Built& built, std::size_t count, std::size_t length) {
  const Dry dry;
  DecodeCache cache{.batch = 2, .capacity = length};
  built.layer->size_cache(0, cache);
  cache.data = Dry::memory<float>(cache.floats).data();
  Beside beside;
  beside.cache = &cache;
  const Matrix x(Dry::memory<float>(2 * count * kModel).data(), 2 * count, kModel);
  std::size_t before = 0;
  for (; cache.used + count <= length; cache.used += count) {
    Arena arena = Arena::dry();
    built.layer->forward({pass_of(2, count), x, x, nullptr, beside, arena});
    ASSERT_GE(arena.peak(), before) << count << " behind " << cache.used;
    before = arena.peak();
  }
}

// A booking for the first and the last position holds for those between them.
TEST(LatentAttention, LaterPositionsTakeWhatEarlierOnesTook) {
  const Built narrow({.config = small(), .rotated = false});
  for (const std::size_t count : {1U, 3U, 4U, 5U, 50U}) expect_growing_memory(narrow, count, 400);
  // 170 tokens are expanded behind at most 21,802 others.
  const Built wide({.config = {}, .rotated = false});
  EXPECT_EQ(wide.layer->most_expanded(170), 21972U);
  EXPECT_GT(wide.layer->most_expanded(171), 1'000'000'000U);
  for (const std::size_t count : {1U, 170U, 171U}) expect_growing_memory(wide, count, 30'000);
}

// Channels that are rotated as neighbours or as halves are the same but for their order.
TEST(LatentAttention, RotatesNeighboursAsItDoesHalves) {
  const Setting s{.config = small()};
  Setting halves = s;
  halves.interleaved = false;
  const Built a(s);
  Built b(halves);
  // Row i of the first half is row 2i of the neighbours, of the second 2i + 1.
  const auto reorder = [&](const char* name, std::size_t first, std::size_t stride) {
    const Parameter& from = *const_cast<Parameters&>(a.parameters).find(name);  // NOLINT
    const Parameter& to = *b.parameters.find(name);
    const std::size_t cols = from.is_vector ? 1 : from.cols;
    for (std::size_t at = first; at < from.size() / cols; at += stride) {
      for (std::size_t i = 0; i < 4; ++i) {
        const std::size_t source = at + 2 * (i % 2) + i / 2;
        std::copy_n(&from.value[source * cols], cols, &to.value[(at + i) * cols]);
      }
    }
  };
  reorder("a.query_up.weight", 3, 7);
  reorder("a.key_down.weight", 7, 11);
  reorder("a.key_down.bias", 7, 11);
  std::vector<float> x = testing::random_values(10 * kModel, 5);
  std::vector<float> ya(x.size());
  std::vector<float> yb(x.size());
  Arena arena(1U << 20U);
  const auto rows = [](std::vector<float>& v) { return Matrix(v.data(), 10, kModel); };
  a.layer->forward({pass_of(1, 10), rows(x), rows(ya), nullptr, {}, arena});
  b.layer->forward({pass_of(1, 10), rows(x), rows(yb), nullptr, {}, arena});
  testing::expect_close(yb, std::vector<double>(ya.begin(), ya.end()), 2e-6, "y");
}

// Any number of threads gives the same bits.
TEST(LatentAttention, ThreadsDoNotMatter) {
  const Built built({.config = small(), .heads = 32});
  constexpr std::size_t kLength = 70;
  std::vector<float> x = testing::random_values(kLength * kModel, 5);
  const int usual = thread_count();
  std::vector<std::vector<float>> whole;
  std::vector<std::vector<float>> pieces;
  for (const int threads : {1, 2, 3}) {
    set_thread_count(threads);
    Arena arena(1U << 24U);
    std::vector<float> y(x.size());
    std::vector<float> dx(x.size());
    const Pass pass = pass_of(1, kLength);
    const auto rows = [](std::vector<float>& v) { return Matrix(v.data(), kLength, kModel); };
    const Kept saved = built.layer->save(pass, arena);
    built.layer->forward({pass, rows(x), rows(y), &saved, {}, arena});
    built.layer->backward({pass, saved, rows(y), rows(dx), {}, arena});
    y.insert(y.end(), dx.begin(), dx.end());
    whole.push_back(y);
    pieces.push_back(decode(built, x, 1, kLength, 1).y);
  }
  set_thread_count(usual);
  EXPECT_EQ(whole[0], whole[1]);
  EXPECT_EQ(whole[0], whole[2]);
  EXPECT_EQ(pieces[0], pieces[1]);
  EXPECT_EQ(pieces[0], pieces[2]);
}

TEST(LatentAttention, AllocatesNothing) {
  const Built built({.config = small()});
  std::vector<float> x(40 * kModel, 1.0F);
  std::vector<float> y(x.size());
  const Pass pass = pass_of(2, 20);
  Arena arena(1U << 22U);
  const Matrix from(x.data(), 40, kModel);
  const Matrix to(y.data(), 40, kModel);
  const auto step = [&] {
    const Arena::Frame frame(arena);
    const Kept saved = built.layer->save(pass, arena);
    built.layer->forward({pass, from, to, &saved, {}, arena});
    const Kept signals = built.layer->backward({pass, saved, from, to, {}, arena});
    built.layer->accumulate({pass, from, saved, to, signals, {}});
  };
  step();
  const std::size_t before = testing::allocations();
  step();
  EXPECT_EQ(testing::allocations(), before);
}

TEST(LatentAttention, RefusesWithASentence) {
  const auto message = [](const LatentAttentionConfig& config, MultiHeadAttentionConfig layer) {
    Parameters parameters;
    layer.d_model = kModel;
    layer.heads = 2;
    return testing::message_of([&] { const LatentAttention a(parameters, "a", config, layer); });
  };
  EXPECT_EQ(message({.rank = 0}, {}), "[latent] rank is 0; need a whole number from 1 to 1e6");
  EXPECT_EQ(message({}, {.lora_rank = 3}),
            "[latent] adapters of rank 3, and its matrices take none; need lora_rank = 0");
  EXPECT_EQ(message({.rope = 3}, {.rotary = std::make_shared<RotaryTable>(RotaryConfig{}, 4, 2)}),
            "[rotary] 3 channels of heads that are 3 wide; need an even width of at most the "
            "head's");
  const Built built({.config = small()});
  Pass pass = pass_of(1, 3);
  pass.history_length = 3;
  EXPECT_EQ(testing::message_of([&] { built.layer->check(pass); }),
            "[latent] cannot read earlier segments; need attention with a history");
  const Built both({.config = small(), .causal = false});
  EXPECT_FALSE(both.layer->decodes());
}

}  // namespace latent_attention_test
}  // namespace longspan
