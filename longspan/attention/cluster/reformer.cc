#include "longspan/attention/cluster/reformer.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/base/integers.h"

namespace longspan {

namespace {

// "auto" has no factors, "8" one and "4x8" two.
LshCode parse_buckets(const ReformerConfig& config) {
  LshCode code;
  code.rounds = config.rounds;
  if (config.buckets == "auto") return code;
  constexpr std::size_t kMostBuckets = std::size_t{1} << 24U;
  std::size_t buckets = 1;
  std::size_t count = 0;
  for (const std::string& part : split_list(config.buckets, 'x')) {
    // Hashing takes as many products as there are factors, of a width that is their sum.
    const auto factor =
        read_number<std::size_t>(ReformerAttention::kName, "buckets", part, from_to(2, 4096));
    require(factor % 2 == 0 && count < code.factors.size(),
            "[reformer] buckets is '{}'; need up to {} even factors, as in 16x8", config.buckets,
            code.factors.size());
    buckets *= factor;
    require(buckets <= kMostBuckets, "[reformer] buckets is '{}'; need a product of at most {}",
            config.buckets, kMostBuckets);
    code.factors[count++] = factor;
  }
  return code;
}

}  // namespace

Abilities ReformerAttention::can(const ReformerConfig& config) {
  check_numbers(kName, config);
  parse_buckets(config);
  return {.causal = true,
          .key_lengths = true,
          .decode = true,
          .shared_qk = true,
          .reads_padding = config.padding != ReformerPadding::kSkip};
}

LshCode ReformerAttention::code(std::size_t max_length) const {
  if (explicit_.factors[0] > 0) return explicit_;
  // Twice as many buckets as chunks, so that a bucket fills half a chunk; many of them as a product
  // of at most 32 each, so that hashing stays linear.
  constexpr unsigned kBitsAtOnce = 7;
  constexpr unsigned kBitsOfFactor = 5;
  const std::size_t wanted = std::max<std::size_t>(2, 2 * divide_up(max_length, config_.chunk));
  auto bits = static_cast<unsigned>(std::countr_zero(std::bit_ceil(wanted)));
  auto parts = bits <= kBitsAtOnce ? 1U : divide_up(bits, kBitsOfFactor);
  parts = std::min(parts, static_cast<unsigned>(LshCode::kMostFactors));
  LshCode code = explicit_;
  for (std::size_t f = 0; parts > 0; ++f, --parts) {
    const unsigned mine = divide_up(bits, parts);
    code.factors[f] = std::size_t{1} << mine;
    bits -= mine;
  }
  return code;
}

ReformerAttention::ReformerAttention(const ReformerConfig& config, const AttentionSite& site)
    : Attention(can(config)),
      config_(config),
      explicit_(parse_buckets(config)),
      max_length_(site.max_length) {
  const LshCode hash = code(max_length_);
  const RandomKey key = derive(derive(config_.seed, "reformer"), site.name);
  rotations_ =
      &site.parameters.declare_constant(site.name + ".rotations", site.heads * site.d_head,
                                        hash.rounds * hash.projections(), [key](Matrix to) {
                                          for (std::size_t i = 0; i < to.size(); ++i)
                                            to.data[i] = random_normal(key, i);
                                        });
}

ChunkLayout ReformerAttention::layout(const AttentionShape& s, std::size_t b) const {
  ChunkLayout l;
  const bool all = config_.padding != ReformerPadding::kSkip || s.key_lengths.empty();
  l.tokens = all ? s.n : static_cast<std::size_t>(s.key_lengths[b]);
  l.chunk = config_.chunk;
  l.before = config_.before;
  l.after = config_.after;
  l.rounds = config_.rounds;
  l.wrap = config_.wrap;
  return l;
}

void ReformerAttention::check_more(const AttentionShape& s) const {
  require(!decodes(s) || s.key_lengths.empty(),
          "[reformer] key lengths while decoding; need whole sequences");
  if (!strict(s)) return;
  require(config_.same_bucket,
          "[reformer] is strictly causal only among tokens of the same bucket; need same_bucket or "
          "strict=false, which lets later tokens move the chunks");
  require(config_.wrap == Wrap::kNone && config_.before > 0,
          "[reformer] is strictly causal only with wrap=none and before ≥ 1, which are {} and {}; "
          "or need strict=false, which lets later tokens move the chunks",
          config_.wrap, config_.before);
}

std::span<const float> ReformerAttention::saved_buckets(std::span<const float> saved,
                                                        const AttentionShape& s) {
  return saved.subspan(s.batch * s.heads * s.n);
}

ReformerAttention::Factor ReformerAttention::factor(std::span<const float> q) const {
  constexpr double kTiny = 1e-12;
  constexpr double kTraxEpsilon = 1e-6;
  const auto d = static_cast<double>(q.size());
  double even = 0.0;  // one sum alone would wait for itself
  double odd = 0.0;
  for (std::size_t c = 0; c + 1 < q.size(); c += 2) {
    even += double{q[c]} * q[c];
    odd += double{q[c + 1]} * q[c + 1];
  }
  if (q.size() % 2 != 0) even += double{q.back()} * q.back();
  const double square = even + odd;
  const bool paper = config_.scaling == ReformerScaling::kPaper;
  const bool tiny = paper && std::sqrt(square) < kTiny;
  const double inverse =
      paper ? 1.0 / std::max(std::sqrt(square), kTiny) : 1.0 / std::sqrt(square / d + kTraxEpsilon);
  const double along = inverse * inverse / (paper ? 1.0 : d);
  return {static_cast<float>(inverse / std::sqrt(d)), tiny ? 0.0F : static_cast<float>(along)};
}

}  // namespace longspan
