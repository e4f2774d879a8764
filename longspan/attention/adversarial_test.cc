// Every mechanism on numbers that are meant to break it, forward and backward.
//
//   finite in, finite out   An output is a mean of the values and a gradient a sum of products with
//                           weights of at most 1. So zeros, denormals, equal keys and tensors of
//                           1e4 leave everything finite. Where weights are the softmax of scores of
//                           the tokens themselves, so do values of 1e30, and queries and keys of
//                           1e30, whose scores overflow to ±∞: +∞ is then the largest score there
//                           is, and −∞ one that is not seen. What is not demanded, for it has no
//                           float: 1e30 in queries, keys and values at once, where dq = dS·k rounds
//                           at 1e23·1e30; scores that are ∞ − ∞; 1e30 in features, whose logarithm
//                           is a square, and in values that features multiply before they divide;
//                           1e30 in hashes and means of queries.
//   NaN in, NaN out         A NaN in a query shows in its row, one in a key or a value in every row
//                           that hears of that token: those that change with its value. A pattern
//                           that is learned from keys is another one if a key is NaN: there its own
//                           row must show it. Gradients show it too. Rows that hear nothing have no
//                           NaN, unless they are near one that does: a product of tiles multiplies
//                           by weights of 0.
//   infinity                In a value it shows as NaN does; a query of it does not give zeros.
//   padding                 What the keys, values and inputs of padding hold changes no bit of the
//                           outputs and gradients. Queries are padding only where they are the same
//                           tokens as the keys; otherwise key lengths say nothing of them.
//   threads                 One and two give the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "longspan/attention/registry.h"
#include "longspan/base/parallel.h"
#include "longspan/testing/attention_problem.h"
#include "longspan/testing/test_name.h"

namespace longspan {
namespace adversarial_test {

using testing::AttentionCase;
using testing::AttentionProblem;
using testing::SitedAttention;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kDenormal = 1e-40F;
constexpr float kHuge = 1e30F;
constexpr std::size_t kLengths[] = {1, 2, 3, 17, 63, 64, 65, 257};

bool is_nan(float x) { return std::isnan(x); }
bool is_finite(float x) { return std::isfinite(x); }

enum class Tensor : std::uint8_t { kQuery, kKey, kValue };
constexpr Tensor kTensors[] = {Tensor::kQuery, Tensor::kKey, Tensor::kValue};
const char* name_of(Tensor which) {
  return which == Tensor::kQuery ? "query" : which == Tensor::kKey ? "key" : "value";
}

std::vector<float>& tensor_of(AttentionProblem& p, Tensor which) {
  if (which == Tensor::kValue) return p.v;
  return which == Tensor::kQuery || p.wants.shared_qk ? p.q : p.k;
}

// Token t of sequence b in a tensor [batch, heads, n, width].
void set_token(const AttentionCase& c, std::vector<float>& x, std::size_t b, std::size_t t,
               float to) {
  const std::size_t heads = c.heads;
  const std::size_t width = x.size() / (c.batch * heads * c.n);
  for (std::size_t plane = b * heads; plane < (b + 1) * heads; ++plane) {
    std::fill_n(x.begin() + static_cast<std::ptrdiff_t>((plane * c.n + t) * width), width, to);
  }
}
void set_middle(AttentionProblem& p, Tensor which, float to) {
  set_token(p.c, tensor_of(p, which), 0, p.c.n / 2, to);
}

void scale(std::vector<float>& x, float factor) {
  for (float& a : x) a *= factor;
}
void scale_all(AttentionProblem& p, float factor) {
  for (auto* x : {&p.q, &p.k, &p.v, &p.x}) scale(*x, factor);
}
void equal_keys(AttentionProblem& p) {
  std::vector<float>& k = tensor_of(p, Tensor::kKey);
  for (std::size_t i = p.c.d; i < k.size(); ++i) k[i] = k[i % p.c.d];
}

// Finite tensors, and of whom they are demanded.
struct Pattern {
  const char* name;
  bool softmax_only;
  void (*apply)(AttentionProblem& p);
};
constexpr Pattern kLarge = {"1e4", false, [](AttentionProblem& p) { scale_all(p, 1e4F); }};
constexpr Pattern kHugeScore = {"a query and a key of 1e30", true, [](AttentionProblem& p) {
                                  set_middle(p, Tensor::kQuery, kHuge);
                                  set_middle(p, Tensor::kKey, kHuge);
                                }};
constexpr Pattern kPatterns[] = {
    {"zeros", false, [](AttentionProblem& p) { scale_all(p, 0.0F); }},
    {"denormals", false, [](AttentionProblem& p) { scale_all(p, kDenormal); }},
    kLarge,
    {"queries and keys of 2.5e4", false,
     [](AttentionProblem& p) {
       scale(p.q, 2.5e4F);
       scale(p.k, 2.5e4F);
     }},
    {"equal keys", false, equal_keys},
    {"equal keys of 1e4", false,
     [](AttentionProblem& p) {
       equal_keys(p);
       scale_all(p, 1e4F);
     }},
    {"a value of 1e30", true, [](AttentionProblem& p) { set_middle(p, Tensor::kValue, kHuge); }},
    kHugeScore,
    {"a query of 1e30 and the opposite key", true,
     [](AttentionProblem& p) {
       set_middle(p, Tensor::kQuery, kHuge);
       set_middle(p, Tensor::kKey, -kHuge);
     }},
    {"queries and keys of 1e30", true,
     [](AttentionProblem& p) {
       for (auto* x : {&p.q, &p.k}) std::ranges::fill(*x, kHuge);
     }},
};

// What a run leaves, by name; the output first.
struct Result {
  const char* name;
  std::vector<float> AttentionProblem::*tensor;
};
constexpr Result kResults[] = {
    {"y", &AttentionProblem::y},   {"dq", &AttentionProblem::dq},
    {"dk", &AttentionProblem::dk}, {"dv", &AttentionProblem::dv},
    {"dx", &AttentionProblem::dx}, {"parameters", &AttentionProblem::parameter_gradients}};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

std::span<const float> row_of(const AttentionProblem& p, std::size_t i) {
  return std::span(p.y).subspan(i * p.c.e, p.c.e);
}

AttentionCase square(std::size_t n, std::size_t d) { return {.m = n, .n = n, .d = d, .e = d}; }

class Adversarial : public ::testing::TestWithParam<std::string_view> {
 protected:
  // Problems are so small that threads would mostly wait for each other.
  Adversarial() { set_thread_count(1); }
  ~Adversarial() override { set_thread_count(usual_threads_); }

  const Mechanism& mechanism() const { return find_mechanism(GetParam()); }
  Abilities able() const { return mechanism().abilities(""); }
  bool learns_pattern() const { return mechanism().kind == MechanismClass::kLearnablePattern; }
  // Weights are the softmax of the scores of the tokens themselves, perhaps of some of them.
  bool softmax_of_tokens() const {
    return mechanism().gives_up.empty() || mechanism().kind == MechanismClass::kFixedPattern;
  }

  template <class Change>
  AttentionProblem run(const AttentionCase& c, Change change, bool gradients = true) const {
    SitedAttention attention(GetParam(), c);
    AttentionProblem p(c, 1, attention.wants());
    change(p);
    p.run(attention, gradients);
    return p;
  }

  // The case, and where the mechanism can, the same with a causal mask.
  template <class Body>
  void with_masks(AttentionCase c, Body body) const {
    body(c);
    c.causal = true;
    if (able().causal) body(c);
  }

  void expect_finite(const AttentionCase& shape, const Pattern& pattern) const {
    if (pattern.softmax_only && !softmax_of_tokens()) return;
    with_masks(shape, [&](const AttentionCase& c) {
      const AttentionProblem p = run(c, pattern.apply);
      for (const Result& r : kResults) {
        EXPECT_TRUE(std::ranges::all_of(p.*r.tensor, is_finite))
            << r.name << " of " << pattern.name << ", " << c.name();
      }
    });
  }

  // Which rows hear of the token in the middle.
  std::vector<bool> hearing(const AttentionCase& c) const {
    const AttentionProblem before = run(
        c, [](auto&) {}, false);
    const AttentionProblem after = run(
        c, [](auto& p) { set_middle(p, Tensor::kValue, 1e3F); }, false);
    std::vector<bool> hears(c.m);
    for (std::size_t i = 0; i < c.m; ++i) {
      hears[i] = !std::ranges::equal(row_of(before, i), row_of(after, i));
    }
    return hears;
  }

  void expect_nan(const AttentionCase& c, Tensor which, const std::vector<bool>& hears) const {
    constexpr std::size_t kNear =
        256;  // a tile of 64 keys, each of which may stand for four tokens
    SCOPED_TRACE(::testing::Message() << "a NaN in a " << name_of(which) << ", " << c.name());
    const AttentionProblem p = run(c, [&](auto& q) { set_middle(q, which, kNan); });
    const std::size_t t = c.n / 2;
    const bool own_row = which == Tensor::kQuery || (learns_pattern() && which == Tensor::kKey);
    std::size_t far = kNear;  // rows since one that hears, from either end
    std::vector<std::size_t> distance(c.m);
    for (std::size_t i = 0; i < c.m; ++i) distance[i] = far = hears[i] || i == t ? 0 : far + 1;
    far = kNear;
    for (std::size_t i = c.m; i-- > 0;) {
      far = hears[i] || i == t ? 0 : far + 1;
      distance[i] = std::min(distance[i], far);
    }
    for (std::size_t i = 0; i < c.m; ++i) {
      const bool shows = std::ranges::any_of(row_of(p, i), is_nan);
      const bool must = hears[i] && (!own_row || i == t);
      const bool must_not = !learns_pattern() && distance[i] >= kNear;
      EXPECT_TRUE(shows || !must) << "row " << i << " hides it";
      EXPECT_TRUE(!shows || !must_not) << "row " << i << " does not hear of it";
    }
    const auto shows = [&](const Result& r) { return std::ranges::any_of(p.*r.tensor, is_nan); };
    EXPECT_TRUE(std::any_of(kResults + 1, std::end(kResults), shows)) << "no gradient shows it";
  }

 private:
  int usual_threads_ = thread_count();
};

TEST_P(Adversarial, FiniteStaysFinite) {
  for (const Pattern& pattern : kPatterns) {
    for (const AttentionCase& c : {square(1, 1), square(3, 8), square(65, 16)}) {
      expect_finite(c, pattern);
    }
  }
  for (const Pattern* pattern : {&kLarge, &kHugeScore}) {
    for (const std::size_t n : kLengths) {
      for (const std::size_t d : {1U, 5U, 64U}) expect_finite(square(n, d), *pattern);
    }
    for (const std::size_t n : {3U, 17U}) expect_finite(square(n, 256), *pattern);
  }
}

// Scores that overflow still give means of the values.
TEST_P(Adversarial, OverflowGivesMeans) {
  if (!able().exact) return;
  for (const std::size_t n : kLengths) {
    with_masks(square(n, 5), [&](const AttentionCase& c) {
      const AttentionProblem one = run(c, kHugeScore.apply, false);
      const auto row = row_of(one, n / 2);
      EXPECT_TRUE(std::ranges::equal(row, std::span(one.v).subspan(n / 2 * c.e, c.e))) << c.name();
      const AttentionProblem all = run(c, std::end(kPatterns)[-1].apply, false);
      float sum = 0.0F;  // the last row sees all values
      for (std::size_t j = 0; j < n; ++j) sum += all.v[j * c.e];
      EXPECT_NEAR(row_of(all, n - 1)[0], sum / static_cast<float>(n), 1e-5F) << c.name();
    });
  }
}

TEST_P(Adversarial, NanShows) {
  const auto check = [&](const AttentionCase& shape) {
    with_masks(shape, [&](const AttentionCase& c) {
      const std::vector<bool> hears = hearing(c);
      // The middle may be in a slot that nobody sees yet.
      if (std::ranges::find(hears, true) == hears.end()) return;
      for (const Tensor which : kTensors) expect_nan(c, which, hears);
    });
  };
  for (const std::size_t n : kLengths) check(square(n, 8));
  check(square(65, 64));
  check(square(700, 3));
}

TEST_P(Adversarial, InfinityShows) {
  for (const std::size_t n : kLengths) {
    const AttentionCase c = square(n, 8);
    const std::vector<bool> hears = hearing(c);
    const AttentionProblem value = run(
        c, [](auto& p) { set_middle(p, Tensor::kValue, kInfinity); }, false);
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_TRUE(!hears[i] || !std::ranges::all_of(row_of(value, i), is_finite)) << c.name();
    }
    const AttentionProblem query = run(
        c, [](auto& p) { set_middle(p, Tensor::kQuery, kInfinity); }, false);
    EXPECT_TRUE(std::ranges::any_of(row_of(query, n / 2), [](float x) { return x != 0.0F; }))
        << c.name();
  }
}

TEST_P(Adversarial, PaddingNeverLeaks) {
  if (!able().key_lengths) return;
  for (const AttentionCase& shape : {square(1, 1), square(3, 8), square(17, 1), square(64, 16),
                                     square(65, 16), square(257, 16)}) {
    with_masks(shape, [&](AttentionCase c) {
      const auto n = static_cast<std::int32_t>(c.n);
      c.batch = 3;
      c.key_lengths = {(2 * n + 2) / 3, 0, n};
      const auto for_padding = [&](auto use) {
        for (std::size_t b = 0; b < c.batch; ++b) {
          for (auto t = static_cast<std::size_t>(c.key_lengths[b]); t < c.n; ++t) use(b, t);
        }
      };
      const auto padded = [&](float with) {
        bool same_tokens = false;
        AttentionProblem p = run(c, [&](AttentionProblem& q) {
          same_tokens = q.wants.shared_qk || q.wants.input;
          for_padding([&](std::size_t b, std::size_t t) {
            for (auto* x : {&q.k, &q.v, &q.x}) {
              if (!x->empty()) set_token(c, *x, b, t, with);
            }
            if (q.wants.shared_qk) set_token(c, q.q, b, t, with);
            if (same_tokens) set_token(c, q.dy, b, t, 0.0F);
          });
        });
        // Nobody asks for what padded queries see.
        for_padding([&](std::size_t b, std::size_t t) {
          if (same_tokens) set_token(c, p.y, b, t, 0.0F);
        });
        return p;
      };
      const AttentionProblem plain = padded(1.0F);
      for (const float with : {kNan, kInfinity, kHuge}) {
        const AttentionProblem p = padded(with);
        for (const Result& r : kResults) {
          EXPECT_TRUE(same_bits(p.*r.tensor, plain.*r.tensor))
              << r.name << " changes with " << with << " in the padding, " << c.name();
        }
      }
    });
  }
}

TEST_P(Adversarial, ThreadsChangeNothing) {
  for (const std::size_t n : {17U, 257U}) {
    const AttentionCase c = square(n, 16);
    const auto poison = [&](AttentionProblem& p) {
      set_middle(p, Tensor::kValue, kInfinity);
      set_token(c, p.q, 0, n / 3, kNan);
      set_token(c, tensor_of(p, Tensor::kKey), 0, n - 1, kHuge);
    };
    set_thread_count(1);
    const AttentionProblem one = run(c, poison);
    set_thread_count(2);
    const AttentionProblem two = run(c, poison);
    for (const Result& r : kResults) {
      EXPECT_TRUE(same_bits(one.*r.tensor, two.*r.tensor)) << r.name << ", " << c.name();
    }
  }
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> all;
  for (const Mechanism& m : mechanisms()) all.push_back(m.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Registry, Adversarial, ::testing::ValuesIn(names()),
                         [](const auto& instance) { return testing::test_name(instance.param); });

}  // namespace adversarial_test
}  // namespace longspan
