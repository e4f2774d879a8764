// An attention mechanism alone, on tensors that are drawn or captured: to be timed, and to be held
// against exact attention.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "longspan/attention/registry.h"

namespace longspan {

struct AttentionCase {
  std::string attention = "flash";
  std::size_t batch = 1;
  std::size_t length = 0;
  std::size_t heads = 8;
  std::size_t d_head = 64;
  bool causal = false;
  bool backward = false;  // as well

  std::size_t rows() const { return batch * length; }
  std::size_t width() const { return heads * d_head; }
};

// [batch·n, heads·d], heads side by side as a layer's projections leave them. `x` is what stands in
// for the layer's input, where a mechanism reads it.
struct AttentionTensors {
  std::vector<float> q, k, v, x;
};
AttentionTensors random_tensors(const AttentionCase& c, std::uint64_t seed);

struct AttentionSizes {
  AttentionCost cost;
  std::size_t parameters = 0;  // that are learned
  std::size_t constants = 0;
  std::size_t bytes = 0;  // of tensors, parameters, their gradients and the arena
};
// Throws Error where the mechanism cannot do it.
AttentionSizes attention_sizes(const AttentionCase& c);

class AttentionRun {
 public:
  // The tensors must outlive it. Throws Error where the mechanism cannot do it.
  AttentionRun(const AttentionCase& c, AttentionTensors& tensors);

  void run();
  std::size_t arena_peak() const { return arena_.peak(); }
  bool reads_input() const { return attention_.streams().calls(Source::kInput); }
  bool shared_qk() const { return attention_->abilities().shared_qk; }

  const std::vector<float>& output() const { return y_; }
  const std::vector<float>& dq() const { return dq_; }
  const std::vector<float>& dk() const { return dk_; }
  const std::vector<float>& dv() const { return dv_; }

 private:
  Heads heads(std::vector<float>& data) const;

  AttentionCase case_;
  LoneAttention attention_;
  AttentionInputs in_;
  std::vector<float> y_, dy_, dq_, dk_, dv_, dx_;
  std::vector<float> saved_, signals_;
  Arena arena_;
};

}  // namespace longspan
