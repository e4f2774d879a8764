#include "longspan/training/evaluate.h"

#include <algorithm>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/training/packing.h"

namespace longspan {

namespace {

void check_history(Model& model) {
  require(model.config().family == Family::kDecoder,
          "[eval] --memory with the model {}, which reads no segments; need decoder",
          model.config().family);
  for (std::size_t i = 0; i < model.config().layers; ++i) {
    const std::string mixer = turn_of(model.config().attention, i);
    require(model.mixer(i).remembers(),
            "[eval] --memory with {}, which remembers nothing; need transformer-xl",
            mixer.substr(0, mixer.find(':')));
  }
  require(model.config().positions == PositionKind::kNone,
          "[eval] --memory with {} positions, which begin anew in every segment; need none",
          model.config().positions);
}

void add(Model& model, const Task& task, const Batch& batch, std::span<History> histories,
         const EvaluateOptions& options, Packing& packing, Tally& tally) {
  const Batch read = histories.empty() ? packing.pack(model, batch) : batch;
  const ConstMatrix given = model.logits(read, histories);
  const LossSum sum = model.loss_of(given, read);
  const ConstMatrix scores = packing.unpack(model, batch, given);
  if (options.sees) options.sees(batch, scores, tally.sequences);
  tally.loss += sum.loss;
  tally.counted += sum.counted;
  tally.correct += sum.correct;
  tally.sequences += batch.batch / model.config().sequences_each();
  task.add(batch, scores, tally);
}

void go_on(const EvaluateOptions& options) {
  if (options.stops && options.stops()) throw EvaluationStopped();
}

// Where longer sequences judge a model than it learns from, fewer at a time take no more memory.
std::size_t rows_at_a_time(const Task& task, std::size_t batch) {
  const ModelNeeds needs = task.needs();
  if (needs.judged_length <= needs.length) return batch;
  return std::max<std::size_t>(1, batch * needs.length / needs.judged_length);
}

Tally by_batches(Model& model, Task& task, Split split, std::size_t count,
                 const EvaluateOptions& options) {
  const std::size_t rows = rows_at_a_time(task, options.batch);
  BatchMemory memory;
  Packing packing;
  Tally tally;
  for (std::size_t first = 0; first < count; first += rows) {
    go_on(options);
    const Examples which{.first = first, .count = std::min(rows, count - first)};
    add(model, task, task.batch(split, which, memory), {}, options, packing, tally);
  }
  return tally;
}

Tally by_streams(Model& model, Task& task, Split split, std::size_t count,
                 const EvaluateOptions& options) {
  const std::size_t streams = std::min(options.batch, count);
  const std::size_t steps = count / streams;
  std::vector<History> histories = model.make_histories(streams, options.history);
  BatchMemory memory;
  Packing packing;
  Tally tally;
  for (std::size_t step = 0; step < steps; ++step) {
    go_on(options);
    const Examples which{.first = step, .count = streams, .stride = steps};
    add(model, task, task.batch(split, which, memory), histories, options, packing, tally);
    for (History& h : histories) h.advance();
  }
  return tally;
}

// "training, validation or all"
std::string splits_text(const Task& task) {
  std::string text;
  for (const Split split : {Split::kAll, Split::kTest, Split::kValidation, Split::kTraining}) {
    if (task.examples(split) == 0) continue;
    const std::string_view between = text.empty()                          ? ""
                                     : text.find(' ') == std::string::npos ? " or "
                                                                           : ", ";
    text = fmt::format("{}{}{}", name_of(split), between, text);
  }
  return text;
}

}  // namespace

Judgement evaluate(Model& model, Task& task, Split split, const EvaluateOptions& options) {
  require(options.batch > 0, "[eval] batches of 0 sequences; need at least 1");
  if (options.history > 0) check_history(model);
  std::size_t count = task.examples(split);
  if (count == 0) {
    throw Error(fmt::format("[eval] {} has no split {}; need {}", task.name(), name_of(split),
                            splits_text(task)));
  }
  if (options.limit > 0) count = std::min(count, options.limit);
  if (options.history == 0) task.arrange(split, count);
  const Tally tally = options.history > 0 ? by_streams(model, task, split, count, options)
                                          : by_batches(model, task, split, count, options);
  return task.judge(split, tally);
}

}  // namespace longspan
