// For pictures: why a query sees a key, of mechanisms whose pattern does not depend on the data.
#pragma once

#include <cstddef>
#include <string_view>

#include "longspan/attention/attention.h"

namespace longspan {

class FixedPattern {
 public:
  virtual ~FixedPattern() = default;
  // Of sequence 0: "global", "window", "random", …; empty where query i does not see key j.
  virtual std::string_view reason(const AttentionShape& shape, std::size_t head, std::size_t i,
                                  std::size_t j) const = 0;
};

}  // namespace longspan
