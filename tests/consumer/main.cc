// The smallest program that uses the installed library: exact attention of one head on 5 tokens.
#include <cstdio>
#include <vector>

#include "longspan/attention/registry.h"

int main() {
  using namespace longspan;
  const AttentionShape shape = {.m = 5, .n = 5, .d = 4, .e = 4};
  const LoneAttention attention("flash", {.d_model = 4, .d_head = 4, .max_length = 5});
  std::vector<float> q(20), k(20), v(20), y(20);
  for (std::size_t i = 0; i < 20; ++i) {
    q[i] = random_normal(1, i);
    v[i] = static_cast<float>(i % 4);  // the same for every token, so that y = v
  }
  Arena arena(attention->cost(shape).forward_scratch);
  const AttentionInputs in{.q = Heads(q.data(), 1, 1, 5, 4),
                           .k = Heads(k.data(), 1, 1, 5, 4),
                           .v = Heads(v.data(), 1, 1, 5, 4)};
  attention->forward({in, Heads(y.data(), 1, 1, 5, 4), {}, arena});
  std::printf("y = %.3f %.3f %.3f %.3f\n", y[16], y[17], y[18], y[19]);
  for (std::size_t i = 0; i < 20; ++i) {
    if (y[i] < v[i] - 1e-6F || y[i] > v[i] + 1e-6F) return 1;
  }
}
