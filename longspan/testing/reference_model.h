// Whole models from the reference's pieces: the same config, the parameters by name.
#pragma once

#include <algorithm>
#include <map>
#include <numbers>
#include <string>

#include "longspan/attention/exact/flash_ref.h"
#include "longspan/base/batch.h"
#include "longspan/base/config.h"
#include "longspan/layers/distillation.h"
#include "longspan/layers/distillation_ref.h"
#include "longspan/layers/experts.h"
#include "longspan/layers/rotary.h"
#include "longspan/models/config.h"
#include "longspan/testing/experts_step.h"
#include "longspan/testing/reference.h"

namespace longspan::testing {

// `key` seeds dropout; training without dropout and inference are the same function.
template <class S>
class ReferenceModel {
 public:
  ReferenceModel(const ModelConfig& config, const Weights& weights, const Batch& batch,
                 bool training = true, RandomKey key = 0)
      : c_(config),
        w_(weights),
        batch_(batch),
        training_(training),
        rate_(training ? config.dropout : 0.0F),
        key_(key) {}

  Tensor<S> logits() const { return head(states()); }
  // Σ of the loss, not scaled; in training with the experts' own for each counted target, and with
  // the teacher's where there is one.
  S loss() const {
    auxiliary_ = S{};
    joint_.clear();
    const Tensor<S> h = states();
    for (const auto& [side, loss] : joint_) auxiliary_ += loss.second.value(loss.first);
    const Tensor<S> scores = head(h);
    const S sum = judged(scores, h);
    const auto ignored = std::ranges::count(batch_.targets, kIgnoredTarget);
    const auto counted = static_cast<std::ptrdiff_t>(batch_.targets.size()) - ignored;
    const S all = sum + static_cast<double>(counted) * sentence_loss(h);
    return training_ ? all + static_cast<double>(counted) * auxiliary_ : all;
  }

 private:
  // What the head reads.
  Tensor<S> states() const {
    const bool both = c_.family == Family::kEncoderDecoder;
    Tensor<S> x;
    Tensor<S> context;
    if (c_.family == Family::kPerceptron) return perceptron();
    if (c_.family != Family::kDecoder) {
      const Side side =
          both ? Side{"encoder", batch_.source_length, batch_.source_lengths,
                      derive(key_, "encoder"), c_.layers}
               : Side{"encoder", batch_.length, batch_.lengths, derive(key_, "encoder"), c_.layers};
      x = embed("embedding", side, both ? batch_.source : batch_.tokens, !both);
      x = stack(side, x, nullptr);
      context = x;
    }
    if (c_.family != Family::kEncoder) {
      const Side side{"decoder",
                      batch_.length,
                      batch_.lengths,
                      derive(key_, "decoder"),
                      both ? c_.decoder_layers : c_.layers,
                      both};
      x = embed(both ? "decoder_embedding" : "embedding", side, batch_.tokens, true);
      x = stack(side, x, both ? &context : nullptr);
    }
    return x;
  }

  S judged(const Tensor<S>& scores, const Tensor<S>& h) const {
    if (c_.loss == "squared-error") return squared_error_of(scores, batch_.values);
    if (c_.loss == "binary") return binary_cross_entropy_of(scores, batch_.targets);
    if (c_.loss.starts_with("span")) return span_loss(scores);
    if (training_ && c_.loss.starts_with(DistillationLoss::kName)) return distillation(scores, h);
    if (c_.loss != "weighted-sum") return cross_entropy_of(scores, batch_.targets);
    S sum{0.0};
    for (std::size_t i = 0; i < scores.data.size(); ++i) {
      sum += scores.data[i] * static_cast<double>(batch_.values[i]);
    }
    return sum;
  }

  // The mean over the sequences that have a target.
  S sentence_loss(const Tensor<S>& h) const {
    const auto ignored = std::ranges::count(batch_.sentence_targets, kIgnoredTarget);
    const auto counted = static_cast<std::ptrdiff_t>(batch_.sentence_targets.size()) - ignored;
    if (counted == 0) return S{};
    Tensor<S> x(batch_.batch, h.cols);
    for (std::size_t b = 0; b < x.rows; ++b) {
      for (std::size_t j = 0; j < x.cols; ++j) x(b, j) = h(b * batch_.length, j);
    }
    x = linear(w_, "sentence_head.pooler", x);
    for (S& value : x.data) value = std::tanh(value);
    return cross_entropy_of(linear(w_, "sentence_head.output", x), batch_.sentence_targets) /
           static_cast<double>(counted);
  }

  S span_loss(const Tensor<S>& scores) const {
    const bool masked = c_.loss == "span:masked=true" && !batch_.lengths.empty();
    const auto places = [&](std::size_t b) {
      return masked ? static_cast<std::size_t>(batch_.lengths[b]) : batch_.length;
    };
    return span_loss_of(scores, batch_.length, places, batch_.targets);
  }

  S distillation(const Tensor<S>& scores, const Tensor<S>& h) const {
    DistillationConfig config;
    parse_options("reference", c_.loss.substr(c_.loss.find(':') + 1), config);
    S sum{0.0};
    const auto row = [](const auto& all, std::size_t i, std::size_t width) {
      return std::span(all).subspan(i * width, width);
    };
    for (std::size_t i = 0; i < scores.rows; ++i) {
      if (batch_.targets[i] < 0) continue;
      sum += distillation_reference<S>(
          row(scores.data, i, scores.cols), row(batch_.teacher_scores, i, scores.cols),
          static_cast<std::size_t>(batch_.targets[i]), config.temperature, config.teacher_weight);
      sum += static_cast<double>(config.hidden_weight) *
             cosine_distance_reference<S>(row(h.data, i, h.cols),
                                          row(batch_.teacher_states, i, h.cols));
    }
    return sum;
  }

  struct Side {
    std::string name;
    std::size_t length;
    std::span<const std::int32_t> lengths;
    RandomKey key;
    std::size_t layers;
    bool second = false;  // the decoder behind an encoder
  };

  Tensor<S> perceptron() const {
    Tensor<S> x(batch_.batch, c_.inputs);
    for (std::size_t i = 0; i < x.data.size(); ++i) x.data[i] = batch_.features[i];
    for (std::size_t layer = 0; layer < c_.layers; ++layer) {
      x = linear(w_, "mlp." + std::to_string(layer), x);
      for (S& value : x.data) value = activation(c_.activation.name(), value);
      x = drop(Dropout{rate_, derive(derive(key_, "decoder"), layer)}, x);
    }
    return x;
  }

  Tensor<S> norm_of(const std::string& name, const Tensor<S>& x) const {
    return norm(w_, name, c_.norm.name(), static_cast<double>(c_.norm_epsilon), x);
  }

  // Of `length` rows from frame or pixel zero on, taps outside of x being zeros.
  Tensor<S> patches() const {
    const std::size_t p = c_.patch;
    const std::size_t side = c_.image / p;
    Tensor<S> columns(batch_.batch * side * side, c_.channels * p * p);
    for (std::size_t row = 0; row < columns.rows; ++row) {
      const std::size_t b = row / (side * side);
      for (std::size_t j = 0; j < columns.cols; ++j) {
        const std::size_t y = row / side % side * p + j / p % p;
        const std::size_t z = row % side * p + j % p;
        columns(row, j) =
            batch_.features[((b * c_.channels + j / (p * p)) * c_.image + y) * c_.image + z];
      }
    }
    const Tensor<S> rows = linear(w_, "embedding.patches", columns);
    if (!c_.class_token) return rows;
    const Tensor<S> token = w_.get<S>("embedding.class_token");
    Tensor<S> x(rows.rows + batch_.batch, rows.cols);
    const std::size_t length = side * side + 1;
    for (std::size_t i = 0; i < x.rows; ++i) {
      for (std::size_t j = 0; j < x.cols; ++j) {
        x(i, j) = i % length == 0 ? token(0, j) : rows(i - i / length - 1, j);
      }
    }
    return x;
  }

  // gelu of three neighbours of every `stride`-th row.
  Tensor<S> convolved_frames(const std::string& name, const Tensor<S>& x, std::size_t length,
                             std::size_t stride) const {
    Tensor<S> columns(x.rows / stride, 3 * x.cols);
    const std::size_t places = length / stride;
    for (std::size_t row = 0; row < columns.rows; ++row) {
      for (std::size_t j = 0; j < columns.cols; ++j) {
        const std::size_t t = row % places * stride + j % 3;  // one ahead
        if (t == 0 || t > length) continue;
        columns(row, j) = x(row / places * length + t - 1, j / 3);
      }
    }
    Tensor<S> y = linear(w_, name, columns);
    for (S& value : y.data) value = activation("gelu", value);
    return y;
  }

  Tensor<S> sound(std::size_t length) const {
    Tensor<S> x(batch_.batch * 2 * length, c_.channels);
    for (std::size_t i = 0; i < x.rows; ++i) {
      for (std::size_t j = 0; j < x.cols; ++j) {
        const std::size_t b = i / (2 * length);
        x(i, j) = batch_.features[(b * x.cols + j) * 2 * length + i % (2 * length)];
      }
    }
    x = convolved_frames("embedding.first", x, 2 * length, 1);
    return convolved_frames("embedding.second", x, 2 * length, 2);
  }

  Tensor<S> looked_up(const std::string& name, std::span<const std::int32_t> tokens) const {
    const bool shares = c_.shared_table && c_.stem == StemKind::kTokens;
    const Tensor<S> table = w_.get<S>((shares ? "embedding" : name) + ".tokens");
    Tensor<S> x(tokens.size(), table.cols);
    for (std::size_t i = 0; i < x.rows; ++i) {
      for (std::size_t j = 0; j < x.cols; ++j) {
        const S entry = table(static_cast<std::size_t>(tokens[i]), j);
        // The padding token's row is a constant here: it receives no gradient from look-ups.
        x(i, j) = tokens[i] == c_.padding_token ? S{real_part(entry)} : entry;
        if (c_.embedding_scale) x(i, j) *= std::sqrt(static_cast<double>(c_.d_model));
      }
    }
    return x;
  }

  Tensor<S> embed(const std::string& name, const Side& side, std::span<const std::int32_t> tokens,
                  bool typed) const {
    const std::size_t d = c_.d_model;
    const bool looks_up = c_.stem == StemKind::kTokens || side.name == "decoder";
    Tensor<S> x = looks_up                        ? looked_up(name, tokens)
                  : c_.stem == StemKind::kPatches ? patches()
                                                  : sound(side.length);
    const bool projects = c_.embedding_projection || x.cols != d;
    if (projects && c_.embedding_projects_tokens) x = linear(w_, name + ".projection", x);
    const bool norm_first = side.second && c_.decoder_norm_first;
    if (c_.embedding_norm && norm_first) x = norm_of(name + ".norm", x);
    add_places(name, side, typed, x);
    if (c_.embedding_norm && !norm_first) x = norm_of(name + ".norm", x);
    if (projects && !c_.embedding_projects_tokens) x = linear(w_, name + ".projection", x);
    x = drop(Dropout{rate_, derive(side.key, "embedding")}, x);
    for (std::size_t i = 0; c_.embedding_mask && !side.lengths.empty() && i < x.rows; ++i) {
      if (i % side.length < static_cast<std::size_t>(side.lengths[i / side.length])) continue;
      for (std::size_t j = 0; j < d; ++j) x(i, j) = S{};
    }
    return x;
  }

  // Positions and types.
  void add_places(const std::string& name, const Side& side, bool typed, Tensor<S>& x) const {
    const std::size_t d = x.cols;
    const Tensor<S> learned =
        c_.positions == PositionKind::kLearned ? w_.get<S>(name + ".positions") : Tensor<S>{};
    const bool axial = c_.positions == PositionKind::kAxial;
    const Tensor<S> axial_rows = axial ? w_.get<S>(name + ".axial_rows") : Tensor<S>{};
    const Tensor<S> axial_columns = axial ? w_.get<S>(name + ".axial_columns") : Tensor<S>{};
    const bool embeds = w_.has(name + ".types");
    const Tensor<S> types = embeds ? w_.get<S>(name + ".types") : Tensor<S>{};
    for (std::size_t i = 0; i < x.rows; ++i) {
      const std::size_t position = i % side.length;
      const std::size_t type = typed && !batch_.token_types.empty()
                                   ? static_cast<std::size_t>(batch_.token_types[i])
                                   : 0;
      for (std::size_t j = 0; j < d; ++j) {
        if (c_.positions == PositionKind::kLearned)
          x(i, j) += learned(position + c_.position_offset, j);
        if (axial) {
          x(i, j) += j < axial_rows.cols
                         ? axial_rows(position / axial_columns.rows, j)
                         : axial_columns(position % axial_columns.rows, j - axial_rows.cols);
        }
        if (c_.positions == PositionKind::kSinusoidal) x(i, j) += sinusoid(position, j, d);
        if (c_.positions == PositionKind::kSinusoidalHalves) {
          const std::size_t sines = (d + 1) / 2;
          x(i, j) += sinusoid(position, j < sines ? 2 * j : 2 * (j - sines) + 1, d);
        }
        if (c_.positions == PositionKind::kTemporal) {
          const double turn = static_cast<double>(batch_.times[i]) *
                              std::pow(10000.0, -static_cast<double>(j - j % 2) / d);
          x(i, j) += j % 2 == 0 ? std::sin(turn) : std::cos(turn);
        }
        if (embeds) x(i, j) += types(type, j);
      }
    }
  }

  // Queries or keys in the columns of heads that are so wide.
  void rotate(const Side& side, std::size_t layer, std::size_t heads, Tensor<S>& x) const {
    if (c_.positions != PositionKind::kRotary) return;
    const std::string options = turn_of(c_.rotary, layer);
    if (options == "none") return;
    const RotaryConfig config =
        rotary_of(options, {.base = c_.rotary_base, .interleaved = c_.rotary_interleaved});
    const std::size_t source = longest_source(c_);
    const std::size_t positions = side.second ? std::max(c_.max_length, source) : source;
    const RotaryAngles angles =
        rotary_angles(config, x.cols / heads, positions, side.length > config.original);
    rotate_heads(x, side.length, heads, angles.frequencies, angles.amplitude, config.interleaved);
  }

  // What FlashReference reads.
  struct FlashTensors {
    AttentionShape shape;
    Mask mask;
    Dropout dropout;
    std::vector<S> q, k, v;
    std::map<std::string, std::vector<S>> parameters;
  };
  // [batch·n, heads·d] to [batch, heads, n, d].
  std::vector<S> heads_first(const Tensor<S>& x, std::size_t heads) const {
    const std::size_t n = x.rows / batch_.batch;
    const std::size_t d = x.cols / heads;
    std::vector<S> y(x.data.size());
    for (std::size_t i = 0; i < x.rows; ++i) {
      for (std::size_t j = 0; j < x.cols; ++j) {
        y[((i / n * heads + j / d) * n + i % n) * d + j % d] = x(i, j);
      }
    }
    return y;
  }
  Tensor<S> attend_flash(const std::string& options, const std::string& name, const Side& side,
                         const AttentionSetting& a, const Tensor<S>& q, const Tensor<S>& k,
                         const Tensor<S>& v) const {
    FlashConfig config;
    parse_options("flash", options, config);
    const std::size_t m = q.rows / a.batch;
    const std::size_t d = q.cols / a.heads;
    FlashTensors t;
    t.shape = {.batch = a.batch,
               .heads = a.heads,
               .kv_heads = a.kv_heads,
               .m = m,
               .n = k.rows / a.batch,
               .d = d,
               .e = d};
    t.mask.causal = a.causal;
    t.mask.key_lengths = a.key_lengths;
    t.dropout = a.dropout;
    t.q = heads_first(q, a.heads);
    t.k = heads_first(k, a.kv_heads);
    t.v = heads_first(v, a.kv_heads);
    if (config.sinks) t.parameters["attention.sinks"] = w_.get<S>(name + ".sinks").data;
    if (config.distances == DistanceKind::kBuckets) {
      t.parameters["stack.distances"] = w_.get<S>(side.name + ".distances").data;
    }
    const std::vector<S> rows = FlashReference(config, t)();
    Tensor<S> y(q.rows, q.cols);
    for (std::size_t i = 0; i < y.rows; ++i) {
      for (std::size_t j = 0; j < y.cols; ++j) {
        y(i, j) = rows[((i / m * a.heads + j / d) * m + i % m) * d + j % d];
      }
    }
    return y;
  }

  std::string mixer(const Side& side, std::size_t layer, bool cross) const {
    if (cross && !c_.cross_attention.empty()) return turn_of(c_.cross_attention, layer);
    const bool own = side.second && !c_.decoder_attention.empty();
    return turn_of(own ? c_.decoder_attention : c_.attention, layer);
  }

  // Of the branch `name` of a layer; with a context it reads that.
  Tensor<S> attention(const std::string& name, std::size_t layer, const Side& side, RandomKey key,
                      const Tensor<S>& x, const Tensor<S>* context,
                      std::span<const std::int32_t> context_lengths) const {
    AttentionSetting a;
    a.batch = batch_.batch;
    a.heads = side.second ? c_.heads_of_decoder() : c_.heads;
    a.kv_heads = c_.kv_heads == 0 ? a.heads : c_.kv_heads;
    a.dropout = {rate_, derive(key, "attention")};
    a.causal = context == nullptr && side.name == "decoder";
    a.key_lengths = context == nullptr ? side.lengths : context_lengths;
    const std::size_t width = c_.head_width == 0 ? c_.d_model / a.heads : c_.head_width;
    const std::size_t own = width * a.heads;
    const std::size_t kv = width * a.kv_heads;
    Tensor<S> q;
    Tensor<S> pair;
    const bool reads_other = context != nullptr && c_.family == Family::kEncoderDecoder;
    const std::string kind = mixer(side, layer, reads_other);
    if (kind.find("key_bias=false") != std::string::npos) {
      const bool crosses = context != nullptr;
      const Tensor<S> biased = linear(w_, name + (crosses ? ".q" : ".qv"), x);
      q = columns(biased, 0, own);
      const Tensor<S> v = crosses ? linear(w_, name + ".v", *context) : columns(biased, own, kv);
      pair = beside(linear(w_, name + ".k", crosses ? *context : x), v);
    } else if (context == nullptr) {
      const Tensor<S> all = linear(w_, name + ".qkv", x);
      q = columns(all, 0, own);
      pair = columns(all, own, 2 * kv);
    } else {
      q = linear(w_, name + ".q", x);
      pair = linear(w_, name + ".kv", *context);
    }
    Tensor<S> k = columns(pair, 0, kv);
    const Tensor<S> v = columns(pair, kv, kv);
    if (context == nullptr) {
      if (c_.query_norm != QueryNorm::kNone) {
        const bool whole = c_.query_norm == QueryNorm::kWhole;
        const auto epsilon = static_cast<double>(c_.norm_epsilon);
        q = norm_parts(w_, name + ".query_norm", c_.norm.name(), epsilon, q, whole ? own : width);
        k = norm_parts(w_, name + ".key_norm", c_.norm.name(), epsilon, k, whole ? kv : width);
      }
      rotate(side, layer, a.heads, q);
      rotate(side, layer, a.kv_heads, k);
    }
    const Tensor<S> y = kind.starts_with("flash:")
                            ? attend_flash(kind.substr(6), name, side, a, q, k, v)
                            : attend(a, q, k, v);
    return linear(w_, name + ".out", y);
  }

  static Tensor<S> beside(const Tensor<S>& a, const Tensor<S>& b) {
    Tensor<S> y(a.rows, a.cols + b.cols);
    for (std::size_t i = 0; i < y.rows; ++i) {
      for (std::size_t j = 0; j < y.cols; ++j) y(i, j) = j < a.cols ? a(i, j) : b(i, j - a.cols);
    }
    return y;
  }

  bool mixes(const Side& side, std::size_t layer) const {
    return mixer(side, layer, false) == "fnet";
  }
  bool convolves(const Side& side, std::size_t layer) const {
    return mixer(side, layer, false).starts_with("conv");
  }
  std::string layer_name(const Side& side, std::size_t layer) const {
    return side.name + "." + std::to_string(c_.shared_layers ? 0 : layer);
  }

  // y_t = b + Σ_i W_i·x_{t−w+1+i} of the real tokens of each sequence; padding gives zeros.
  Tensor<S> convolved(const std::string& name, const Side& side, const Tensor<S>& x) const {
    const Tensor<S> taps = w_.template get<S>(name + ".weight");
    const Tensor<S> bias =
        w_.has(name + ".bias") ? w_.template get<S>(name + ".bias") : Tensor<S>(1, x.cols);
    Tensor<S> y(x.rows, x.cols);
    for (std::size_t row = 0; row < x.rows; ++row) {
      const std::size_t t = row % side.length;
      const std::size_t b = row / side.length;
      if (!side.lengths.empty() && t >= static_cast<std::size_t>(side.lengths[b])) continue;
      for (std::size_t c = 0; c < x.cols; ++c) {
        y(row, c) = bias(0, c);
        for (std::size_t i = 0; i < taps.rows; ++i) {
          const std::size_t ago = taps.rows - 1 - i;
          if (ago <= t) y(row, c) += taps(i, c) * x(row - ago, c);
        }
      }
    }
    return y;
  }

  // Re(F_n·x·F_d) of each sequence, term by term.
  Tensor<S> mixed(const Tensor<S>& x, std::size_t length) const {
    Tensor<S> y(x.rows, x.cols);
    const double turn = 2.0 * std::numbers::pi;
    for (std::size_t i = 0; i < x.rows; ++i) {
      const std::size_t first = i - i % length;
      for (std::size_t l = 0; l < x.cols; ++l) {
        for (std::size_t m = 0; m < length; ++m) {
          for (std::size_t j = 0; j < x.cols; ++j) {
            const double angle =
                static_cast<double>(m * (i % length)) / static_cast<double>(length) +
                static_cast<double>(j * l) / static_cast<double>(x.cols);
            y(i, l) += x(first + m, j) * std::cos(turn * angle);
          }
        }
      }
    }
    return y;
  }

  // Adds the auxiliary loss to that of the model.
  Tensor<S> experts(const std::string& kind, const std::string& name, const Side& side,
                    const Tensor<S>& x) const {
    ExpertsConfig config;
    parse_options("experts", kind.substr(std::min(kind.size(), kind.find(':') + 1)), config);
    ExpertsReference<S> reference =
        experts_reference<S>(config, name, c_.activation.name(), c_.gated, w_);
    reference.length = side.length;
    reference.lengths.assign(side.lengths.begin(), side.lengths.end());
    reference.x = rows_of(x);
    ExpertsLoss<S> own;
    const bool joins = config.balance_of != BalanceOf::kLayer;
    ExpertsLoss<S>& loss = joins ? joint_[side.name].second : own;
    const auto result = reference.forward(loss);
    if (joins) joint_[side.name].first = config;
    if (!joins) auxiliary_ += own.value(config);
    Tensor<S> y(x.rows, x.cols);
    for (std::size_t i = 0; i < y.rows; ++i) {
      for (std::size_t j = 0; j < y.cols; ++j) y(i, j) = result.y[i][j];
    }
    return y;
  }

  // Branch i of the stack: self-attention, cross-attention where there is a context, feed-forward.
  Tensor<S> branch(const Side& side, std::size_t i, const Tensor<S>& x,
                   const Tensor<S>* context) const {
    const std::size_t per_layer = context == nullptr ? 2 : 3;
    const std::string layer = layer_name(side, i / per_layer);
    const std::size_t which = i % per_layer;
    const RandomKey key = derive(side.key, i);
    Tensor<S> y;
    if (which == 0 && mixes(side, i / per_layer)) {
      return mixed(x, side.length);  // without dropout
    } else if (which == 0 && convolves(side, i / per_layer)) {
      y = convolved(layer + ".convolution", side, x);
    } else if (which == 0) {
      y = attention(layer + ".attention", i / per_layer, side, key, x, nullptr, {});
    } else if (which == 1 && context != nullptr) {
      y = attention(layer + ".cross", i / per_layer, side, key, x, context, batch_.source_lengths);
    } else if (const std::string kind = turn_of(c_.feed_forward, i / per_layer);
               kind.starts_with("experts")) {
      y = experts(kind, layer + ".feed_forward", side, x);
    } else {
      y = feed_forward(w_, layer + ".feed_forward", c_.activation.name(), c_.gated, x);
    }
    return drop(Dropout{rate_, derive(key, "residual")}, y);
  }
  std::string norm_name(const Side& side, std::size_t i, bool cross) const {
    const std::size_t per_layer = cross ? 3 : 2;
    const std::size_t which = i % per_layer;
    const std::string layer = layer_name(side, i / per_layer);
    if (which == 0) {
      return layer + (mixes(side, i / per_layer)       ? ".mixer_norm"
                      : convolves(side, i / per_layer) ? ".convolution_norm"
                                                       : ".attention_norm");
    }
    return layer + (which == 1 && cross ? ".cross_norm" : ".feed_forward_norm");
  }

  // The rows of a sequence that each pooled one is made of.
  std::vector<std::vector<std::size_t>> windows(std::size_t length) const {
    std::vector<std::size_t> order;
    if (c_.stage_cls) order.push_back(0);
    const std::size_t used = length - (c_.stage_cls && c_.stage_truncate ? 1 : 0);
    for (std::size_t i = 0; i < used; ++i) order.push_back(i);
    std::vector<std::vector<std::size_t>> all;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i % 2 == 0) all.emplace_back();
      all.back().push_back(order[i]);
    }
    return all;
  }

  Tensor<S> halved(const Tensor<S>& x, std::size_t length) const {
    const auto all = windows(length);
    Tensor<S> y(batch_.batch * all.size(), x.cols);
    for (std::size_t i = 0; i < y.rows; ++i) {
      const auto& rows = all[i % all.size()];
      for (std::size_t j = 0; j < y.cols; ++j) {
        const S a = x(i / all.size() * length + rows.front(), j);
        const S b = x(i / all.size() * length + rows.back(), j);
        const S larger = real_part(b) > real_part(a) ? b : a;
        y(i, j) = c_.stage_pool == StagePool::kMax ? larger : 0.5 * (a + b);
      }
    }
    return y;
  }

  Tensor<S> repeated(const Tensor<S>& x, std::size_t length, std::size_t times) const {
    const std::size_t rows = x.rows / batch_.batch;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < rows; ++i) {
      order.insert(order.end(), c_.stage_cls && i == 0 ? 1 : times, i);
    }
    Tensor<S> y(batch_.batch * length, x.cols);
    for (std::size_t i = 0; i < y.rows; ++i) {
      if (i % length >= order.size()) continue;
      for (std::size_t j = 0; j < y.cols; ++j)
        y(i, j) = x(i / length * rows + order[i % length], j);
    }
    return y;
  }

  // Post-norm layers, between whose stages sequences change their length.
  Tensor<S> staged(const Side& whole, Tensor<S> x) const {
    const std::vector<std::string> counts = split_list(c_.stages, '|');
    std::vector<std::size_t> ends;
    for (const std::string& count : counts) {
      ends.push_back((ends.empty() ? 0 : ends.back()) + std::stoul(count));
    }
    Side side = whole;
    Tensor<S> skip;
    std::vector<std::vector<std::int32_t>> lengths(counts.size());
    for (std::size_t layer = 0; layer < whole.layers; ++layer) {
      const Side before = side;
      Tensor<S> unpooled;
      const auto end = static_cast<std::size_t>(std::ranges::find(ends, layer) - ends.begin());
      if (end + 1 < ends.size()) {
        const auto all = windows(side.length);
        for (const std::int32_t real : side.lengths) {
          lengths[end].push_back(static_cast<std::int32_t>(std::ranges::count_if(
              all, [&](const auto& w) { return static_cast<std::int32_t>(w.back()) < real; })));
        }
        unpooled = x;
        if (end == 0) skip = x;
        x = halved(x, side.length);
        side.length = all.size();
        side.lengths = lengths[end];
      } else if (end + 1 == ends.size()) {
        x = add(repeated(x, whole.length, std::size_t{1} << end), skip);
        side = whole;
      }
      const RandomKey key = derive(side.key, 2 * layer);
      const std::string name = layer_name(side, layer);
      Tensor<S> mixing;
      if (unpooled.rows > 0 && c_.unpooled_keys) {
        mixing = attention(name + ".attention", layer, side, key, x, &unpooled, before.lengths);
        mixing = drop(Dropout{rate_, derive(key, "residual")}, mixing);
      } else {
        mixing = branch(side, 2 * layer, x, nullptr);
      }
      x = norm_of(norm_name(side, 2 * layer, false), add(x, mixing));
      x = norm_of(norm_name(side, 2 * layer + 1, false),
                  add(x, branch(side, 2 * layer + 1, x, nullptr)));
    }
    return x;
  }

  // One stream, to which branches add.
  Tensor<S> streamed(const Side& side, Tensor<S> x, const Tensor<S>* context) const {
    const bool cross = context != nullptr;
    const std::size_t per_layer = cross ? 3 : 2;
    const bool shares = c_.wiring == Wiring::kParallelShared;
    const bool parallel = shares || c_.wiring == Wiring::kParallel;
    Tensor<S> read = x;  // by the branches of a parallel layer
    for (std::size_t i = 0; i < side.layers * per_layer; ++i) {
      const bool first = i % per_layer == 0;
      if (!parallel || first) read = x;
      const std::string name = norm_name(side, shares ? i - i % per_layer : i, cross);
      const bool normed = c_.wiring != Wiring::kReordered && (c_.first_norm || i > 0);
      Tensor<S> y = branch(side, i, normed ? norm_of(name, read) : read, context);
      if (c_.wiring == Wiring::kReordered) y = norm_of(name, y);
      if (c_.wiring == Wiring::kSandwich) {
        y = norm_of(name.substr(0, name.size() - 5) + "_out_norm", y);
      }
      x = add(x, y);
    }
    return x;
  }

  Tensor<S> stack(const Side& side, const Tensor<S>& input, const Tensor<S>* context) const {
    const bool cross = context != nullptr;
    const std::size_t count = side.layers * (cross ? 3 : 2);
    Tensor<S> x = input;
    if (!c_.stages.empty()) return staged(side, input);
    if (c_.wiring == Wiring::kPostNorm) {
      for (std::size_t i = 0; i < count; ++i) {
        x = norm_of(norm_name(side, i, cross), add(x, branch(side, i, x, context)));
      }
      return x;
    }
    if (c_.wiring != Wiring::kReversible) {
      x = streamed(side, x, context);
    } else {
      Tensor<S> a = input;
      Tensor<S> b = input;
      for (std::size_t i = 0; i < count; ++i) {
        Tensor<S>& target = i % 2 == 0 ? a : b;
        const Tensor<S>& source = i % 2 == 0 ? b : a;
        target = add(target, branch(side, i, norm_of(norm_name(side, i, cross), source), context));
      }
      if (c_.streams == StreamEnd::kConcat) {
        x = Tensor<S>(a.rows, 2 * a.cols);
        for (std::size_t i = 0; i < x.rows; ++i) {
          for (std::size_t j = 0; j < x.cols; ++j) {
            x(i, j) = j < a.cols ? a(i, j) : b(i, j - a.cols);
          }
        }
      } else {
        x = add(a, b);
        for (S& value : x.data) value *= 0.5;
      }
    }
    return c_.final_norm ? norm_of(side.name + ".norm", x) : x;
  }

  // The last real row of sequence b, or the first with the largest id.
  std::size_t chosen(std::size_t b) const {
    const std::size_t real =
        batch_.lengths.empty() ? batch_.length : static_cast<std::size_t>(batch_.lengths[b]);
    std::size_t best = 0;
    for (std::size_t i = 1; i < real; ++i) {
      const auto* const ids = batch_.tokens.data() + b * batch_.length;
      if (c_.pool == Pool::kLast || ids[i] > ids[best]) best = i;
    }
    return b * batch_.length + best;
  }

  Tensor<S> pooled(const Tensor<S>& x) const {
    Tensor<S> y(batch_.batch, x.cols);
    for (std::size_t b = 0; b < batch_.batch; ++b) {
      if (c_.pool == Pool::kLast || c_.pool == Pool::kLargest) {
        for (std::size_t j = 0; j < x.cols; ++j) y(b, j) = x(chosen(b), j);
        continue;
      }
      std::size_t count = 1;
      if (c_.pool == Pool::kMean) {
        count =
            batch_.lengths.empty() ? batch_.length : static_cast<std::size_t>(batch_.lengths[b]);
        if (count == 0) count = 1;
      }
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t j = 0; j < x.cols; ++j) {
          y(b, j) += x(b * batch_.length + i, j) / static_cast<double>(count);
        }
      }
    }
    return y;
  }

  Tensor<S> paired(const Tensor<S>& x) const {
    Tensor<S> y(x.rows / 2, 4 * x.cols);
    for (std::size_t i = 0; i < y.rows; ++i) {
      for (std::size_t j = 0; j < x.cols; ++j) {
        const S a = x(2 * i, j);
        const S b = x(2 * i + 1, j);
        y(i, j) = a;
        y(i, x.cols + j) = b;
        y(i, 2 * x.cols + j) = a * b;
        y(i, 3 * x.cols + j) = a - b;
      }
    }
    for (const char* layer : {"head.pair.first", "head.pair.second"}) {
      y = linear(w_, layer, y);
      for (S& value : y.data) value = activation("relu", value);
    }
    return y;
  }

  Tensor<S> head(Tensor<S> x) const {
    if (c_.head == HeadKind::kPairs) {
      x = paired(pooled(x));
    } else if (c_.pools() && c_.family != Family::kPerceptron) {
      x = pooled(x);
    }
    if (c_.head_transform) {
      x = linear(w_, "head.transform", x);
      for (S& value : x.data) {
        if (c_.head_activates) value = activation(c_.head_activation.name(), value);
      }
      if (c_.head_norm) x = norm_of("head.norm", x);
    }
    return c_.head == HeadKind::kStates ? x : scores(x);
  }

  Tensor<S> scores(Tensor<S> x) const {
    const bool tied = c_.head == HeadKind::kLanguage && c_.tied;
    const bool shares = c_.shared_table && c_.stem == StemKind::kTokens;
    const bool own_table = c_.family == Family::kEncoderDecoder && !shares;
    const std::string table = own_table ? "decoder_embedding.tokens" : "embedding.tokens";
    const Tensor<S> weight = w_.get<S>(tied ? table : std::string("head.output.weight"));
    for (S& value : x.data) value *= static_cast<double>(c_.logit_scale);
    Tensor<S> y = linear(x, weight, w_.get_if<S>("head.output.bias"));
    const Tensor<S> constant = w_.get_if<S>("head.output.constant");
    const auto cap = static_cast<double>(c_.logit_cap);
    for (std::size_t i = 0; i < y.data.size(); ++i) {
      if (constant.cols > 0) y.data[i] += constant(0, i % y.cols);
      if (cap > 0.0) y.data[i] = cap * std::tanh(y.data[i] / cap);
    }
    return y;
  }

  const ModelConfig& c_;
  const Weights& w_;
  const Batch& batch_;
  bool training_;
  float rate_;
  RandomKey key_;
  mutable S auxiliary_{};  // of the experts, in the last forward
  // What those of a stack have together.
  mutable std::map<std::string, std::pair<ExpertsConfig, ExpertsLoss<S>>> joint_;
};

// scale·Σ cross-entropy of the batch.
template <class S>
S reference_loss(const ModelConfig& config, const Weights& weights, const Batch& batch,
                 RandomKey key, double scale) {
  return scale * ReferenceModel<S>(config, weights, batch, /*training=*/true, key).loss();
}

}  // namespace longspan::testing
