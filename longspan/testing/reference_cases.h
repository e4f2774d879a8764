// Models small enough for the reference that between them give every config field a value that
// matters, and batches for them.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "longspan/attention/registry.h"
#include "longspan/base/batch.h"
#include "longspan/base/meter.h"
#include "longspan/base/packed_batch.h"
#include "longspan/models/config.h"

namespace longspan::testing {

struct BatchShape {
  std::size_t batch = 2;
  std::size_t length = 5;
  std::size_t source_length = 0;
  bool padded = false;  // sequences of several real lengths, one of them full
  bool typed = false;
  bool packed = false;  // the same without padding
};

struct ModelCase {
  std::string name;
  ModelConfig config;
  BatchShape shape;
};
inline void PrintTo(const ModelCase& c, std::ostream* out) { *out << c.name; }

std::vector<ModelCase> model_cases();
// Models of which two passes cannot be compared: with experts, among which the data choose, or a
// projected embedding.
std::vector<ModelCase> expert_cases();
// Models whose error no rule but exact ones can send back: of two sequences each, of places, of two
// heads, of features.
std::vector<ModelCase> pair_cases();
// With what released models have that no other case does.
std::vector<ModelCase> released_cases();
std::vector<ModelCase> staged_cases();  // of sequences that are long enough for their stages
// Perceptrons, which have features instead of tokens.
// Models that have a teacher.
std::vector<ModelCase> student_cases();
std::vector<ModelCase> perceptron_cases();
// Models of which a part is frozen; what is trained beside them the reference does not know.
std::vector<ModelCase> frozen_cases();

// Every family and wiring that the mechanism can serve; what it cannot is left to exact attention.
std::vector<ModelConfig> models_around(const Mechanism& mechanism);

// So many sequences, or one more where they come in pairs.
std::size_t sequences_for(const ModelConfig& config, std::size_t batch);

void expect_same(const Work& counted, const Work& predicted, const std::string& where);

// Random tokens and targets; padding is ignored by the loss, and so are some real tokens. Where the
// shape is packed, view() is, and the fields are of the padded batch all the same.
class BatchData {
 public:
  BatchData(const ModelConfig& config, const BatchShape& shape, std::uint64_t seed);
  Batch view() const;

  std::vector<std::int32_t> tokens;
  std::vector<float> features;
  std::vector<std::int32_t> targets;
  std::vector<std::int32_t> sentence_targets;
  std::vector<float> values;
  std::vector<float> teacher_scores;
  std::vector<float> teacher_states;
  std::vector<float> times;
  std::vector<std::int32_t> lengths;
  std::vector<std::int32_t> types;
  std::vector<std::int32_t> source;
  std::vector<std::int32_t> source_lengths;

 private:
  Batch padded() const;
  // Of a span's ends, a place of each sequence, or none.
  void draw_spans(const ModelConfig& config, std::uint64_t seed);

  BatchShape shape_;
  bool answers_rows_ = true;
  mutable PackedMemory packed_;
};

}  // namespace longspan::testing
