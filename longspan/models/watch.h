// Who looks at what every layer of a pass gives, as it runs: to find out where something went wrong.
#pragma once

#include <string_view>

#include "longspan/base/view.h"

namespace longspan {

class Watch {
 public:
  virtual ~Watch() = default;
  // `x` is what the layer gave, [rows, width]; the part of the model and the block are Place::now's.
  virtual void see(std::string_view layer, ConstMatrix x) = 0;
};

}  // namespace longspan
