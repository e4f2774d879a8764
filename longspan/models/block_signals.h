// What a learning rule sends straight to every block, or layer of a perceptron, on the way back, as if
// it were the last one; what the block behind would send is dropped.
#pragma once

#include <cstddef>

#include "longspan/base/view.h"

namespace longspan {

class BlockSignals {
 public:
  virtual ~BlockSignals() = default;
  // Sets g, the signal at the output of the stack; it goes back through the final norm, if there is
  // one, to the output of the block.
  virtual void send(std::size_t block, Matrix g) const = 0;
};

}  // namespace longspan
