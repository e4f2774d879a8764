#include "longspan/base/thread_kept.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace longspan {
namespace thread_kept_test {

std::atomic<int> alive = 0;

struct Counted {
  Counted() { ++alive; }
  ~Counted() { --alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  int value = 0;
};

int next_of_here() {
  static const ThreadKept<Counted> kept;
  return ++kept().value;
}
int next_of_elsewhere() {
  static const ThreadKept<Counted> kept;
  return ++kept().value;
}

TEST(ThreadKept, IsOfAThreadAndAPlaceAndGoesWithTheThread) {
  EXPECT_EQ(next_of_here(), 1);
  EXPECT_EQ(next_of_here(), 2);
  EXPECT_EQ(next_of_elsewhere(), 1);
  EXPECT_EQ(alive, 2);
  std::thread([] {
    EXPECT_EQ(next_of_here(), 1) << "another thread";
    EXPECT_EQ(alive, 3);
  }).join();
  EXPECT_EQ(alive, 2) << "it took its own along";
  EXPECT_EQ(next_of_here(), 3);
}

}  // namespace thread_kept_test
}  // namespace longspan
