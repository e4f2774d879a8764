// Two documents that are about one topic or about two, drawn: what a model that reads each by itself
// must find in both.
//
//   topic      eight words of three to seven letters, the same in all documents
//   document   words with a space between them: of every hundred about `planted` are the topic's, at
//              least one of all, and the others are letters at random
//   related    pair 2i is of two topics, pair 2i + 1 of one
//
// A document has from half of `length` to all of its bytes, whatever the answer.
#pragma once

#include <cstdint>
#include <string>

#include "longspan/base/random.h"

namespace longspan {

struct TopicRules {
  std::size_t length = 256;  // at least kShortestTopic
  std::size_t topics = 8;    // at least 2
  std::size_t planted = 30;
};
inline constexpr std::size_t kShortestTopic = 16;

struct TopicPair {
  std::string first;
  std::string second;
  std::int32_t related = 0;
};

// Word `word` of a topic, 0 to 7.
std::string topic_word(RandomKey key, std::uint64_t topic, std::uint64_t word);
// Pair number `index` of the stream `key`, which draws the topics too.
TopicPair draw_topics(RandomKey key, std::uint64_t index, const TopicRules& rules);

}  // namespace longspan
