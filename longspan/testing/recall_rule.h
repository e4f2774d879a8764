// What makes a batch one of multi-query associative recall, whoever drew it.
#pragma once

#include <string>

#include "longspan/base/batch.h"

namespace longspan::testing {

struct RecallSizes {
  std::size_t pairs = 0;
  std::int32_t symbols = 0;
};

// The first thing that is otherwise than tasks/recall.h says: "row 3: token 4 is no key"; empty:
// nothing is.
std::string recall_fault(const Batch& batch, const RecallSizes& sizes);

}  // namespace longspan::testing
