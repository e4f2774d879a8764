// Which keys a window sees, pair by pair.
#pragma once

#include "longspan/attention/pattern/window.h"

namespace longspan {

struct WindowReference {
  WindowConfig config;
  AttentionShape shape;

  bool sees(std::size_t b, std::size_t i, std::size_t j) const {
    const auto length = shape.key_lengths.empty() ? static_cast<std::int64_t>(shape.n)
                                                  : std::int64_t{shape.key_lengths[b]};
    const auto position = static_cast<std::int64_t>(i + shape.n - shape.m);
    const auto key = static_cast<std::int64_t>(j);
    if (position >= length || key >= length) return false;
    const auto window = static_cast<std::int64_t>(config.window);
    const auto step = static_cast<std::int64_t>(config.dilation);
    const bool one_sided = shape.causal || !config.two_sided;
    const std::int64_t before = step * (one_sided ? window : window / 2);
    const std::int64_t after = step * (one_sided ? 0 : window / 2);
    const std::int64_t distance = position - key;
    return distance % step == 0 && distance <= before && -distance <= after;
  }
};

}  // namespace longspan
