// Multi-head attention around a mechanism that states its own streams: more and wider value heads,
// narrower keys, gates and decays behind q, k and v, an output of another width, and a buffer that
// follows the data.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <ostream>
#include <utility>

#include "longspan/base/error.h"
#include "longspan/kernels/rows/draw_normal.h"
#include "longspan/layers/multi_head_attention.h"
#include "longspan/testing/check_branch.h"
#include "longspan/testing/dry_branch.h"
#include "longspan/testing/gated_retention.h"

namespace longspan {
namespace multi_head_attention_streams_test {

using Count = std::uint64_t;
using testing::Complex;
using testing::GatedRetention;
using testing::GatedRetentionConfig;
using testing::Tensor;
using testing::Weights;

struct Case {
  std::string name;
  MultiHeadAttentionConfig config;
  GatedRetentionConfig retention = {};
  std::size_t batch = 1;
  std::size_t length = 1;
  std::size_t context_length = 0;
  std::vector<std::int32_t> lengths = {};

  std::size_t keys() const { return config.cross ? context_length : length; }
  std::size_t d() const { return config.d_model / config.heads / retention.narrow; }
  std::size_t e() const { return config.d_model / config.heads * retention.wider; }
  std::size_t value_heads() const { return config.heads * retention.values; }
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

MultiHeadAttentionConfig config_of(const Case& c) {
  MultiHeadAttentionConfig config = c.config;
  const GatedRetentionConfig& r = c.retention;
  config.attention =
      fmt::format("retention:values={},wider={},narrow={}", r.values, r.wider, r.narrow);
  return config;
}

Pass pass_of(const Case& c) {
  Pass pass;
  pass.batch = c.batch;
  pass.length = c.length;
  pass.context_length = c.context_length;
  (c.config.cross ? pass.context_lengths : pass.lengths) = c.lengths;
  return pass;
}

// A layer with its parameters, of which adapters leave only themselves to be trained.
struct Built {
  ExtraMechanism extra{GatedRetention::mechanism()};
  Parameters parameters;
  std::optional<MultiHeadAttention> layer;

  explicit Built(const Case& c) {
    layer.emplace(parameters, "a", config_of(c));
    if (c.config.lora_rank > 0) {
      parameters.freeze([](const Parameter& p) {
        return p.role != Role::kAdapter && p.role != Role::kOutputAdapter;
      });
    }
    parameters.allocate();
    parameters.initialize(3, draw_normal);
  }
  GatedRetention& mechanism() { return dynamic_cast<GatedRetention&>(*layer->mechanism()); }
};

// y + α/r·x·Aᵀ·Bᵀ where there are adapters.
Tensor<Complex> adapted(const Case& c, const Weights& w, const std::string& name,
                        const Tensor<Complex>& x, Tensor<Complex> y) {
  if (c.config.lora_rank == 0) return y;
  const Tensor<Complex> none;
  const Tensor<Complex> low = testing::linear(x, w.get<Complex>("a." + name + ".lora_a"), none);
  const Tensor<Complex> high = testing::linear(low, w.get<Complex>("a." + name + ".lora_b"), none);
  const double scale =
      static_cast<double>(c.config.lora_alpha) / static_cast<double>(c.config.lora_rank);
  for (std::size_t i = 0; i < y.data.size(); ++i) y.data[i] += scale * high.data[i];
  return y;
}

Complex sigmoid(const Complex& x) { return 1.0 / (1.0 + std::exp(-x)); }

Tensor<Complex> reference(const Case& c, const Weights& w) {
  const std::size_t heads = c.config.heads;
  const std::size_t values = c.value_heads();
  const std::size_t d = c.d();
  const std::size_t e = c.e();
  const std::size_t m = c.length;
  const std::size_t n = c.keys();
  const bool cross = c.config.cross;
  const Tensor<Complex> x = w.get<Complex>("x");
  const Tensor<Complex> source = cross ? w.get<Complex>("context") : x;
  const auto given = [&](const Tensor<Complex>& from, const std::string& name,
                         const std::string& group, std::size_t first, std::size_t columns) {
    return adapted(c, w, name, from,
                   testing::columns(testing::linear(w, "a." + group, from), first, columns));
  };
  const std::string pair = cross ? "kv" : "qkv";
  const std::size_t behind_q = cross ? 0 : heads * d;
  const Tensor<Complex> q = given(x, "q", cross ? "q" : "qkv", 0, heads * d);
  const Tensor<Complex> k = given(source, "k", pair, behind_q, heads * d);
  const Tensor<Complex> v = given(source, "v", pair, behind_q + heads * d, values * e);
  const Tensor<Complex> gate = given(x, "gate", "gates", 0, values * e);
  Tensor<Complex> decay;
  if (!cross) decay = given(x, "decay", "gates", values * e, values);
  const Tensor<Complex> mean = w.get<Complex>("a.retention.mean");

  Tensor<Complex> o(x.rows, values * e);
  for (std::size_t b = 0; b < c.batch; ++b) {
    const std::size_t length = c.lengths.empty() ? n : static_cast<std::size_t>(c.lengths[b]);
    for (std::size_t u = 0; u < values; ++u) {
      const std::size_t h = u / c.retention.values;
      for (std::size_t i = 0; i < m; ++i) {
        for (std::size_t j = 0; j < length; ++j) {
          if (c.config.causal && j > i) continue;
          Complex weight = 0.0;
          for (std::size_t a = 0; a < d; ++a) {
            weight += q(b * m + i, h * d + a) * (k(b * n + j, h * d + a) - mean(h, a));
          }
          weight /= std::sqrt(static_cast<double>(d));
          // The product of the decays between the two tokens, that of the later one included.
          for (std::size_t t = std::min(i, j) + 1; !cross && t <= std::max(i, j); ++t) {
            weight *= sigmoid(decay(b * m + t, u));
          }
          for (std::size_t a = 0; a < e; ++a) {
            o(b * m + i, u * e + a) += weight * v(b * n + j, u * e + a);
          }
        }
        for (std::size_t a = u * e; a < (u + 1) * e; ++a) {
          o(b * m + i, a) *= sigmoid(gate(b * m + i, a));
        }
      }
    }
  }
  return adapted(c, w, "out", o, testing::linear(w, "a.out", o));
}

std::vector<Case> cases() {
  const MultiHeadAttentionConfig plain{.d_model = 8, .heads = 2, .kv_heads = 2};
  MultiHeadAttentionConfig causal = plain;
  causal.causal = true;
  MultiHeadAttentionConfig bare = causal;
  bare.bias = bare.output_bias = false;
  MultiHeadAttentionConfig cross = plain;
  cross.cross = true;
  const auto with_adapters = [](MultiHeadAttentionConfig config) {
    config.lora_rank = 3;
    config.lora_alpha = 5.0F;
    return config;
  };
  return {
      {.name = "one", .config = {.d_model = 1, .causal = true}},
      {.name = "both_ways", .config = plain, .batch = 2, .length = 7},
      {.name = "padded", .config = plain, .batch = 3, .length = 5, .lengths = {5, 2, 0}},
      {.name = "causal", .config = causal, .batch = 2, .length = 11},
      {.name = "causal_padded", .config = causal, .batch = 3, .length = 5, .lengths = {4, 0, 5}},
      {.name = "no_biases_but_the_gates", .config = bare, .batch = 2, .length = 5},
      {.name = "narrow_keys", .config = causal, .retention = {.narrow = 2}, .length = 7},
      {.name = "three_narrow_values",
       .config = causal,
       .retention = {.values = 3, .wider = 1},
       .batch = 2,
       .length = 5},
      {.name = "wider_alone", .config = plain, .retention = {.values = 1}, .length = 5},
      {.name = "cross",
       .config = cross,
       .batch = 2,
       .length = 3,
       .context_length = 7,
       .lengths = {7, 4}},
      {.name = "adapted",
       .config = with_adapters(causal),
       .batch = 2,
       .length = 5,
       .lengths = {5, 3}},
      {.name = "adapted_cross",
       .config = with_adapters(cross),
       .batch = 2,
       .length = 5,
       .context_length = 3},
  };
}

class Streamed : public ::testing::TestWithParam<Case> {};

// Values, gradients of x and of every parameter, dry cost = meter, dry arena = arena.
TEST_P(Streamed, KeepsItsPromises) {
  const Case& c = GetParam();
  Built built(c);
  testing::BranchCase check;
  check.branch = &*built.layer;
  check.parameters = &built.parameters;
  check.pass = pass_of(c);
  check.d_model = c.config.d_model;
  check.reference = [&](const Weights& w) { return reference(c, w); };
  testing::expect_branch(check);
}

// MACCs, written out: a product for each group of streams, the pairs that see each other, the
// matrix behind, and adapters, beside which the matrices are not trained.
TEST_P(Streamed, CountsWhatItsStreamsAsk) {
  const Case& c = GetParam();
  Built built(c);
  const Count d_model = c.config.d_model;
  const Count keys = c.config.heads * c.d();
  const Count values = c.value_heads() * c.e();
  const Count decays = c.config.cross ? 0 : c.value_heads();
  const Count inputs = c.batch * c.length;
  const Count matrices = d_model * (inputs * (keys + values + decays) +
                                    c.batch * c.keys() * (keys + values) + inputs * values);
  const Count adapters =
      c.config.lora_rank *
      (inputs * (2 * d_model + keys + values + (decays > 0 ? d_model + decays : 0)) +
       c.batch * c.keys() * (2 * d_model + keys + values) + inputs * (values + d_model));
  Count pairs = 0;
  for (std::size_t b = 0; b < c.batch; ++b) {
    const std::size_t length =
        c.lengths.empty() ? c.keys() : static_cast<std::size_t>(c.lengths[b]);
    for (std::size_t i = 0; i < c.length; ++i) {
      pairs += c.value_heads() * (c.config.causal ? std::min(i + 1, length) : length);
    }
  }
  const Cost cost = testing::cost_of(*built.layer, pass_of(c), d_model);
  EXPECT_EQ(cost.forward.maccs, matrices + adapters + pairs * (c.d() + c.e()));
  EXPECT_EQ(cost.backward.maccs, matrices + adapters + pairs * (3 * c.d() + 2 * c.e()));
  EXPECT_EQ(cost.update.maccs, adapters > 0 ? adapters : matrices);
}

INSTANTIATE_TEST_SUITE_P(Cases, Streamed, ::testing::ValuesIn(cases()),
                         [](const auto& instance) { return instance.param.name; });

const Case& case_named(std::string_view name) {
  static const std::vector<Case> kCases = cases();
  return *std::ranges::find(kCases, name, &Case::name);
}

struct Declared {
  std::string name;
  std::vector<std::size_t> shape;
  Role role;
  bool operator==(const Declared&) const = default;
};
void PrintTo(const Declared& p, std::ostream* out) {
  *out << p.name << ' ' << ::testing::PrintToString(p.shape) << ", role "
       << static_cast<int>(p.role);
}

std::vector<Declared> declared(const Parameters& parameters) {
  std::vector<Declared> all;
  for (const Parameter& p : parameters.all()) all.push_back({p.name, p.shape(), p.role});
  return all;
}

// 2 heads of width 4: q and k have 8 columns, v and the gate 4·8 = 32, the decay 4.
TEST(Streams, AreDeclaredByGroup) {
  const Built self(case_named("causal"));
  EXPECT_EQ(declared(self.parameters),
            (std::vector<Declared>{{"a.qkv.weight", {48, 8}, Role::kProjection},
                                   {"a.qkv.bias", {48}, Role::kProjection},
                                   {"a.gates.weight", {36, 8}, Role::kProjection},
                                   {"a.gates.bias", {36}, Role::kProjection},
                                   {"a.out.weight", {8, 32}, Role::kBranchOutput},
                                   {"a.out.bias", {8}, Role::kBranchOutput},
                                   {"a.retention.mean", {2, 4}, Role::kMechanism}}));
  EXPECT_EQ(self.parameters.count(), 48U * 9 + 36 * 9 + 8 * 33);
  EXPECT_EQ(self.parameters.total(), self.parameters.count() + 8) << "the buffer is not trained";

  const Built bare(case_named("no_biases_but_the_gates"));
  EXPECT_EQ(bare.parameters.count(), 48U * 8 + 36 * 9 + 8 * 32);

  const Built cross(case_named("cross"));
  EXPECT_EQ(declared(cross.parameters),
            (std::vector<Declared>{{"a.q.weight", {8, 8}, Role::kProjection},
                                   {"a.q.bias", {8}, Role::kProjection},
                                   {"a.gates.weight", {32, 8}, Role::kProjection},
                                   {"a.gates.bias", {32}, Role::kProjection},
                                   {"a.out.weight", {8, 32}, Role::kBranchOutput},
                                   {"a.out.bias", {8}, Role::kBranchOutput},
                                   {"a.kv.weight", {40, 8}, Role::kProjection},
                                   {"a.kv.bias", {40}, Role::kProjection},
                                   {"a.retention.mean", {2, 4}, Role::kMechanism}}));
}

TEST(Streams, HaveAnAdapterEach) {
  const Built built(case_named("adapted"));
  std::vector<Declared> trained = declared(built.parameters);
  std::erase_if(trained, [&](const Declared& d) {
    return std::ranges::find(built.parameters.all(), d.name, &Parameter::name)->constant;
  });
  EXPECT_EQ(trained, (std::vector<Declared>{{"a.q.lora_a", {3, 8}, Role::kAdapter},
                                            {"a.q.lora_b", {8, 3}, Role::kAdapter},
                                            {"a.k.lora_a", {3, 8}, Role::kAdapter},
                                            {"a.k.lora_b", {8, 3}, Role::kAdapter},
                                            {"a.v.lora_a", {3, 8}, Role::kAdapter},
                                            {"a.v.lora_b", {32, 3}, Role::kAdapter},
                                            {"a.gate.lora_a", {3, 8}, Role::kAdapter},
                                            {"a.gate.lora_b", {32, 3}, Role::kAdapter},
                                            {"a.decay.lora_a", {3, 8}, Role::kAdapter},
                                            {"a.decay.lora_b", {4, 3}, Role::kAdapter},
                                            {"a.out.lora_a", {3, 32}, Role::kOutputAdapter},
                                            {"a.out.lora_b", {8, 3}, Role::kOutputAdapter}}));
  EXPECT_EQ(built.parameters.count(), 3U * (5 * 8 + 8 + 8 + 32 + 32 + 4 + 32 + 8));
}

// A layer of a case, its input, and what it makes of it.
class Runner {
 public:
  explicit Runner(const Case& c)
      : built(c),
        pass(pass_of(c)),
        d_model_(c.config.d_model),
        x(testing::random_values(pass.rows() * d_model_, 5)),
        y(x.size()),
        dx(x.size()) {
    testing::randomize(built.parameters, 6);
  }

  void infer() {
    arena_.clear();
    built.layer->forward({pass, rows(x), rows(y), nullptr, {}, arena_});
  }
  // Forward, backward and accumulate, with dy = y.
  void train() {
    arena_.clear();
    const Kept saved = built.layer->save(pass, arena_);
    built.layer->forward({pass, rows(x), rows(y), &saved, {}, arena_});
    const Kept signals = built.layer->backward({pass, saved, rows(y), rows(dx), {}, arena_});
    built.layer->accumulate({pass, rows(x), saved, rows(y), signals, {}});
  }
  Matrix rows(std::vector<float>& v) const { return {v.data(), v.size() / d_model_, d_model_}; }
  // Token i of sequence b becomes another.
  void change(std::size_t b, std::size_t i) {
    for (float& element : rows(x).row(b * pass.length + i)) element = 3.0F - element;
  }
  bool same_row(const std::vector<float>& a, const std::vector<float>& b, std::size_t row) const {
    return std::equal(a.begin() + static_cast<std::ptrdiff_t>(row * d_model_),
                      a.begin() + static_cast<std::ptrdiff_t>((row + 1) * d_model_),
                      b.begin() + static_cast<std::ptrdiff_t>(row * d_model_));
  }

  Built built;
  Pass pass;

 private:
  std::size_t d_model_;
  Arena arena_{1U << 22U};

 public:
  std::vector<float> x;
  std::vector<float> y;
  std::vector<float> dx;
};

TEST(Streams, OfLaterTokensReachNoEarlierOutput) {
  Runner run(case_named("causal"));
  run.infer();
  const std::vector<float> before = run.y;
  run.change(1, 6);
  run.infer();
  for (std::size_t i = 0; i < 2 * 11; ++i) {
    EXPECT_EQ(run.same_row(run.y, before, i), i < 11 + 6) << i;
  }
}

TEST(Streams, OfPaddingReachNoRealToken) {
  for (const char* name : {"padded", "causal_padded"}) {
    Runner run(case_named(name));
    run.infer();
    const std::vector<float> before = run.y;
    for (std::size_t b = 0; b < run.pass.batch; ++b) {
      for (std::size_t i = static_cast<std::size_t>(run.pass.lengths[b]); i < 5; ++i) {
        run.change(b, i);
      }
    }
    run.infer();
    for (std::size_t b = 0; b < run.pass.batch; ++b) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(run.pass.lengths[b]); ++i) {
        EXPECT_TRUE(run.same_row(run.y, before, b * 5 + i)) << name << ' ' << b << ' ' << i;
      }
    }
  }
}

TEST(Streams, DecodeTokenByToken) {
  for (const char* name : {"causal", "narrow_keys"}) {
    Runner run(case_named(name));
    run.infer();
    const Case& c = case_named(name);
    const std::size_t d = c.config.d_model;
    ASSERT_TRUE(run.built.layer->decodes());
    std::vector<float> memory;
    DecodeCache cache{.batch = c.batch, .capacity = c.length};
    run.built.layer->size_cache(0, cache);
    EXPECT_EQ(cache.floats, c.batch * c.value_heads() * c.d() * c.e());
    memory.resize(cache.floats);
    cache.data = memory.data();
    cache.clear();
    Pass one = run.pass;
    one.length = 1;
    Beside beside;
    beside.cache = &cache;
    std::vector<float> x(c.batch * d);
    std::vector<float> y(c.batch * d);
    for (std::size_t i = 0; i < c.length; ++i) {
      for (std::size_t b = 0; b < c.batch; ++b) {
        std::ranges::copy(run.rows(run.x).row(b * c.length + i), run.rows(x).row(b).begin());
      }
      const std::vector<float> held = memory;
      testing::expect_dry_is_wet([&](Arena& arena) {
        run.built.layer->forward({one, run.rows(x), run.rows(y), nullptr, beside, arena});
      });
      EXPECT_NE(memory, held) << "a walk alone leaves the state as it was";
      ++cache.used;
      for (std::size_t b = 0; b < c.batch; ++b) {
        for (std::size_t a = 0; a < d; ++a) {
          EXPECT_NEAR(run.rows(y).row(b)[a], run.rows(run.y).row(b * c.length + i)[a], 2e-5F);
        }
      }
    }
  }
}

// The mean of the real keys of a step, by the equations.
std::vector<double> mean_key(const Case& c, Runner& run) {
  Weights w = testing::weights_of(run.built.parameters);
  w.set("x", run.pass.rows(), c.config.d_model, run.x);
  const std::size_t columns = c.config.heads * c.d();
  const Tensor<double> k =
      testing::columns(testing::linear(w, "a.qkv", w.get<double>("x")), columns, columns);
  std::vector<double> mean(columns);
  double count = 0.0;
  for (std::size_t row = 0; row < k.rows; ++row) {
    const std::size_t b = row / c.length;
    if (!c.lengths.empty() && std::cmp_greater_equal(row % c.length, c.lengths[b])) continue;
    for (std::size_t a = 0; a < columns; ++a) mean[a] += k(row, a);
    ++count;
  }
  for (double& element : mean) element /= count;
  return mean;
}

TEST(Streams, ABufferFollowsTheStepsOfTraining) {
  const Case& c = case_named("causal_padded");
  Runner run(c);
  GatedRetention& mechanism = run.built.mechanism();
  const auto buffer = [&] {
    const ConstMatrix mean = mechanism.mean();
    return std::vector<float>(mean.data, mean.data + mean.size());
  };
  const std::vector<float> start = buffer();
  const std::vector<double> fresh = mean_key(c, run);
  std::vector<double> want;
  for (std::size_t i = 0; i < start.size(); ++i) want.push_back(0.75 * start[i] + 0.25 * fresh[i]);

  run.built.layer->begin_step(0);
  run.infer();
  testing::walk_branch(*run.built.layer, run.pass, c.config.d_model);
  run.built.layer->end_step();
  EXPECT_EQ(mechanism.taken(), 0U) << "neither inference nor a walk gathers";
  EXPECT_EQ(buffer(), start);

  // Two batches of one step.
  run.built.layer->begin_step(1);
  run.train();
  run.train();
  EXPECT_EQ(buffer(), start) << "a step sees one buffer";
  const std::vector<float> y = run.y;
  run.built.layer->end_step();
  EXPECT_EQ(mechanism.taken(), 2U * (4 + 0 + 5));
  testing::expect_close(buffer(), want, 2e-6, "mean");
  run.infer();
  EXPECT_NE(run.y, y) << "what follows sees it moved";

  // What was gathered before a step is not the step's.
  const std::vector<float> moved = buffer();
  run.train();
  run.built.layer->begin_step(2);
  run.built.layer->end_step();
  EXPECT_EQ(buffer(), moved);
  EXPECT_EQ(mechanism.ends(), 3U);
}

// Streams of the registered mechanism, changed.
template <class Change>
std::string error_of(Change change) {
  static Change* changes = nullptr;
  changes = &change;
  Mechanism other = GatedRetention::mechanism();
  other.streams = [](std::string_view /*options*/, const AttentionLayout& layout) {
    Streams streams = GatedRetention::streams({}, layout);
    (*changes)(streams);
    return streams;
  };
  const ExtraMechanism extra(other);
  Parameters parameters;
  try {
    MultiHeadAttentionConfig config = case_named("causal").config;
    config.attention = "retention";
    const MultiHeadAttention layer(parameters, "a", config);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Streams, AreRefusedWhereThereIsNoRoom) {
  const auto more = [](std::size_t count) {
    return error_of([count](Streams& streams) {
      for (std::size_t i = streams.given.size(); i < 3 + count; ++i) {
        streams.given.push_back(streams.given.back());
        streams.given.back().name += std::to_string(i);
      }
    });
  };
  EXPECT_EQ(more(5), "");
  EXPECT_EQ(more(6), "[retention] 6 streams behind q, k and v; need at most 5");
}

TEST(Streams, OfAGroupAreAlike) {
  const auto moved = [](std::optional<bool> bias) {
    return error_of([bias](Streams& streams) {
      streams.given[3].group = "qkv";
      streams.given[3].bias = bias;
    });
  };
  EXPECT_EQ(moved(std::nullopt), "");
  EXPECT_EQ(moved(false),
            "[attention] the stream 'gate' is not of one source, width and bias with others of "
            "'qkv'; need a group of its own");
}

TEST(Streams, OfAnotherWidthThanTheRotaryTableAreRefused) {
  Case c = case_named("narrow_keys");
  const auto table = std::make_shared<RotaryTable>(RotaryConfig{}, 20, 4);
  table->allocate();
  c.config.rotary = table;
  Runner run(c);
  try {
    run.infer();
    ADD_FAILURE() << "rotated";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[rotary] heads are 2 wide; the table is made for 4");
  }
}

}  // namespace multi_head_attention_streams_test
}  // namespace longspan
