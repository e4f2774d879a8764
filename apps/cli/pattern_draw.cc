#include "pattern_draw.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "longspan/attention/pattern/pattern.h"
#include "longspan/attention/registry.h"
#include "longspan/base/error.h"

namespace longspan::cli {

namespace {

constexpr std::size_t kHeadWidth = 64;
// Weights are read off whole sequences of this many tokens and this much work, longer ones off the
// tokens that are shown.
constexpr std::size_t kMostProbed = std::size_t{1} << 16U;
constexpr std::uint64_t kMostMaccs = 10'000'000'000;
constexpr std::size_t kMostFloats = std::size_t{1} << 26U;
// The tokens of a probe: kinds in runs, so that what looks for its like finds it.
constexpr std::size_t kTokenKinds = 6;
constexpr std::size_t kTokenRuns = 12;
constexpr float kAlike = 0.55F;

// A mechanism for sequences of `length` tokens.
struct Subject {
  Subject(const PatternRequest& r, std::size_t length)
      : specification(shown_specification(r.attention, length)),
        attention(specification, {.d_model = r.heads * kHeadWidth,
                                  .heads = r.heads,
                                  .kv_heads = r.heads,
                                  .d_head = kHeadWidth,
                                  .max_length = length}) {
    shape.heads = shape.kv_heads = r.heads;
    shape.m = shape.n = length;
    shape.d = shape.e = kHeadWidth;
    shape.causal = r.causal;
    attention->check(shape);
  }

  std::string specification;
  LoneAttention attention;
  AttentionShape shape;
};

// Whether the weights of so many keys can be read off the whole sequence.
bool affordable(const Subject& s, std::size_t cells) {
  if (s.shape.n > kMostProbed) return false;
  const AttentionCost cost = s.attention->cost(s.shape);
  const std::size_t inputs = 5 * s.shape.n * s.shape.heads * kHeadWidth;
  const std::uint64_t passes = (cells + kHeadWidth - 1) / kHeadWidth;
  return cost.forward.maccs <= kMostMaccs / passes &&
         cost.forward_scratch / sizeof(float) + inputs + s.attention.parameters().count() <=
             kMostFloats;
}

std::vector<float> made_up(const AttentionShape& s, RandomKey key) {
  const std::size_t width = s.heads * kHeadWidth;
  const std::size_t run = std::max<std::size_t>(1, s.n / kTokenRuns);
  std::vector<float> x(s.n * width);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t kind = i / width / run % kTokenKinds;
    // The kinds are the same for queries and keys.
    x[i] = kAlike * (random_normal(1, kind * width + i % width) + random_normal(key, i));
  }
  return x;
}

// The weights that a mechanism gives to the values, read off from values that are 0 and 1: as many
// keys at a time as a value is wide. `tokens` are those of the rows and columns.
std::vector<float> probe(Subject& s, std::size_t head, std::span<const std::size_t> tokens) {
  s.attention.allocate();
  const std::size_t width = s.shape.heads * kHeadWidth;
  std::vector<float> q = made_up(s.shape, 2);
  std::vector<float> k = made_up(s.shape, 3);
  std::vector<float> x = made_up(s.shape, 4);
  std::vector<float> v(q.size()), y(q.size());
  const auto heads = [&](std::vector<float>& data) {
    return Heads::from_columns(Matrix(data.data(), s.shape.n, width), 1, s.shape.heads);
  };
  AttentionInputs in;
  in.q = heads(q);
  in.k = s.attention->abilities().shared_qk ? in.q : heads(k);
  in.v = heads(v);
  in.mask.causal = s.shape.causal;
  if (s.attention.streams().calls(Source::kInput)) {
    in.x = ConstMatrix(x.data(), s.shape.n, width);
  }
  Arena arena(s.attention->cost(s.shape).forward_scratch);
  std::vector<float> weights(tokens.size() * tokens.size());
  for (std::size_t first = 0; first < tokens.size(); first += kHeadWidth) {
    const std::size_t count = std::min(kHeadWidth, tokens.size() - first);
    std::ranges::fill(v, 0.0F);
    const Matrix values = heads(v).head(0, head);
    for (std::size_t j = 0; j < count; ++j) values.row(tokens[first + j])[j] = 1.0F;
    s.attention->forward({in, heads(y), {}, arena});
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto row = heads(y).head(0, head).row(tokens[i]);
      for (std::size_t j = 0; j < count; ++j) weights[i * tokens.size() + first + j] = row[j];
    }
  }
  return weights;
}

void paint_fixed(const Subject& s, const FixedPattern& pattern, std::size_t head, Picture& to) {
  for (std::size_t i = 0; i < to.cells(); ++i) {
    for (std::size_t j = 0; j < to.cells(); ++j) {
      to.set(i, j, pattern.reason(s.shape, head, to.token(i), to.token(j)));
    }
  }
}

void paint_weights(std::span<const float> weights, std::string_view reason, Picture& to) {
  for (std::size_t i = 0; i < to.cells(); ++i) {
    const auto row = weights.subspan(i * to.cells(), to.cells());
    const auto seen = static_cast<float>(row.size() - std::ranges::count(row, 0.0F));
    const float mean = std::accumulate(row.begin(), row.end(), 0.0F) / std::max(1.0F, seen);
    for (std::size_t j = 0; j < row.size(); ++j) {
      if (row[j] != 0.0F) to.set(i, j, reason, row[j] < mean ? Weight::kBelow : Weight::kAbove);
    }
  }
}

}  // namespace

Picture draw_pattern(const PatternRequest& r, std::size_t cells) {
  Subject whole(r, r.length);
  if (const auto* fixed = dynamic_cast<const FixedPattern*>(&*whole.attention)) {
    Picture picture(whole.specification, r.length, cells);
    paint_fixed(whole, *fixed, r.head, picture);
    return picture;
  }
  const std::string_view reason = reason_of(find_mechanism(r.attention).kind);
  cells = std::min(cells, r.length);
  std::vector<std::size_t> tokens(cells);
  if (affordable(whole, cells)) {
    Picture picture(whole.specification, r.length, cells);
    for (std::size_t i = 0; i < cells; ++i) tokens[i] = picture.token(i);
    paint_weights(probe(whole, r.head, tokens), reason, picture);
    return picture;
  }
  // The tokens that are shown, as if there were no others.
  Subject thinned(r, cells);
  Picture picture(thinned.specification, r.length, cells);
  std::iota(tokens.begin(), tokens.end(), 0);
  paint_weights(probe(thinned, r.head, tokens), reason, picture);
  return picture;
}

}  // namespace longspan::cli
