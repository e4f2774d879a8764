#include "longspan/tasks/pairs/retrieval.h"

#include "longspan/base/error.h"
#include "longspan/tasks/classes/split_files.h"
#include "longspan/tasks/pairs/paired_texts.h"
#include "longspan/tasks/task_options.h"

namespace longspan {

namespace {

void add_pair(const std::string& first, const std::string& second, std::int32_t label,
              Labelled& to) {
  const auto bytes = [](const std::string& text) {
    return std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());  // NOLINT
  };
  to.add(bytes(first), bytes(second), label);
}

}  // namespace

RetrievalTask::RetrievalTask(Config config) : config_(std::move(config)) {
  check_numbers(kName, config_);
  require(!config_.source.drawn() || config_.length >= kShortestTopic,
          "[retrieval] documents of {} bytes; need at least {}", config_.length, kShortestTopic);
}

TaskOptions RetrievalTask::options() const { return options_of(config_); }

std::string_view RetrievalTask::idle(std::string_view option) const {
  return config_.source.idle(option, {"length"});
}

std::string RetrievalTask::describe() const { return "pairs of documents, " + describe_splits(); }

LabelledSplits RetrievalTask::draw() const {
  const TopicRules rules{config_.length, config_.topics, config_.planted};
  const RandomKey key = derive(config_.source.data_seed, kName);
  LabelledSplits all(parts());
  std::uint64_t index = 0;
  const auto draw = [&](std::size_t count, Labelled& to) {
    while (to.size() < count) {
      const TopicPair pair = draw_topics(key, index++, rules);
      add_pair(pair.first, pair.second, pair.related, to);
    }
  };
  draw(config_.source.held_out, all.test);
  draw(config_.source.held_out, all.validation);
  draw(config_.source.examples, all.training);
  return all;
}

LabelledSplits RetrievalTask::read() const {
  if (config_.source.drawn()) return draw();
  LabelledSplits all(parts());
  const auto read = [&](const std::filesystem::path& path, std::optional<Split> split) {
    read_paired_texts(kName, path, config_.length, [&](const PairedText& pair) {
      add_pair(pair.first, pair.second, pair.label, all.next(pair.split ? pair.split : split));
    });
  };
  const SplitFiles files = split_files(kName, config_.source.data);
  read(files.training, files.one ? std::nullopt : std::optional(Split::kTraining));
  if (files.validation) read(*files.validation, Split::kValidation);
  if (files.test) read(*files.test, Split::kTest);
  return all;
}

}  // namespace longspan
