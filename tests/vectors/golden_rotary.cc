#include "tests/vectors/golden_rotary.h"

#include <fmt/format.h>

#include <cmath>

#include "longspan/base/error.h"
#include "longspan/layers/rotary.h"
#include "longspan/models/families/config_fields.h"
#include "longspan/models/families/rope.h"

namespace longspan::golden {

namespace {

RotaryAngles angles_of(const nlohmann::json& c) {
  const auto width = c.at("head_dim").get<std::size_t>();
  const auto length = c.at("max_position_embeddings").get<std::size_t>();
  const double share = c.value("partial_rotary_factor", 1.0);
  const auto channels = static_cast<std::size_t>(static_cast<double>(width) * share);
  const std::string options = with_option(fmt::format("width={}", channels),
                                          rotary_scaling(ConfigFields(c), length, length));
  const RotaryConfig config = rotary_of(options, {.base = c.at("rope_theta").get<double>()});
  return rotary_angles(config, width, c.value("seq_len", length), /*extended=*/false);
}

// Against a table's largest element the slowest frequencies are nothing; they count alone too.
void require_each(const std::string& name, std::span<const double> theirs,
                  std::span<const double> ours) {
  require(theirs.size() == ours.size(), "[golden] {} has {} frequencies; ours has {}", name,
          theirs.size(), ours.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    require(std::abs(ours[i] - theirs[i]) <= 1e-9 * theirs[i],
            "[golden] frequency {} of {} is {}; the reference has {}", i, name, ours[i], theirs[i]);
  }
}

}  // namespace

void run_rotary(const Case& golden, Comparison& comparison) {
  const std::vector<std::int32_t> positions = golden.integers("positions");
  for (const auto& item : golden.config().items()) {
    const std::string& name = item.key();
    const RotaryAngles angles = angles_of(item.value());
    std::vector<float> frequencies;
    std::vector<float> cosines;
    std::vector<float> sines;
    for (const double f : angles.frequencies) frequencies.push_back(static_cast<float>(f));
    for (const std::int32_t p : positions) {
      for (const double f : angles.frequencies) {
        cosines.push_back(static_cast<float>(angles.amplitude * std::cos(p * f)));
        sines.push_back(static_cast<float>(angles.amplitude * std::sin(p * f)));
      }
    }
    comparison.begin(name);
    require_each(name, golden.file().doubles("inv_freq64." + name), angles.frequencies);
    comparison.output("inv_freq64." + name, frequencies);
    comparison.output("attention_factor64." + name,
                      std::vector<float>{static_cast<float>(angles.amplitude)});
    comparison.output("cos64." + name, cosines);
    comparison.output("sin64." + name, sines);
    comparison.finish();
  }
}

}  // namespace longspan::golden
