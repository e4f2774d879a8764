// What the kinds of training share: options, and the two tasks.
#pragma once

#include <cstdint>
#include <string>

#include "command.h"
#include "run_directory.h"

namespace longspan::cli {

struct TrainOptions {
  TrainOptions() { run.model.positions = "rotary"; }

  std::string task = "text";
  RunConfig run;
  std::string vocabulary = "characters";
  std::string out = "longspan-model";
  std::uint64_t steps = 2000;
  std::uint64_t epochs = 0;          // of images, instead of steps
  std::uint64_t schedule_steps = 0;  // 0: as many as steps
  std::uint64_t save_every = 500;
  std::uint64_t eval_every = 500;
  std::uint64_t align_every = 0;
  std::size_t eval_windows = 200;
  std::size_t hidden = 1024;  // of a perceptron
  std::string model = "mlp";  // for images: mlp, encoder
  bool resume = false;
  bool overwrite = false;
  bool no_bias = false;
  bool untied = false;
};

void train_text(const TrainOptions& options, const Common& common);
void train_images(const TrainOptions& options, const Common& common);

}  // namespace longspan::cli
