#include "longspan/tasks/classes/listops_expression.h"

#include <algorithm>
#include <array>

#include "longspan/base/error.h"

namespace longspan {

namespace {

constexpr std::array<std::string_view, kListOpsTokens> kWords = {
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "[MIN", "[MAX", "[MED", "[SM", "]"};
constexpr std::uint8_t kFirstOperator = 10;
constexpr std::uint8_t kMin = 10, kMax = 11, kMed = 12, kClose = 14;
constexpr std::uint64_t kOperators = 4;

std::int32_t applied(std::uint8_t op, std::span<std::int32_t> values) {
  if (op == kMin) return std::ranges::min(values);
  if (op == kMax) return std::ranges::max(values);
  if (op == kMed) {
    std::ranges::sort(values);
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  }
  std::int32_t sum = 0;
  for (const std::int32_t v : values) sum = (sum + v) % 10;
  return sum;
}

// A tree in the order of its tokens, or nothing where it grows beyond what is kept.
class Drawing {
 public:
  Drawing(RandomKey key, const ListOpsRules& rules) : key_(key), rules_(rules) {}

  bool node(std::size_t depth, std::vector<std::uint8_t>& to) {
    if (to.size() >= rules_.below) return false;
    constexpr std::uint64_t kNodes = 4;  // one in so many is an operator
    if (depth >= rules_.depth || below(kNodes) != 0) {
      to.push_back(static_cast<std::uint8_t>(below(10)));
      return true;
    }
    to.push_back(static_cast<std::uint8_t>(kFirstOperator + below(kOperators)));
    const std::uint64_t count = 2 + below(rules_.arguments - 1);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (!node(depth + 1, to)) return false;
    }
    to.push_back(kClose);
    return true;
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_below(key_, drawn_++, bound); }

  RandomKey key_;
  const ListOpsRules& rules_;
  std::uint64_t drawn_ = 0;
};

}  // namespace

std::optional<std::uint8_t> listops_token(std::string_view word) {
  const auto found = std::ranges::find(kWords, word);
  if (found == kWords.end()) return std::nullopt;
  return static_cast<std::uint8_t>(found - kWords.begin());
}

std::string_view listops_word(std::uint8_t token) { return kWords.at(token); }

std::int32_t listops_value(std::span<const std::uint8_t> tokens) {
  struct Open {
    std::uint8_t op;
    std::size_t first;  // of its values
  };
  std::vector<Open> open;
  std::vector<std::int32_t> values;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    require(i == 0 || !open.empty(), "token {}: the expression has ended; need one expression",
            i + 1);
    const std::uint8_t token = tokens[i];
    if (token < kFirstOperator) {
      values.push_back(token);
    } else if (token != kClose) {
      open.push_back({token, values.size()});
    } else {
      require(!open.empty(), "token {}: ']' closes nothing", i + 1);
      const Open last = open.back();
      require(values.size() > last.first, "token {}: {} of nothing; need an argument", i + 1,
              listops_word(last.op));
      const std::int32_t value = applied(last.op, std::span(values).subspan(last.first));
      values.resize(last.first);
      values.push_back(value);
      open.pop_back();
    }
  }
  require(!values.empty(), "no tokens; need an expression");
  require(open.empty(), "{} list{} not closed; need ']'", open.size(),
          open.size() == 1 ? " is" : "s are");
  return values.front();
}

std::vector<std::uint8_t> draw_listops(RandomKey key, const ListOpsRules& rules) {
  constexpr std::uint64_t kMostTries = 1'000'000;
  std::vector<std::uint8_t> tokens;
  for (std::uint64_t i = 0; i < kMostTries; ++i) {
    tokens.clear();
    if (!Drawing(derive(key, i), rules).node(1, tokens)) continue;
    if (tokens.size() > rules.above && tokens.size() < rules.below) return tokens;
  }
  throw Error(fmt::format(
      "[listops] of {} expressions of depth {} and up to {} arguments none has more than {} and "
      "fewer than {} tokens; need other lengths",
      kMostTries, rules.depth, rules.arguments, rules.above, rules.below));
}

}  // namespace longspan
