#include "longspan/tasks/pairs/topics.h"

#include <algorithm>

namespace longspan {

namespace {

constexpr std::uint64_t kTopicWords = 8;
constexpr std::size_t kShortestTopicWord = 3;
constexpr std::size_t kLongestTopicWord = 7;

std::string random_word(RandomKey key) {
  std::string word(
      kShortestTopicWord + random_below(key, 0, kLongestTopicWord - kShortestTopicWord + 1), ' ');
  for (std::size_t i = 0; i < word.size(); ++i) {
    word[i] = static_cast<char>('a' + random_below(key, 1 + i, 26));
  }
  return word;
}

std::string document(RandomKey topics, RandomKey key, std::uint64_t topic,
                     const TopicRules& rules) {
  const std::size_t half = rules.length / 2;
  const std::size_t most = half + random_below(key, 0, rules.length - half + 1);
  // One of the words that fit however long they are.
  const std::size_t fit = std::max<std::size_t>(1, (most + 1) / (kLongestTopicWord + 1));
  const std::uint64_t certain = random_below(key, 1, fit);
  std::string text;
  for (std::uint64_t i = 0;; ++i) {
    const RandomKey own = derive(key, i);
    const bool planted = i == certain || random_below(own, 100, 100) < rules.planted;
    const std::string word =
        planted ? topic_word(topics, topic, random_below(own, 101, kTopicWords)) : random_word(own);
    const std::size_t space = text.empty() ? 0 : 1;
    if (text.size() + space + word.size() > most) return text;
    text.append(space, ' ');
    text += word;
  }
}

}  // namespace

std::string topic_word(RandomKey key, std::uint64_t topic, std::uint64_t word) {
  return random_word(derive(derive(derive(key, "topics"), topic), word));
}

TopicPair draw_topics(RandomKey key, std::uint64_t index, const TopicRules& rules) {
  const RandomKey own = derive(derive(key, "pairs"), index);
  const bool related = index % 2 == 1;
  const std::uint64_t first = random_below(own, 0, rules.topics);
  const std::uint64_t apart = 1 + random_below(own, 1, rules.topics - 1);
  const std::uint64_t second = related ? first : (first + apart) % rules.topics;
  return {document(key, derive(own, "first"), first, rules),
          document(key, derive(own, "second"), second, rules), related ? 1 : 0};
}

}  // namespace longspan
