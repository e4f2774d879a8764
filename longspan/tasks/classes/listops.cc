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

// Puts the tokens of an expression behind the others; what is no token, or nothing.
std::string_view add_expression(std::string_view text, Tokens& tokens) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty() || word == "(" || word == ")") continue;
    const auto token = listops_token(word);
    if (!token) return word;
    tokens.push_back(*token);
  }
  return {};
}

bool parse_expression(std::string_view text, Tokens& tokens) {
  return add_expression(text, tokens).empty();
}

std::int32_t checked_value(const TextLine& line, const Tokens& tokens) {
  try {
    return listops_value(tokens);
  } catch (const Error& e) {
    line.fail(e.what());
  }
}

template <class Add>
void read_expressions(const std::filesystem::path& path, std::size_t longest, ExampleFiles& files,
                      const Add& add) {
  const std::uint32_t file = files.add(path, &parse_expression);
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
    tokens.clear();
    const std::string_view unknown = add_expression(expression, tokens);
    line.require(unknown.empty(), "unknown token '{}'; need digits, [MIN, [MAX, [MED, [SM and ]",
                 printable(unknown));
    line.require(tokens.size() <= longest, "{} tokens; need at most {}, or more --length",
                 tokens.size(), longest);
    const std::int32_t value = checked_value(line, tokens);
    line.require(value == *label_of(label), "the value is {}, not {}", value, *label_of(label));
    const auto begin = static_cast<std::uint64_t>(expression.data() - line.text.data());
    const FilePlace place{line.offset + begin, static_cast<std::uint32_t>(expression.size()), file};
    add(place, tokens.size(), value);
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

LabelledSplits ListOpsTask::draw() const {
  LabelledSplits all;
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

LabelledSplits ListOpsTask::read() const {
  if (config_.source.drawn()) return draw();
  const SplitFiles files = split_files(kName, config_.source.data);
  const auto held = std::make_shared<ExampleFiles>(kName);
  LabelledSplits all(held);
  if (files.one) {
    read_expressions(files.training, config_.length, *held,
                     [&](const FilePlace& place, std::size_t length, std::int32_t value) {
                       all.next().add(place, length, value);
                     });
    return all;
  }
  const auto read_into = [&](const std::filesystem::path& path, Labelled& to) {
    read_expressions(path, config_.length, *held,
                     [&](const FilePlace& place, std::size_t length, std::int32_t value) {
                       to.add(place, length, value);
                     });
  };
  read_into(files.training, all.training);
  if (files.validation) read_into(*files.validation, all.validation);
  if (files.test) read_into(*files.test, all.test);
  return all;
}

}  // namespace longspan
