// A search that is wide enough finds what trying every text finds; one of width 1 is greedy.
#include "longspan/training/beam_search.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>

#include "longspan/base/parallel.h"
#include "longspan/testing/check_layer.h"
#include "longspan/testing/temporary_directory.h"
#include "longspan/training/sampler.h"

namespace longspan {
namespace beam_search_test {

using testing::message_of;

constexpr std::size_t kVocabulary = 5;
constexpr std::size_t kLimit = 3;
constexpr std::size_t kAll = 130;  // no fewer than the texts of kLimit tokens

ModelConfig small(Family family, const std::string& attention) {
  ModelConfig c;
  c.family = family;
  c.layers = 2;
  c.decoder_layers = family == Family::kEncoderDecoder ? 2 : 0;
  c.d_model = 24;
  c.heads = 4;
  c.vocab = kVocabulary;
  c.max_length = 40;
  if (family == Family::kEncoderDecoder) {
    c.decoder_attention = attention;
  } else {
    c.attention = attention;
  }
  return c;
}

std::unique_ptr<Model> random_model(const ModelConfig& config, RandomKey seed) {
  auto model = std::make_unique<Model>(config);
  model->allocate(seed);
  testing::randomize(model->parameters(), seed);
  return model;
}

// log p of every next token, read from the whole text without any cache.
std::vector<double> next_of(Model& model, const std::vector<std::int32_t>& prompt,
                            std::int32_t boundary, const std::vector<std::int32_t>& written) {
  const bool answers = model.config().family == Family::kEncoderDecoder;
  std::vector<std::int32_t> tokens = answers ? std::vector{boundary} : prompt;
  tokens.insert(tokens.end(), written.begin(), written.end());
  Batch batch{.batch = 1, .length = tokens.size(), .tokens = tokens};
  if (answers) {
    batch.source_length = prompt.size();
    batch.source = prompt;
  }
  const auto logits = model.logits(batch).row(tokens.size() - 1);
  double sum = 0.0;
  for (const float v : logits) sum += std::exp(static_cast<double>(v));
  std::vector<double> all;
  for (const float v : logits) all.push_back(v - std::log(sum));
  return all;
}

struct Problem {
  Model& model;
  std::vector<std::int32_t> prompt;
  std::int32_t boundary;
  double penalty;
};

// The best of all texts that begin with `text`.
FoundText best_from(const Problem& p, const FoundText& text) {
  const auto scored = [&](FoundText t, std::size_t length) {
    t.score = t.log_probability / std::pow((5.0 + static_cast<double>(length)) / 6.0, p.penalty);
    return t;
  };
  if (text.tokens.size() == kLimit) return scored(text, kLimit);
  FoundText best{.score = -1e30};
  const std::vector<double> next = next_of(p.model, p.prompt, p.boundary, text.tokens);
  for (std::size_t token = 0; token < next.size(); ++token) {
    FoundText more = text;
    more.log_probability += next[token];
    if (static_cast<std::int32_t>(token) == p.boundary) {
      more.ended = true;
      more = scored(more, text.tokens.size() + 1);
    } else {
      more.tokens.push_back(static_cast<std::int32_t>(token));
      more = best_from(p, more);
    }
    if (more.score > best.score) best = more;
  }
  return best;
}

void expect_exhaustive(const Problem& p) {
  const FoundText want = best_from(p, {});
  BeamSearch search(p.model, {.beams = kAll, .length_penalty = p.penalty});
  const FoundText got = search.find(p.prompt, p.boundary, kLimit);
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.ended, want.ended);
  EXPECT_NEAR(got.log_probability, want.log_probability, 1e-4);
  EXPECT_NEAR(got.score, want.score, 1e-4);
}

TEST(BeamSearch, WideEnoughFindsTheBestOfAll) {
  for (const RandomKey seed : {1, 2, 3}) {
    // Caches of keys and values, with notes of their own or in common; states; and none.
    for (const char* attention :
         {"flash", "reformer", "transformer-xl", "linear", "performer", "performer:epsilon=1e-4"}) {
      SCOPED_TRACE(fmt::format("{} {}", attention, seed));
      const auto decoder = random_model(small(Family::kDecoder, attention), seed);
      expect_exhaustive({*decoder, {1, 4, 2, 2, 3}, -1, 0.6});
    }
    for (const char* attention : {"flash", "linear", "performer:epsilon=1e-4"}) {
      for (const double penalty : {0.0, 0.6, 2.0}) {
        SCOPED_TRACE(fmt::format("{} {} {}", attention, seed, penalty));
        const auto both = random_model(small(Family::kEncoderDecoder, attention), seed);
        expect_exhaustive({*both, {1, 4, 2, 2, 3, 1}, 0, penalty});
      }
    }
  }
}

std::vector<std::int32_t> greedy(Model& model, const std::vector<std::int32_t>& prompt,
                                 std::int32_t boundary, std::size_t limit) {
  Writer writer(model, prompt, boundary);
  Sampler sampler({.temperature = 0.0});
  std::vector<std::int32_t> written;
  while (written.size() < limit && writer.room() > 0) {
    const std::int32_t token = sampler.draw(writer.scores().row(0), 0);
    if (token == boundary) break;
    written.push_back(token);
    writer.append({&token, 1});
  }
  return written;
}

// Also beyond the last position, where a decoder starts again and an answer ends.
TEST(BeamSearch, OfWidthOneIsGreedy) {
  for (RandomKey seed = 1; seed <= 10; ++seed) {
    ModelConfig c = small(Family::kDecoder, "flash");
    c.max_length = 7;
    const auto decoder = random_model(c, seed);
    EXPECT_EQ(BeamSearch(*decoder, {.beams = 1}).find({1, 2}, -1, 30).tokens,
              greedy(*decoder, {1, 2}, -1, 30));
    c = small(Family::kEncoderDecoder, "flash");
    c.max_length = 7;
    const auto both = random_model(c, seed);
    const std::vector<std::int32_t> answer = greedy(*both, {3, 1, 2}, 0, 30);
    EXPECT_LE(answer.size(), 7U);
    EXPECT_EQ(BeamSearch(*both, {.beams = 1}).find({3, 1, 2}, 0, 30).tokens, answer);
  }
}

TEST(BeamSearch, FindsLikelierTextsThanGreedyOnes) {
  double narrow = 0.0;
  double wide = 0.0;
  for (RandomKey seed = 1; seed <= 20; ++seed) {
    const auto model = random_model(small(Family::kEncoderDecoder, "flash"), seed);
    const auto find = [&](std::size_t beams) {
      return BeamSearch(*model, {.beams = beams, .length_penalty = 0.0}).find({3, 1, 2}, 0, kLimit);
    };
    const double least = find(1).log_probability;
    narrow += least;
    wide += find(4).log_probability;
    EXPECT_GE(find(kAll).log_probability, least - 1e-5);
  }
  EXPECT_GT(wide, narrow);
}

// Texts that restart from their newer half, several at once.
TEST(BeamSearch, GoesOnBeyondTheLastPosition) {
  ModelConfig c = small(Family::kDecoder, "flash");
  c.max_length = 7;
  const auto model = random_model(c, 3);
  BeamSearch search(*model, {.beams = 3});
  const FoundText first = search.find({1, 2, 3, 4, 1, 2, 3, 4, 1}, -1, 20);
  EXPECT_EQ(first.tokens.size(), 20U);
  EXPECT_FALSE(first.ended);
  const int usual = thread_count();
  set_thread_count(3);
  const FoundText again = search.find({1, 2, 3, 4, 1, 2, 3, 4, 1}, -1, 20);
  set_thread_count(usual);
  EXPECT_EQ(again.tokens, first.tokens);
  EXPECT_EQ(again.log_probability, first.log_probability);
  EXPECT_TRUE(search.find({1}, -1, 0).tokens.empty());
}

// With weights of zero all tokens are equal, and so are all texts: the lower tokens come first.
TEST(BeamSearch, TiesGoToTheLowerToken) {
  const auto model = random_model(small(Family::kDecoder, "flash"), 1);
  std::ranges::fill(model->parameters().values(), 0.0F);
  EXPECT_EQ(BeamSearch(*model, {.beams = 4}).find({1}, -1, 3).tokens,
            (std::vector<std::int32_t>{0, 0, 0}));
}

TEST(BeamSearch, SaysWhatItNeeds) {
  const auto model = random_model(small(Family::kDecoder, "flash"), 1);
  EXPECT_NE(message_of([&] { BeamSearch(*model, {.beams = 0}); }).find("need"), std::string::npos);
  EXPECT_NE(message_of([&] { BeamSearch(*model, {.length_penalty = -1.0}); }).find("need"),
            std::string::npos);
  const auto encoder = random_model(small(Family::kEncoder, "flash"), 1);
  EXPECT_EQ(message_of([&] { BeamSearch(*encoder, {}).find({1}, -1, 1); }),
            "[generate] the model is an encoder; need a decoder");
  std::ranges::fill(model->parameters().values(), std::nanf(""));
  EXPECT_EQ(message_of([&] { BeamSearch(*model, {}).find({1}, -1, 1); }),
            "[generate] the model's scores are not finite; need a model whose training did not "
            "diverge");
}

}  // namespace beam_search_test
}  // namespace longspan
