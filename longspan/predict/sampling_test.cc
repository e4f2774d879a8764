#include "longspan/predict/sampling.h"

#include <gtest/gtest.h>

#include <chrono>

#include "longspan/base/error.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace sampling_test {

using Wall = std::chrono::steady_clock;

// Keeps its thread busy for 20 ms of the clock on the wall.
void spin() {
  const Wall::time_point end = Wall::now() + std::chrono::milliseconds(20);
  while (Wall::now() < end) {
  }
}

TEST(Sampling, JobsHaveTheirRounds) {
  std::size_t calls = 0;
  const std::vector<Job> jobs(3, [&] { ++calls; });
  const std::vector<Samples> samples = sample(jobs, {.rounds = 2, .most_rounds = 2});
  ASSERT_EQ(samples.size(), 3U);
  for (const Samples& s : samples) EXPECT_EQ(s.seconds.size(), 2U);
  EXPECT_GT(calls, 3U * 3U) << "a sample is many calls of what is short";
}

TEST(Sampling, NothingIsRepeatedBeyondItsTime) {
  std::size_t calls = 0;
  const std::vector<Job> jobs(4, [&] {
    ++calls;
    spin();
  });
  const std::vector<Samples> samples =
      sample(jobs, {.rounds = 1000, .most_rounds = 1000, .enough_seconds = 0.01});
  for (const Samples& s : samples) ASSERT_EQ(s.seconds.size(), 1U) << "the warm-up call";
  EXPECT_EQ(calls, 4U);
}

TEST(Sampling, IsGivenUpWhereTheFirstCallsTakeTooLong) {
  std::size_t calls = 0;
  const std::vector<Job> jobs(100, [&] {
    ++calls;
    spin();
  });
  try {
    sample(jobs, {.enough_seconds = 0.01, .most_seconds = 0.05});
    FAIL() << "it went on";
  } catch (const SystemError& e) {
    const std::string text = e.what();
    EXPECT_TRUE(text.starts_with("[calibrate] the machine is too busy: ")) << text;
    EXPECT_TRUE(text.ends_with(" s; need a quieter one, or fewer --threads")) << text;
  }
  EXPECT_LE(calls, 4U);
}

}  // namespace sampling_test
}  // namespace longspan
