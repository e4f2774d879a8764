#include "longspan/tasks/classes/listops.h"

#include <string>
#include <unordered_set>

#include "longspan/io/file.h"
#include "longspan/io/text_lines.h"
#include "longspan/tasks/classes/listops_expression.h"
#include "longspan/tasks/classes/split_files.h"
#include "longspan/tasks/task_options.h"

namespace longspan {

namespace {

using Tokens = std::vector<std::uint8_t>;

std::optional<std::int32_t> label_of(std::string_view text) {
  const bool digit = text.size() == 1 && text[0] >= '0' && text[0] <= '9';
  return digit ? std::optional(text[0] - '0') : std::nullopt;
}

void read_expression(const TextLine& line, std::string_view text, std::size_t longest,
                     Tokens& tokens) {
  tokens.clear();
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty() || word == "(" || word == ")") continue;
    const auto token = listops_token(word);
    line.require(token.has_value(), "unknown token '{}'; need digits, [MIN, [MAX, [MED, [SM and ]",
                 printable(word));
    tokens.push_back(*token);
  }
  line.require(tokens.size() <= longest, "{} tokens; need at most {}, or more --length",
               tokens.size(), longest);
}

template <class Add>
void read_expressions(const std::filesystem::path& path, std::size_t longest, const Add& add) {
  Tokens tokens;
  read_lines(ListOpsTask::kName, path, [&](const TextLine& line) {
    const std::size_t tab = line.text.find('\t');
    line.require(tab != std::string_view::npos, "no tab; need an expression, a tab and its value");
    std::string_view label = line.text.substr(tab + 1);
    std::string_view expression = line.text.substr(0, tab);
    if (line.number == 1 && expression == "Source" && label == "Target") return;
    if (!label_of(label)) std::swap(label, expression);
    line.require(label_of(label).has_value(), "neither '{}' nor '{}' is a value; need 0 to 9",
                 printable(label), printable(expression));
    read_expression(line, expression, longest, tokens);
    std::int32_t value = 0;
    try {
      value = listops_value(tokens);
    } catch (const Error& e) {
      line.fail(e.what());
    }
    line.require(value == *label_of(label), "the value is {}, not {}", value, *label_of(label));
    add(tokens, value);
  });
}

}  // namespace

ListOpsTask::ListOpsTask(Config config) : config_(std::move(config)) {
  check_numbers(kName, config_);
  require(!config_.source.drawn() || config_.above + 1 < config_.length,
          "[listops] lengths above {} and below {}; need room between them", config_.above,
          config_.length);
}

TaskOptions ListOpsTask::options() const { return options_of(config_); }

std::string_view ListOpsTask::idle(std::string_view option) const {
  return config_.source.idle(option, {"length"});
}

std::string ListOpsTask::describe() const { return "nested lists of " + describe_splits(); }

std::size_t ListOpsTask::vocabulary_size() const { return kListOpsTokens; }

LabelledSplits ListOpsTask::read() const {
  LabelledSplits all;
  if (config_.source.drawn()) {
    const ListOpsRules rules{config_.depth, config_.arguments, config_.above, config_.length};
    const RandomKey key = derive(config_.source.data_seed, kName);
    // No expression twice, neither in a split nor in two; of long ones none ever comes twice.
    constexpr std::size_t kNeverTwice = 64;
    constexpr std::size_t kMostRepeats = 100'000;
    std::unordered_set<std::string> seen;
    std::uint64_t index = 0;
    const auto draw = [&](std::size_t count, Labelled& to) {
      for (std::size_t repeats = 0; to.size() < count;) {
        const Tokens tokens = draw_listops(derive(key, index++), rules);
        if (tokens.size() < kNeverTwice && !seen.emplace(tokens.begin(), tokens.end()).second) {
          require(++repeats < kMostRepeats,
                  "[listops] there are hardly more than {} expressions of fewer than {} tokens; "
                  "need longer ones, or fewer",
                  seen.size(), config_.length);
          continue;
        }
        repeats = 0;
        to.add(tokens, listops_value(tokens));
      }
    };
    draw(config_.source.held_out, all.test);
    draw(config_.source.held_out, all.validation);
    draw(config_.source.examples, all.training);
    return all;
  }
  const SplitFiles files = split_files(kName, config_.source.data);
  const auto into = [&](Labelled& to) {
    return [&to](const Tokens& tokens, std::int32_t value) { to.add(tokens, value); };
  };
  if (files.one) {
    read_expressions(files.training, config_.length, [&](const Tokens& tokens, std::int32_t value) {
      all.next().add(tokens, value);
    });
    return all;
  }
  read_expressions(files.training, config_.length, into(all.training));
  if (files.validation) read_expressions(*files.validation, config_.length, into(all.validation));
  if (files.test) read_expressions(*files.test, config_.length, into(all.test));
  return all;
}

}  // namespace longspan
