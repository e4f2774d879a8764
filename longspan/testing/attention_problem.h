// A random problem for an attention mechanism, and a mechanism set up for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "longspan/attention/attention.h"
#include "longspan/attention/exact/full_ref.h"
#include "longspan/base/meter.h"

namespace longspan::testing {

enum class BiasKind : std::uint8_t { kNone, kOwn, kPerHead, kPerSequence, kShared };

// One problem, in words.
struct AttentionCase {
  std::size_t batch = 1, heads = 1, kv_heads = 1;
  std::size_t m = 1, n = 1, d = 1, e = 1;
  bool causal = false;
  std::vector<std::int32_t> key_lengths = {};
  BiasKind bias = BiasKind::kNone;
  bool visible = false;  // a random boolean mask in which some rows see nothing
  float dropout = 0.0F;
  std::size_t history = 0;  // earlier tokens, where the mechanism needs them
  bool columns = false;     // heads side by side in the columns of a matrix, as layers have them

  std::string name() const;
};

// Makes a mechanism again and again: one of the registry, or any other.
class AttentionMaker {
 public:
  // "name:key=value,…" as on the command line.
  AttentionMaker(std::string_view specification);                                      // NOLINT
  AttentionMaker(const char* text) : AttentionMaker(std::string_view(text)) {}         // NOLINT
  AttentionMaker(const std::string& text) : AttentionMaker(std::string_view(text)) {}  // NOLINT
  AttentionMaker(std::string name, std::function<std::unique_ptr<Attention>()> make)
      : name_(std::move(name)), make_(std::move(make)) {}

  const std::string& name() const { return name_; }
  std::unique_ptr<Attention> operator()() const { return make_(); }

 private:
  std::string name_;
  std::function<std::unique_ptr<Attention>()> make_;
};

// A mechanism with its parameters drawn for the heads and lengths of a case.
class SitedAttention {
 public:
  SitedAttention(const AttentionMaker& make, const AttentionCase& c);

  const Attention& operator*() const { return *attention_; }
  const Attention* operator->() const { return attention_.get(); }
  Attention& mechanism() { return *attention_; }
  Parameters& parameters() { return *parameters_; }
  const Parameters& parameters() const { return *parameters_; }

 private:
  std::unique_ptr<Parameters> parameters_;
  std::unique_ptr<Attention> attention_;
};

// The tensors of a problem in any scalar, each [batch, heads, n, width] in that order.
template <class T>
struct AttentionTensors {
  AttentionShape shape;
  Mask mask;
  Dropout dropout;
  std::vector<T> q, k, v;
  std::vector<T> x, history;  // [batch·n, d_model]
  std::map<std::string, std::vector<T>> parameters;
};

// Its tensors, random from a fixed seed, and everything that a mechanism makes of them.
class AttentionProblem {
 public:
  explicit AttentionProblem(const AttentionCase& c, std::uint64_t seed = 1, Needs needs = {});

  AttentionShape shape() const;
  AttentionInputs inputs() const;
  FullReference<double> reference() const;
  // Everything a reference may read; parameters and constants by name.
  AttentionTensors<double> tensors(const Parameters& parameters) const;

  // Runs forward, and backward when `gradients`; arenas are as large as the cost says.
  void run(const Attention& attention, bool gradients = true);
  // The same, and the gradients of the mechanism's own parameters.
  void run(SitedAttention& sited, bool gradients = true);

  // Element [b, h, i, c] of a tensor, whatever its layout.
  static std::vector<double> dense(ConstHeads x);

  AttentionCase c;
  Needs needs;
  std::vector<float> q, k, v, x, history, bias, dy;
  std::vector<std::uint8_t> visible;
  std::vector<float> y, saved, dq, dk, dv, dx, dbias, signals;
  std::vector<float> parameter_gradients;
  std::size_t forward_peak = 0, backward_peak = 0;
  Work forward_work, backward_work, update_work;

  Heads heads(std::vector<float>& tensor, std::size_t heads_, std::size_t n,
              std::size_t width) const;
  ConstHeads heads(const std::vector<float>& tensor, std::size_t heads_, std::size_t n,
                   std::size_t width) const;

 private:
  void run_backward(const Attention& attention, const AttentionCost& cost, Meter& meter);
};

// The largest |a − b|, relative to the largest |b|.
double relative_error(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace longspan::testing
