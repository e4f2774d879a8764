#include "longspan/tasks/events/thinning.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "longspan/tasks/events/waits.h"

namespace longspan {
namespace thinning_test {

// Waits in the time of the compensator are exponential, and types come as their intensities say,
// whether these rise or fall.
TEST(Thinning, DrawsTheProcess) {
  const std::vector<float> rising = {-3.0F, -0.5F, 5.0F, -0.3F};
  const std::vector<float> falling = {1.0F, -1.0F, -3.0F, 0.5F, 2.0F, -1.0F};
  for (const auto& [decay, scores] :
       {std::pair{Decay::kAffine, rising}, {Decay::kExponential, falling}}) {
    const Intensities process(decay, scores);
    std::vector<double> rescaled;
    double expected = 0.0;  // of the first type
    double spread = 0.0;
    double first = 0.0;
    for (RandomKey key = 0; key < 4000; ++key) {
      const auto event = draw_event(process, derive(3, key), 1e6);
      ASSERT_TRUE(event.has_value());
      rescaled.push_back(process.integral(event->wait));
      const double share = process.rate(0, event->wait) / process.total(event->wait);
      expected += share;
      spread += share * (1.0 - share);
      first += event->type == 0 ? 1.0 : 0.0;
    }
    EXPECT_GT(exponential_fit(rescaled).p, 0.01);
    EXPECT_NEAR(first, expected, 3.0 * std::sqrt(spread));
  }
}

TEST(Thinning, NothingComesBehindTheHorizon) {
  const std::vector<float> scores = {0.0F, 0.0F};
  const Intensities process(Decay::kAffine, scores);
  std::size_t came = 0;
  for (RandomKey key = 0; key < 4000; ++key) {
    const auto event = draw_event(process, key, 0.5);
    if (!event) continue;
    ++came;
    EXPECT_LT(event->wait, 0.5);
    EXPECT_EQ(event->wait, draw_event(process, key, 0.5)->wait);
  }
  const double share = -std::expm1(-0.5 * std::log(2.0));
  EXPECT_NEAR(static_cast<double>(came), 4000 * share, 3 * std::sqrt(4000 * share * (1 - share)));
  const std::vector<float> dying = {0.0F, -50.0F};
  EXPECT_FALSE(draw_event(Intensities(Decay::kAffine, dying), 1, 1e6).has_value());
}

}  // namespace thinning_test
}  // namespace longspan
