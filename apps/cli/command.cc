#include "command.h"

#include <fmt/core.h>

#include <cmath>

namespace longspan::cli {

std::string human_seconds(double seconds) {
  const auto total = static_cast<long long>(std::llround(std::fmin(seconds, 1e9)));
  if (total >= 3600) {
    return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
  }
  return fmt::format("{}:{:02}", total / 60, total % 60);
}

}  // namespace longspan::cli
