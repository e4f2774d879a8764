// A model that was trained elsewhere: the directory of a Hugging Face checkpoint, config.json and
// model.safetensors.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "longspan/models/pretrained.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  longspan::Model model = longspan::load_pretrained(argv[1]);  // a second argument: attention
  const std::vector<std::int32_t> tokens = {1, 2, 3};
  const longspan::ConstMatrix logits = model.logits({.batch = 1, .length = 3, .tokens = tokens});
  std::printf("%zu weights, %zu x %zu logits\n", model.parameters().count(), logits.rows,
              logits.cols);
}
