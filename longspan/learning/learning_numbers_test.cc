// No number of what a model learns by may be one that makes no sense.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "longspan/learning/trainer.h"

namespace longspan {
namespace learning_numbers_test {

template <class T>
std::vector<T> hostile() {
  if constexpr (std::floating_point<T>) {
    using Limits = std::numeric_limits<T>;
    return {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(), Limits::max(),
            Limits::lowest()};
  } else {
    return {std::numeric_limits<T>::max()};
  }
}

TEST(LearningNumbers, AreWithinTheirBounds) {
  const TrainConfig good;
  EXPECT_NO_THROW(check_numbers("train", good));
  TrainConfig config;
  std::size_t refused = 0;
  config.visit([&](std::string_view name, auto& field, const auto&... /*bounds*/) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (detail::kIsNumber<Field>) {
      if (name == "seed") return;  // any will do
      const Field before = field;
      for (const Field value : hostile<Field>()) {
        field = value;
        EXPECT_THROW(check_numbers("train", config), Error) << name << " " << value;
        ++refused;
      }
      field = before;
    }
  });
  EXPECT_GT(refused, 30U);
}

TEST(LearningNumbers, AreCheckedByWhatUsesThem) {
  Model model({.layers = 1, .d_model = 8, .heads = 2, .vocab = 5, .max_length = 4});
  model.allocate(1);
  const auto says = [&](const TrainConfig& config) {
    try {
      const Trainer trainer(model, config);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  TrainConfig config;
  EXPECT_EQ(says(config), "nothing");
  config.optimizer.beta1 = 1.0;
  EXPECT_EQ(says(config), "[optimizer] beta1 is 1; need a number from 0, below 1");
  config = {};
  config.clip = std::nanf("");
  EXPECT_EQ(says(config), "[train] clip is nan; need a number from 0 to 1e9");
  config = {};
  config.schedule.floor = -1.0F;
  EXPECT_EQ(says(config), "[train] learning_rate_floor is -1; need a number from 0 to 1000");
  config = {};
  config.rule = "pepita";
  config.feedback.scale = std::numeric_limits<float>::infinity();
  EXPECT_EQ(says(config), "[pepita] feedback_scale is inf; need a number from -1000 to 1000");
}

}  // namespace learning_numbers_test
}  // namespace longspan
