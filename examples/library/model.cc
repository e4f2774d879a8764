// A model: counted before there is memory for it, then trained.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "longspan/base/meter.h"
#include "longspan/learning/trainer.h"

using namespace longspan;

int main() {
  ModelConfig config;  // plain values with defaults
  config.layers = 2;
  config.d_model = 64;
  config.attention = "flash";
  Model model(config);

  const std::vector<std::int32_t> tokens(2 * 64, 7);
  const Batch batch{.batch = 2, .length = 64, .tokens = tokens, .targets = tokens};
  const CostTable cost = model.cost(batch, /*training=*/true);  // needs no memory
  std::printf("%zu weights, %zu bytes of activations\n", model.parameters().count(),
              model.training_bytes(batch));

  model.allocate(/*seed=*/1);  // from here on it has weights
  Trainer trainer(model, {});
  for (int step = 0; step < 3; ++step) {  // allocates nothing after the first
    std::printf("loss %.3f\n", trainer.step({&batch, 1}).loss);
  }

  Meter meter;  // counts what runs
  {
    const Meter::Use use(meter);
    model.forward(batch, /*key=*/0, /*scale=*/1.0F);
    model.backward(batch, /*scale=*/1.0F);
  }
  const bool equal = meter.at("mha", Phase::kForward).maccs == cost.at("mha").forward.maccs;
  return equal ? 0 : 1;
}
