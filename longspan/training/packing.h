// Batches without their padding, for whoever trains or judges a model: what is not a token is not
// computed. The results are those of the padded batch up to rounding; what dropout draws is
// another draw.
#pragma once

#include <vector>

#include "longspan/base/packed_batch.h"
#include "longspan/models/model.h"

namespace longspan {

class Packing {
 public:
  // The batch packed, in memory of its own until the next; the batch itself where nothing of it is
  // padding, or where the model cannot read it packed or would give something else of it.
  Batch pack(const Model& model, const Batch& batch);
  // The model's scores of pack(batch) in the rows that they have in the batch.
  ConstMatrix unpack(const Model& model, const Batch& batch, ConstMatrix scores);

 private:
  PackedMemory memory_;
  std::vector<float> scores_;
};

}  // namespace longspan
