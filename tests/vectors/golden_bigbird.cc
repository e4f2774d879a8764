#include "longspan/attention/pattern/bigbird.h"
#include "longspan/testing/attention_problem.h"
#include "tests/vectors/golden_attention.h"
#include "tests/vectors/golden_sparse.h"

namespace longspan::golden {

void run_bigbird(const Case& golden, Comparison& comparison) {
  BigBirdConfig config;
  config.block = golden.config().at("block_size").get<std::size_t>();
  config.random = golden.config().at("num_random_blocks").get<std::size_t>();
  config.padded = true;
  testing::Alone<BigBirdAttention> attention(config);
  const Shape shape = golden.file().at("rand_blocks").shape;
  attention->use({.blocks = golden.integers("rand_blocks"), .rows = shape.at(1)});
  comparison.begin("bigbird");
  run_attention(golden, *attention, comparison);
  comparison.finish();
}

}  // namespace longspan::golden
