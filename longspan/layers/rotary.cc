#include "longspan/layers/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace longspan {

namespace {

constexpr std::string_view kWhoRotates = "rotary";

std::vector<double> plain_frequencies(double base, std::size_t r) {
  std::vector<double> f(r / 2);
  for (std::size_t i = 0; i < f.size(); ++i) {
    f[i] = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(r));
  }
  return f;
}

// ρ of every frequency.
std::vector<double> yarn_ramp(const RotaryConfig& c, std::size_t r) {
  const auto width = static_cast<double>(r);
  const auto channel = [&](double turns) {
    return width * std::log(static_cast<double>(c.original) / (2.0 * std::numbers::pi * turns)) /
           (2.0 * std::log(c.base));
  };
  double low = channel(c.fast);
  double high = channel(c.slow);
  if (c.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, width - 1.0);
  if (low == high) high += 0.001;
  std::vector<double> ramp(r / 2);
  for (std::size_t i = 0; i < ramp.size(); ++i) {
    ramp[i] = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
  }
  return ramp;
}

double llama3_frequency(const RotaryConfig& c, double f) {
  const double turns = static_cast<double>(c.original) * f / (2.0 * std::numbers::pi);  // n₀/λ
  if (turns > c.high) return f;
  if (turns < c.low) return f / c.factor;
  const double t = (turns - c.low) / (c.high - c.low);
  return (1.0 - t) * f / c.factor + t * f;
}

std::vector<double> factors_of(std::string_view what, const std::string& text, std::size_t count) {
  std::vector<double> all;
  for (const std::string& part : split_list(text, ';')) {
    all.push_back(parse_number(kWhoRotates, what, part));
    require(all.back() > 0.0, "[rotary] {} has a factor of {}; need positive ones", what, part);
  }
  require(all.size() == count, "[rotary] {} has {} factors; need {}, half the channels that turn",
          what, all.size(), count);
  return all;
}

double amplitude_of(const RotaryConfig& c) {
  if (c.attention > 0.0) return c.attention;
  if (c.scaling == RotaryScaling::kYarn) return 0.1 * std::log(c.factor) + 1.0;
  if (c.scaling == RotaryScaling::kLongRope && c.factor > 1.0) {
    return std::sqrt(1.0 + std::log(c.factor) / std::log(static_cast<double>(c.original)));
  }
  return 1.0;
}

}  // namespace

RotaryConfig rotary_of(const std::string& options, RotaryConfig config) {
  if (!options.empty()) parse_options(kWhoRotates, options, config);
  const bool needs_original =
      config.scaling != RotaryScaling::kNone && config.scaling != RotaryScaling::kLinear;
  require(!needs_original || config.original > 1,
          "[rotary] scaling={} without original; need the positions it was trained for",
          config.scaling);
  require(config.scaling != RotaryScaling::kLlama3 || config.low < config.high,
          "[rotary] low={} and high={}; need low < high", config.low, config.high);
  return config;
}

RotaryAngles rotary_angles(const RotaryConfig& c, std::size_t d_head, std::size_t positions,
                           bool extended) {
  const std::size_t r = c.width == 0 ? d_head : c.width;
  require(
      r % 2 == 0 && r <= d_head,
      "[rotary] {} channels of heads that are {} wide; need an even width of at most the head's", r,
      d_head);
  double base = c.base;
  if (c.scaling == RotaryScaling::kDynamic && positions > c.original && r > 2) {
    const double ratio = static_cast<double>(positions) / static_cast<double>(c.original);
    base *= std::pow(c.factor * ratio - (c.factor - 1.0),
                     static_cast<double>(r) / static_cast<double>(r - 2));
  }
  RotaryAngles angles{plain_frequencies(base, r), amplitude_of(c)};
  std::vector<double>& f = angles.frequencies;
  if (c.scaling == RotaryScaling::kLinear) {
    for (double& x : f) x /= c.factor;
  } else if (c.scaling == RotaryScaling::kYarn) {
    const std::vector<double> ramp = yarn_ramp(c, r);
    for (std::size_t i = 0; i < f.size(); ++i) f[i] *= 1.0 - ramp[i] + ramp[i] / c.factor;
  } else if (c.scaling == RotaryScaling::kLlama3) {
    for (double& x : f) x = llama3_frequency(c, x);
  } else if (c.scaling == RotaryScaling::kLongRope) {
    const std::vector<double> e =
        factors_of(extended ? "long" : "short", extended ? c.long_factors : c.short_factors, r / 2);
    for (std::size_t i = 0; i < f.size(); ++i) f[i] /= e[i];
  }
  return angles;
}

}  // namespace longspan
