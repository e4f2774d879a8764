// Attention alone, forward and backward. Views say where the numbers are, [batch, heads, n, d] with
// any strides; memory is booked from the cost.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "longspan/attention/registry.h"
#include "longspan/base/error.h"

using namespace longspan;

constexpr std::size_t kBatch = 2, kHeads = 4, kLength = 64, kWidth = 16;

struct Tensor {
  std::vector<float> values = std::vector<float>(kBatch * kHeads * kLength * kWidth, 0.5F);
  Heads view() { return {values.data(), kBatch, kHeads, kLength, kWidth}; }
};

int main() try {
  LoneAttention attention("flash", {.d_model = kHeads * kWidth,
                                    .heads = kHeads,
                                    .kv_heads = kHeads,
                                    .d_head = kWidth,
                                    .max_length = kLength});
  attention.allocate();  // draws its parameters, where it has any

  Tensor q, k, v, y, dy, dq, dk, dv;
  AttentionInputs in{.q = q.view(), .k = k.view(), .v = v.view()};
  in.mask.causal = true;

  const AttentionCost cost = attention->cost(shape_of(in));
  Arena arena(std::max(cost.forward_scratch, cost.backward_scratch));
  std::vector<float> saved(cost.saved);      // from forward to backward; {} if none follows
  std::vector<float> signals(cost.signals);  // from backward to accumulate

  attention->forward({in, y.view(), saved, arena});
  const AttentionGradients grad{.q = dq.view(), .k = dk.view(), .v = dv.view()};
  attention->backward({in, y.view(), dy.view(), saved, grad, signals, arena});
  attention->accumulate(in, saved, signals);  // adds to the gradients of its parameters

  std::printf("%llu MACCs forward, %llu backward\n",
              static_cast<unsigned long long>(cost.forward.maccs),
              static_cast<unsigned long long>(cost.backward.maccs));
} catch (const Error& error) {  // whatever is wrong with the input: one sentence
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
