#include "compare_source.h"

#include <algorithm>

#include "longspan/base/error.h"
#include "longspan/base/random.h"
#include "longspan/io/checkpoint.h"
#include "longspan/models/pretrained.h"
#include "longspan/training/run_directory.h"

namespace longspan::cli {

namespace {

// Tokens of training, one example after the other until there are `length` of them.
std::vector<std::int32_t> task_tokens(const std::filesystem::path& directory, RunConfig config,
                                      std::size_t length) {
  config.find_data();
  const std::unique_ptr<Task> task = config.make_task();
  task->open();
  std::vector<std::int32_t> tokens;
  BatchMemory memory;
  for (std::uint64_t step = 0; tokens.size() < length; ++step) {
    const Batch batch = task->training_batch(config.train.seed, step, 1, memory);
    require(!batch.tokens.empty(),
            "[compare] --from {}: its task {} gives no tokens; need a model that reads them",
            directory.string(), task->name());
    require(batch.source.empty(),
            "[compare] --from {}: its task {} has two sequences; need a model of one",
            directory.string(), task->name());
    const std::size_t real =
        batch.lengths.empty() ? batch.length : static_cast<std::size_t>(batch.lengths[0]);
    const std::size_t wanted = std::min(real, length - tokens.size());
    tokens.insert(tokens.end(), batch.tokens.begin(),
                  batch.tokens.begin() + static_cast<std::ptrdiff_t>(wanted));
  }
  return tokens;
}

bool is_pretrained(const nlohmann::json& config) { return config.contains("model_type"); }

}  // namespace

void check_source(const std::filesystem::path& directory) {
  const nlohmann::json config = read_config(directory);
  if (is_pretrained(config)) return;
  task_tokens(directory, run_config_from(config, directory), 1);
}

Source open_source(const std::filesystem::path& directory, std::size_t length) {
  Source source;
  const auto check_length = [&] {
    const std::size_t most = source.model->config().max_length;
    require(length <= most, "[compare] {}: takes at most {} tokens", directory.string(), most);
  };
  if (!is_pretrained(read_config(directory))) {
    LoadedRun run = load_run(directory);
    source.model = std::move(run.model);
    check_length();
    source.tokens = task_tokens(directory, run.config, length);
    return source;
  }
  source.model = std::make_unique<Model>(load_pretrained(directory));
  check_length();
  for (std::size_t i = 0; i < length; ++i) {
    source.tokens.push_back(
        static_cast<std::int32_t>(random_below(1, i, source.model->config().vocab)));
  }
  return source;
}

}  // namespace longspan::cli
