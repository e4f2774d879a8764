// The name of a test's parameter: of letters, digits and '_' only, as gtest wants it.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace longspan::testing {

inline std::string test_name(std::string_view name) {
  std::string allowed(name);
  std::ranges::replace(allowed, '-', '_');
  return allowed;
}

}  // namespace longspan::testing
