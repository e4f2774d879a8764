// Steps large enough that every kernel divides its work among threads.
#include <gtest/gtest.h>

#include "longspan/attention/registry.h"
#include "longspan/testing/bits.h"
#include "longspan/testing/reference_cases.h"

namespace longspan::testing {
namespace threads_test {

TEST(Threads, DoNotChangeTheBitsOfALargerStep) {
  for (const Mechanism& mechanism : mechanisms()) {
    const Abilities can = abilities_of(mechanism.name);
    for (const Wiring wiring : {Wiring::kPostNorm, Wiring::kPreNorm, Wiring::kReversible}) {
      ModelConfig config;
      config.attention = std::string(mechanism.name);
      config.family = can.causal ? Family::kDecoder : Family::kEncoder;
      config.heads = 4;
      config.kv_heads = can.grouped_heads ? 2 : 0;
      config.wiring = wiring;
      config.layers = 1;
      config.d_model = 96;
      config.vocab = 257;
      config.max_length = 150;
      config.dropout = can.dropout ? 0.1F : 0.0F;
      const BatchData data(config, {.batch = 3, .length = 149}, 23);
      const std::vector<float> one = train_bits(config, data.view(), 1);
      EXPECT_TRUE(same_bits(one, train_bits(config, data.view(), 2)))
          << mechanism.name << ' ' << config.wiring;
    }
  }
}

}  // namespace threads_test
}  // namespace longspan::testing
