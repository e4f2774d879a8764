// A run: what `longspan train` and `longspan eval` do, without the printing.
#include <cstdio>

#include "longspan/training/training_run.h"

using namespace longspan;

int main() {
  TrainingOptions options;
  options.run.data.task = "copy";
  options.run.options = {{"length", "16"}, {"symbols", "7"}};
  options.run.model.layers = 1;
  options.run.model.d_model = 16;
  options.run.model.heads = 2;
  options.run.course.steps = 20;
  options.out = "copy";
  options.overwrite = true;
  TrainingRun run(options);  // refused here, before anything is written, if it cannot be
  TrainingObserver silent;   // derive from it to hear of steps and validations
  run.run(silent);

  const LoadedRun loaded = load_run("copy");
  const auto task = loaded.config.make_task();
  task->open();
  const Judgement judged =
      evaluate(*loaded.model, *task, task->held_out(), {.batch = 16, .limit = 32});
  std::printf("loss %.3f\n", judged.loss());
}
