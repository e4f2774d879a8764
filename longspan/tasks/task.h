// A task: what a model can be trained on.
#pragma once

#include <string_view>

namespace longspan {

struct Task {
  std::string_view name;
  std::string_view summary;  // one line
};

}  // namespace longspan
