#include "longspan/training/packing.h"

namespace longspan {

namespace {

Answers answers_of(const Model& model, const Batch& batch) {
  if (model.loss().places()) return Answers::kOfSequences;
  return model.output_rows(batch) == batch.rows() ? Answers::kOfRows : Answers::kOfSequences;
}

}  // namespace

Batch Packing::pack(const Model& model, const Batch& batch) {
  if (!has_padding(batch) || !model.packs() || model.reads_padding()) return batch;
  const Batch packed = longspan::pack(batch, answers_of(model, batch), memory_);
  // A target of padding would be lost.
  return model.loss().count(packed) == model.loss().count(batch) ? packed : batch;
}

ConstMatrix Packing::unpack(const Model& model, const Batch& batch, ConstMatrix scores) {
  const std::size_t rows = model.output_rows(batch);
  return scores.rows == rows ? scores : longspan::unpack(scores, batch, scores_);
}

}  // namespace longspan
