// The kernels that a model is made of, as calls to be timed.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "longspan/base/view.h"
#include "longspan/predict/sampling.h"

namespace longspan {

// Operands. Warm ones are the same memory in every call; cold ones follow one another through
// memory that no cache holds.
class OperandPool {
 public:
  OperandPool(std::size_t bytes, bool cold);

  bool cold() const { return cold_; }
  std::size_t bytes() const { return sizeof(float) * data_.size(); }
  // A call begins.
  void begin();
  // Memory of this call; values are in [−1, 1) at first.
  Matrix matrix(std::size_t rows, std::size_t cols);
  std::span<float> floats(std::size_t count) { return {matrix(1, count).data, count}; }

 private:
  std::vector<float> data_;
  std::size_t next_ = 0;
  bool cold_;
};

struct TimedCall {
  std::string rate;
  std::vector<double> x;
  Job run;
};

// The pool must outlive the calls.
void add_products(OperandPool& pool, std::vector<TimedCall>& calls);
void add_row_calls(OperandPool& pool, std::vector<TimedCall>& calls);
void add_transforms(OperandPool& pool, std::vector<TimedCall>& calls);
void add_optimizer_calls(OperandPool& pool, std::vector<TimedCall>& calls);

// All that is calibrated, the mechanisms among it: each rate and how many quantities it has.
std::map<std::string, std::size_t> calibrated_rates();

}  // namespace longspan
