#include "longspan/testing/bits.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "longspan/base/parallel.h"
#include "longspan/testing/check_layer.h"

namespace longspan::testing {

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

Model random_model(const ModelConfig& config) {
  Model model(config);
  model.allocate(1);
  randomize(model.parameters(), 5);
  return model;
}

std::vector<float> train_bits(const ModelConfig& config, const Batch& batch, int threads) {
  const int usual = thread_count();
  set_thread_count(threads);
  Model model = random_model(config);
  std::vector<float> bits;
  for (RandomKey key = 0; key < 2; ++key) {
    const LossSum loss = model.forward(batch, key, 0.1F);
    model.backward(batch, 0.1F);
    bits.push_back(static_cast<float>(loss.loss));
  }
  bits.insert(bits.end(), model.parameters().gradients().begin(),
              model.parameters().gradients().end());
  set_thread_count(usual);
  return bits;
}

}  // namespace longspan::testing
