#include "tests/vectors/golden_clustered.h"

#include <algorithm>
#include <cstring>

#include "longspan/attention/cluster/clustered.h"
#include "longspan/attention/cluster/improved_clustered.h"
#include "longspan/base/error.h"
#include "longspan/kernels/hash/hash.h"
#include "longspan/testing/attention_problem.h"
#include "tests/vectors/golden_attention.h"

namespace longspan::golden {

namespace {

void check_hashes(const Case& golden, const AttentionCase& c) {
  const Shape shape = golden.file().at("planes").shape;
  const std::vector<float> planes = golden.file().floats("planes");
  const std::vector<std::int64_t> want = golden.file().integers("hashes");
  const ConstHeads q = c.in.q;
  std::vector<float> scratch(sign_scratch(q.d, shape[0]));
  std::vector<std::uint64_t> codes(q.n);
  for (std::size_t plane = 0; plane < q.batch * q.heads; ++plane) {
    sign_bits(q.head(plane / q.heads, plane % q.heads),
              ConstMatrix(planes.data(), shape[0], shape[1]), codes.data(), scratch.data());
    const std::size_t real = c.in.mask.keys(plane / q.heads, q.n);
    for (std::size_t i = 0; i < real; ++i) {
      require(codes[i] == static_cast<std::uint64_t>(want[plane * q.n + i]),
              "[golden] query {} has hash {:x}; the reference has {:x}", i, codes[i],
              want[plane * q.n + i]);
    }
  }
}

// Our keys must be the reference's, where it stores them.
void check_keys(const Case& golden, std::span<const float> kept) {
  const std::vector<std::int32_t> want = golden.integers("topk");
  require(want.size() == kept.size(), "[golden] {} chosen keys; ours are {}", want.size(),
          kept.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    std::int32_t key = 0;
    std::memcpy(&key, &kept[i], sizeof key);
    require(key == want[i], "[golden] chosen key {} is {}; the reference has {}", i, key, want[i]);
  }
}

// Forward with the reference's clusters and backward; the gradients are called prefix + "q", … .
template <class Kind>
std::vector<float> run(const Case& golden, testing::Alone<Kind>& alone, const std::string& prefix,
                       Comparison& comparison) {
  alone.parameters().allocate();
  const Kind& attention = *alone;
  AttentionCase c(golden);
  check_hashes(golden, c);
  const AttentionCost cost = attention.cost(shape_of(c.in));
  Arena arena(std::max(cost.forward_scratch, cost.backward_scratch));
  std::vector<float> saved(cost.saved);
  std::vector<float> out(c.upstream.size());
  const Heads y = heads_of(out, c.shape_out);
  attention.forward_assigned(c.in, golden.integers("assign"), y, saved, arena);
  comparison.output("out64", out);
  std::vector<float> dq(c.q.size());
  std::vector<float> dk(c.k.size());
  std::vector<float> dv(c.v.size());
  attention.backward(
      {c.in,
       y,
       heads_of(c.upstream, c.shape_out),
       saved,
       {.q = heads_of(dq, c.shape_q), .k = heads_of(dk, c.shape_k), .v = heads_of(dv, c.shape_v)},
       {},
       arena});
  comparison.gradient(prefix + "q", dq);
  comparison.gradient(prefix + "k", dk);
  comparison.gradient(prefix + "v", dv);
  return saved;
}

}  // namespace

void run_clustered(const Case& golden, Comparison& comparison) {
  ClusteredConfig config;
  config.clusters = golden.config().at("clusters").get<std::size_t>();
  config.bits = golden.config().at("bits").get<std::size_t>();
  comparison.begin("clustered");
  testing::Alone<ClusteredAttention> attention(config);
  run(golden, attention, "grad.", comparison);
  comparison.finish();
}

void run_improved_clustered(const Case& golden, Comparison& comparison) {
  ImprovedClusteredConfig config;
  config.clusters = golden.config().at("clusters").get<std::size_t>();
  config.bits = golden.config().at("bits").get<std::size_t>();
  config.topk = golden.config().at("topk").get<std::size_t>();
  comparison.begin("improved-clustered");
  config.gradient = "constant-mass";
  testing::Alone<ImprovedClusteredAttention> attention(config);
  const std::vector<float> saved = run(golden, attention, "grad.", comparison);
  check_keys(golden, attention->saved_keys(saved, shape_of(AttentionCase(golden).in)));
  comparison.finish();
  config.gradient = "exact";
  testing::Alone<ImprovedClusteredAttention> exact(config);
  run(golden, exact, "grad_full.", comparison);
}

}  // namespace longspan::golden
