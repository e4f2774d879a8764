// Pairs of a small language and its translation, drawn: what a model of two sequences can learn in
// minutes and be right or wrong about.
//
//   reverse   a word, and it backwards                      "qebd" → "dbeq"
//   sort      a word, and its letters in order              "qebd" → "bdeq"
//   dates     a date as people write it, and as ISO 8601    "3 March 1987" → "1987-03-03"
#pragma once

#include <cstdint>
#include <string>

#include "longspan/base/choice.h"
#include "longspan/base/random.h"

namespace longspan {

enum class Grammar : std::uint8_t { kReverse, kSort, kDates };
constexpr Names<3> names_of(Grammar /*kind*/) {
  return {"translate", "grammar", {"reverse", "sort", "dates"}};
}

struct TextPair {
  std::string source;
  std::string target;
};

// Pair number `index` of the stream `key`; words have 1 to `length` letters.
TextPair draw_pair(Grammar grammar, RandomKey key, std::uint64_t index, std::size_t length);

// Characters of the longest side.
std::size_t longest_of(Grammar grammar, std::size_t length);

}  // namespace longspan
