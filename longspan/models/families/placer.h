// Collects where the tensors of a checkpoint go, under the names that Model gives its parameters.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/models/families/config_fields.h"
#include "longspan/models/pretrained.h"

namespace longspan {

// Which switches of a config decide whether a matrix has a bias.
enum class BiasOf : std::uint8_t { kAny, kProjections, kAttentionOutput, kFeedForward };

// The parts of a fused projection in the order in which they lie there: of every group of heads, or
// of all heads.
struct FusedProjection {
  std::string_view order = "qkv";
  std::size_t groups = 1;
};

// The options of the layers with experts, which are all alike.
struct ExpertSizes {
  std::size_t experts = 0;
  std::size_t width = 0;
  std::size_t shared = 0;
  bool correction = false;
};

class Placer {
 public:
  Placer(const ModelConfig& config, const ConfigFields& fields, std::string_view base)
      : config_(config), fields_(fields), base_(base) {}

  const ModelConfig& config() const { return config_; }
  const ConfigFields& fields() const { return fields_; }
  std::vector<WeightPlacement> take() { return std::move(list_); }

  // "bert.encoder" of "encoder": what the body's tensors begin with.
  std::string base(std::string_view name) const;
  // "encoder.3": our layer, of the only or the encoder's stack.
  std::string layer(std::size_t i) const;
  // "bert.encoder.layer.3" of "encoder.layer".
  std::string source_layer(std::string_view stack, std::size_t i) const;

  void whole(std::string source, std::string parameter);
  // A tied tensor again.
  void second_name(std::string source, std::string parameter);
  // Rows of a matrix or elements of a vector that are one source.
  void some(const std::string& source, const std::string& parameter, std::size_t first,
            std::size_t count);
  // Rows of a source that hold rows of several parameters.
  void part(const std::string& source, std::size_t source_row, std::size_t source_rows,
            const std::string& parameter, std::size_t first, std::size_t count);
  // Part of a larger tensor.
  void slice(const std::string& source, const std::string& parameter, std::size_t first,
             std::size_t count, WeightPlacement::Slice slice);
  // A source that is [in, out]; some rows of ours.
  void transposed_rows(const std::string& source, const std::string& parameter, std::size_t first,
                       std::size_t count);
  // A source that is [in, out].
  void transposed(const std::string& source, const std::string& parameter);

  // Weight and bias, whatever the config's switches say.
  void both(const std::string& source, const std::string& parameter);
  // Weight and, where there are any, bias.
  void norm(const std::string& source, const std::string& parameter);
  // A norm that multiplies by 1 + weight.
  void norm_above_one(const std::string& source, const std::string& parameter);
  void rows(const std::string& source, const std::string& parameter, std::size_t first,
            std::size_t count, BiasOf bias);
  void linear(const std::string& source, const std::string& parameter,
              BiasOf bias = BiasOf::kFeedForward) {
    rows(source, parameter, 0, 0, bias);
  }
  void attention_out(const std::string& source, const std::string& attention) {
    rows(source, attention + ".out", 0, 0, BiasOf::kAttentionOutput);
  }
  // GPT-2's Conv1D: y = x·W + b.
  void conv1d(const std::string& source, const std::string& parameter);
  void qkv(const std::string& q, const std::string& k, const std::string& v,
           const std::string& attention);
  // Of cross-attention, whose queries have a matrix of their own.
  void cross_qkv(const std::string& q, const std::string& k, const std::string& v,
                 const std::string& attention);
  void shared_qk(const std::string& qk, const std::string& v, const std::string& attention);
  void fused_qkv(const std::string& source, const std::string& attention,
                 const FusedProjection& fused);
  void gated(const std::string& gate, const std::string& up, const std::string& feed_forward);
  // The same of a feed-forward of its own width and without biases.
  void gated_of(const std::string& gate, const std::string& up, const std::string& feed_forward,
                std::size_t width);
  ExpertSizes expert_sizes() const;
  // The output layer's weight: the token table, or its own.
  void output_weight(const std::string& source);

  // Whether the mechanism is asked for this.
  bool uses(std::string_view text) const;

 private:
  bool biased(BiasOf which) const;
  std::size_t query_columns() const { return config_.heads * head_width_of(config_); }
  std::size_t key_columns() const {
    const std::size_t heads = config_.kv_heads == 0 ? config_.heads : config_.kv_heads;
    return heads * head_width_of(config_);
  }

  const ModelConfig& config_;
  const ConfigFields& fields_;
  std::string_view base_;
  std::vector<WeightPlacement> list_;
};

}  // namespace longspan
