#include "longspan/tasks/pairs/grammar.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace longspan {

namespace {

constexpr std::array<std::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};
constexpr std::array<std::uint64_t, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

bool is_leap(std::uint64_t year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

// "1st", "2nd", "3rd", "11th"
std::string ordinal(std::uint64_t day) {
  const bool teen = day / 10 == 1;
  const char* const end = teen || day % 10 == 0 || day % 10 > 3 ? "th"
                          : day % 10 == 1                       ? "st"
                          : day % 10 == 2                       ? "nd"
                                                                : "rd";
  return fmt::format("{}{}", day, end);
}

TextPair draw_date(RandomKey key) {
  const std::uint64_t year = 1900 + random_below(key, 0, 200);
  const std::uint64_t month = random_below(key, 1, 12);
  const std::uint64_t days = kDays[month] + (month == 1 && is_leap(year) ? 1 : 0);
  const std::uint64_t day = 1 + random_below(key, 2, days);
  const std::string_view name = kMonths[month];
  const std::string target = fmt::format("{}-{:02}-{:02}", year, month + 1, day);
  switch (random_below(key, 3, 5)) {
    case 0:
      return {fmt::format("{} {} {}", day, name, year), target};
    case 1:
      return {fmt::format("{} {}, {}", name, day, year), target};
    case 2:
      return {fmt::format("{} {} {}", day, name.substr(0, 3), year), target};
    case 3:
      return {fmt::format("the {} of {} {}", ordinal(day), name, year), target};
    default:
      return {fmt::format("{}/{}/{}", day, month + 1, year), target};
  }
}

}  // namespace

TextPair draw_pair(Grammar grammar, RandomKey key, std::uint64_t index, std::size_t length) {
  const RandomKey own = derive(key, index);
  if (grammar == Grammar::kDates) return draw_date(own);
  std::string word(1 + random_below(derive(own, "length"), 0, length), 'a');
  for (std::size_t i = 0; i < word.size(); ++i) {
    word[i] = static_cast<char>('a' + random_below(own, i, 26));
  }
  std::string target = word;
  if (grammar == Grammar::kReverse) {
    std::ranges::reverse(target);
  } else {
    std::ranges::sort(target);
  }
  return {word, target};
}

std::size_t longest_of(Grammar grammar, std::size_t length) {
  constexpr std::string_view kLongestDate = "the 30th of September 2000";
  return grammar == Grammar::kDates ? kLongestDate.size() : length;
}

}  // namespace longspan
