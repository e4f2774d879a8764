#include "longspan/tasks/pairs/translate.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "longspan/base/error.h"
#include "longspan/io/checksum.h"
#include "longspan/io/file.h"
#include "longspan/io/text_lines.h"
#include "longspan/tasks/classes/split_files.h"
#include "longspan/tasks/pairs/whole_sequences.h"
#include "longspan/tasks/task_options.h"
#include "longspan/tasks/utf8.h"

namespace longspan {

namespace {

// Throws Error unless a side of a pair is as many characters at most, of the vocabulary if there is
// one.
void check_side(const TextLine& line, std::string_view text, std::size_t longest,
                const std::optional<Vocabulary>& vocabulary) {
  std::size_t characters = 0;
  for (std::size_t at = 0; at < text.size(); ++characters) {
    const std::uint32_t c = next_character(text, at);
    line.require(c != kInvalidCharacter, "'{}' is not UTF-8; need UTF-8 text", printable(text));
    line.require(!vocabulary || vocabulary->has(c),
                 "the character U+{:04X}; the {} known do not include it", c,
                 vocabulary ? vocabulary->size() : 0);
  }
  line.require(characters <= longest, "'{}' has {} characters; need at most {}, or more --length",
               printable(text), characters, longest);
}

std::vector<TextPair> read_pairs(const std::filesystem::path& path, std::size_t longest,
                                 const std::optional<Vocabulary>& vocabulary) {
  std::vector<TextPair> pairs;
  read_lines(TranslateTask::kName, path, [&](const TextLine& line) {
    const std::size_t tab = line.text.find('\t');
    line.require(tab != std::string_view::npos, "no tab; need a source, a tab and a target");
    const std::string_view target = line.text.substr(tab + 1);
    line.require(target.find('\t') == std::string_view::npos, "two tabs; need one");
    line.require(tab > 0 && !target.empty(), "an empty side; need a source and a target");
    const bool titles = line.number == 1 && lower_case(line.text) == "source\ttarget";
    if (titles) return;
    pairs.push_back({std::string(line.text.substr(0, tab)), std::string(target)});
    check_side(line, pairs.back().source, longest, vocabulary);
    check_side(line, target, longest, vocabulary);
  });
  return pairs;
}

}  // namespace

TranslateTask::TranslateTask(Config config) : config_(std::move(config)) {
  check_numbers(kName, config_);
  const std::size_t needed = longest_of(config_.grammar, config_.length);
  require(!config_.source.drawn() || needed <= config_.length,
          "[translate] length {}; need at least {} for {}", config_.length, needed,
          config_.grammar);
}

TaskOptions TranslateTask::options() const { return options_of(config_); }

std::string_view TranslateTask::idle(std::string_view option) const {
  return config_.source.idle(option, {"length"});
}

TranslateTask::Texts TranslateTask::read() const {
  Texts all;
  if (!config_.source.drawn()) {
    const SplitFiles files = split_files(kName, config_.source.data);
    const auto pairs_of = [&](const std::filesystem::path& path) {
      return read_pairs(path, config_.length, vocabulary_);
    };
    std::vector<TextPair> first = pairs_of(files.training);
    if (!files.one) {
      all.training = std::move(first);
      if (files.validation) all.validation = pairs_of(*files.validation);
      if (files.test) all.test = pairs_of(*files.test);
      return all;
    }
    for (std::size_t i = 0; i < first.size(); ++i) {
      (i % 10 == 8   ? all.validation
       : i % 10 == 9 ? all.test
                     : all.training)
          .push_back(std::move(first[i]));
    }
    return all;
  }
  // What judges a model was never trained on.
  const RandomKey key = derive(config_.source.data_seed, config_.grammar.name());
  std::set<std::string> held;
  std::uint64_t index = 0;
  const auto next = [&] { return draw_pair(config_.grammar, key, index++, config_.length); };
  for (std::vector<TextPair>* set : {&all.test, &all.validation}) {
    while (set->size() < config_.source.held_out) {
      set->push_back(next());
      held.insert(set->back().source);
    }
  }
  constexpr std::size_t kMostRepeats = 1'000'000;
  for (std::size_t repeats = 0; all.training.size() < config_.source.examples;) {
    TextPair pair = next();
    if (held.contains(pair.source)) {
      require(++repeats < kMostRepeats,
              "[translate] nearly all pairs are held out; need fewer, or a larger --length");
      continue;
    }
    all.training.push_back(std::move(pair));
  }
  return all;
}

void TranslateTask::open() {
  const Texts texts = read();
  require(!texts.training.empty(), "[translate] {} has no pairs to train on; need at least one",
          config_.source.data);
  if (!vocabulary_) {
    std::string all;
    for (const std::vector<TextPair>* set : {&texts.training, &texts.validation, &texts.test}) {
      for (const TextPair& p : *set) all += p.source + p.target;
    }
    vocabulary_ =
        Vocabulary::characters_of(config_.source.drawn() ? kName : config_.source.data, all);
  }
  const auto encoded = [&](const std::vector<TextPair>& from, std::vector<Pair>& to) {
    to.clear();
    for (const TextPair& p : from) {
      to.push_back(
          {vocabulary_->encode("a source", p.source), vocabulary_->encode("a target", p.target)});
    }
  };
  encoded(texts.training, training_);
  encoded(texts.validation, validation_);
  encoded(texts.test, test_);
}

std::string TranslateTask::checksum() const {
  if (config_.source.drawn()) return "";
  const Texts texts = read();
  Checksum checksum;
  for (const std::vector<TextPair>* set : {&texts.training, &texts.validation, &texts.test}) {
    for (const TextPair& p : *set) {
      const std::string line = p.source + '\t' + p.target + '\n';
      checksum.add(std::as_bytes(std::span(line)));
    }
  }
  return checksum.hex();
}

std::string TranslateTask::describe() const {
  return fmt::format(
      "pairs of texts, {} different characters, {} to train, {} to validate, {} to test",
      vocabulary_->size(), training_.size(), validation_.size(), test_.size());
}

ModelNeeds TranslateTask::needs() const {
  return {.family = Family::kEncoderDecoder,
          .vocabulary = vocabulary_->size() + added_tokens(),
          .length = config_.length + 1,
          .source_length = config_.length};
}

const std::vector<TranslateTask::Pair>& TranslateTask::set(Split split) const {
  return split == Split::kTraining ? training_ : split == Split::kValidation ? validation_ : test_;
}

std::size_t TranslateTask::examples(Split split) const {
  return split == Split::kAll ? 0 : set(split).size();
}

Split TranslateTask::held_out() const {
  return validation_.empty() ? Split::kTest : Split::kValidation;
}

Batch TranslateTask::fill(std::span<const Pair* const> pairs, BatchMemory& memory) const {
  std::size_t source = 1;
  std::size_t target = 1;
  for (const Pair* p : pairs) {
    source = std::max(source, p->source.size());
    target = std::max(target, p->target.size() + 1);
  }
  memory.source.assign(pairs.size() * source, 0);
  memory.source_lengths.resize(pairs.size());
  memory.tokens.assign(pairs.size() * target, boundary());
  memory.targets.assign(pairs.size() * target, kIgnoredTarget);
  for (std::size_t row = 0; row < pairs.size(); ++row) {
    const Pair& p = *pairs[row];
    std::ranges::copy(p.source, memory.source.begin() + static_cast<std::ptrdiff_t>(row * source));
    memory.source_lengths[row] = static_cast<std::int32_t>(p.source.size());
    const auto at = static_cast<std::ptrdiff_t>(row * target);
    std::ranges::copy(p.target, memory.tokens.begin() + at + 1);
    std::ranges::copy(p.target, memory.targets.begin() + at);
    memory.targets[row * target + p.target.size()] = boundary();
  }
  return {.batch = pairs.size(),
          .length = target,
          .tokens = memory.tokens,
          .targets = memory.targets,
          .source_length = source,
          .source = memory.source,
          .source_lengths = memory.source_lengths};
}

Batch TranslateTask::training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                                    BatchMemory& memory) {
  std::vector<const Pair*> pairs;
  const auto length = [&](std::size_t i) {
    return training_[i].source.size() + training_[i].target.size();
  };
  for (const std::uint32_t i :
       bucketed_.batch(derive(seed, kName), step, rows, training_.size(), length)) {
    pairs.push_back(&training_[i]);
  }
  return fill(pairs, memory);
}

Batch TranslateTask::batch(Split split, const Examples& which, BatchMemory& memory) {
  std::vector<const Pair*> pairs;
  for (std::size_t i = 0; i < which.count; ++i) {
    pairs.push_back(&set(split)[which.first + i * which.stride]);
  }
  return fill(pairs, memory);
}

void TranslateTask::add(const Batch& batch, ConstMatrix scores, Tally& tally) const {
  add_perfect(batch, scores, tally);
}

Judgement TranslateTask::judge(Split split, const Tally& tally) const {
  return judge_sequences(split, tally);
}

std::vector<std::int32_t> TranslateTask::encode(std::string_view prompt) const {
  std::vector<std::int32_t> tokens = vocabulary_->encode("the prompt", prompt);
  require(tokens.size() <= config_.length, "[translate] {} characters; the model reads at most {}",
          tokens.size(), config_.length);
  return tokens;
}

std::string TranslateTask::decode(std::span<const std::int32_t> tokens) const {
  return vocabulary_->decode(tokens);
}

}  // namespace longspan
