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
#include "longspan/attention/registry.h"
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
  std::vector<std::int32_t> token_types = {};  // of the keys, [batch·n]
  std::size_t step = 1;                        // tokens from one key to the next

  std::string name() const;
};

// Makes a mechanism again and again: one of the registry, or any other.
class AttentionMaker {
 public:
  // "name:key=value,…" as on the command line.
  AttentionMaker(std::string_view specification);                                      // NOLINT
  AttentionMaker(const char* text) : AttentionMaker(std::string_view(text)) {}         // NOLINT
  AttentionMaker(const std::string& text) : AttentionMaker(std::string_view(text)) {}  // NOLINT
  AttentionMaker(std::string name, LoneAttention::Make make)
      : name_(std::move(name)), make_(std::move(make)) {}

  const std::string& name() const { return name_; }
  LoneAttention operator()(const AttentionLayout& layout, bool history) const;

 private:
  std::string name_;
  LoneAttention::Make make_;  // empty: as the registry makes it
};

// A mechanism of this class without a layer, made from its config.
template <class Kind>
class Alone {
 public:
  template <class Config>
  explicit Alone(const Config& config,
                 const AttentionLayout& layout = {.d_model = 4, .d_head = 4, .max_length = 64},
                 bool history = false)
      : lone_([&](const AttentionSite& site) { return std::make_unique<Kind>(config, site); },
              streams_of(config, layout), layout, history) {}

  Kind& operator*() { return static_cast<Kind&>(lone_.mechanism()); }
  Kind* operator->() { return &**this; }
  LoneAttention& lone() { return lone_; }
  Parameters& parameters() { return lone_.parameters(); }

 private:
  template <class Config>
  static Streams streams_of(const Config& config, const AttentionLayout& layout) {
    if constexpr (requires { Kind::streams(config, layout); }) return Kind::streams(config, layout);
    return Streams::qkv(layout);
  }
  LoneAttention lone_;
};

inline std::vector<double> widen(const std::vector<float>& x) { return {x.begin(), x.end()}; }

// What of its layer a mechanism reads beside q, k and v.
struct Wants {
  bool shared_qk = false;
  bool input = false;
  bool history = false;
};

// A mechanism with its parameters drawn for the heads and lengths of a case.
class SitedAttention {
 public:
  SitedAttention(const AttentionMaker& make, const AttentionCase& c);

  Wants wants() const;
  const Attention& operator*() const { return *attention_; }
  const Attention* operator->() const { return &*attention_; }
  Attention& mechanism() { return attention_.mechanism(); }
  Parameters& parameters() { return attention_.parameters(); }
  const Parameters& parameters() const { return attention_.parameters(); }

 private:
  LoneAttention attention_;
};

// The tensors of a problem in any scalar, each [batch, heads, n, width] in that order.
template <class T>
struct AttentionTensors {
  AttentionShape shape;
  Mask mask;
  Dropout dropout;
  std::vector<T> q, k, v;
  std::vector<T> x, history;  // [batch·n, d_model]
  std::span<const std::int32_t> token_types;
  std::map<std::string, std::vector<T>> parameters;
};

// Its tensors, random from a fixed seed, and everything that a mechanism makes of them.
class AttentionProblem {
 public:
  explicit AttentionProblem(const AttentionCase& c, std::uint64_t seed = 1, Wants wants = {});

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
  Wants wants;
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
