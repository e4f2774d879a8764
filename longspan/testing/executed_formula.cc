#include "longspan/testing/executed_formula.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "longspan/base/config.h"
#include "longspan/kernels/fourier/fourier.h"
#include "longspan/testing/executed_site.h"
#include "longspan/testing/executed_stages.h"

namespace longspan::testing {

namespace {

struct ActivationCount {
  Count forward, backward;
  Count other = 0;  // of what a gate multiplies
};
ActivationCount activation_count(Activation f) {
  if (f == Activation::kRelu) return {1, 1};
  if (f == Activation::kGelu) return {5, 11};
  if (f == Activation::kGeluTanh) return {8, 14};
  if (f == Activation::kSilu) return {4, 9};
  if (f == Activation::kTanh) return {1, 3};
  if (f == Activation::kQuickGelu) return {5, 10};
  if (f == Activation::kRelu2) return {2, 3};
  return {6, 12, 3};  // clamped
}

Count real_tokens(std::span<const std::int32_t> lengths, std::size_t b, std::size_t length) {
  return lengths.empty() ? length : static_cast<Count>(lengths[b]);
}

struct ExpertOptions {
  std::size_t experts = 8;
  std::size_t top = 1;
  double capacity = 1.25;
  double balance = 0.01;
  bool normalize = true, normalize_one = false;
  double scaling = 1.0;
  std::string score = "softmax";
  bool router_bias = false, correction = false;
  std::size_t groups = 1, top_groups = 1;
  std::string group_score = "best";
  std::size_t width = 0, shared = 0;
  bool shared_gate = false;
  std::size_t places = 0;
  std::string overflow = "drop";
  bool padding = false;
  std::string balance_of = "layer";
  double squares = 0.0;
  template <class See>
  void visit(See see) {
    see("experts", experts);
    see("top", top);
    see("capacity", capacity);
    see("balance", balance);
    see("normalize", normalize);
    see("normalize_one", normalize_one);
    see("scaling", scaling);
    see("score", score);
    see("router_bias", router_bias);
    see("correction", correction);
    see("groups", groups);
    see("top_groups", top_groups);
    see("group_score", group_score);
    see("width", width);
    see("shared", shared);
    see("shared_gate", shared_gate);
    see("places", places);
    see("overflow", overflow);
    see("padding", padding);
    see("balance_of", balance_of);
    see("squares", squares);
  }
  bool divides() const { return normalize && (top > 1 || normalize_one); }
};

struct LatentOptions {
  std::size_t rank = 512;
  std::size_t query_rank = 0;
  std::size_t nope = 128;
  std::size_t rope = 64;
  std::size_t value = 128;
  double scale = 0.0;
  std::string form = "auto";
  template <class See>
  void visit(See see) {
    see("rank", rank);
    see("query_rank", query_rank);
    see("nope", nope);
    see("rope", rope);
    see("value", value);
    see("scale", scale);
    see("form", form);
  }
};

class Formula {
 public:
  Formula(const ModelConfig& config, const Batch& batch, bool training)
      : c_(config), batch_(batch), training_(training) {}

  CostTable table();

 private:
  Count d() const { return c_.d_model; }
  bool drops() const { return training_ && c_.dropout > 0.0F; }

  // x·Wᵀ + b. With adapters every other matrix is frozen.
  Cost linear(Count rows, Count in, Count out, bool bias, bool frozen = false) const {
    const Work product = maccs(rows * in * out);
    Cost cost{product, product, product};
    if (bias) {
      cost.forward += flops(Kind::kMatmul, rows * out);
      cost.update += flops(Kind::kAdd, rows * out);
    }
    if (frozen || adapts(c_)) cost.update = {};
    return cost;
  }
  Cost adapter(Count rows, Count in, Count out) const {
    const Work products = maccs(rows * c_.lora_rank * (in + out));
    return {products, products, products};
  }
  Cost norm(Count rows, Count width) const {
    const bool layer = c_.norm == NormKind::kLayer;
    const Count shift = layer && c_.norm_bias ? width : 0;
    Cost cost{flops(Kind::kNorm, rows * (layer ? 6 * width + 5 + shift : 4 * width + 4)),
              flops(Kind::kNorm, rows * (layer ? 8 * width + 2 : 6 * width + 1)),
              flops(Kind::kNorm, rows * (2 * width + shift))};
    if (!c_.norm_weight) cost.update = flops(Kind::kAdd, rows * shift);
    if (adapts(c_)) cost.update = {};
    return cost;
  }
  Cost projection(Count rows) const {
    return linear(rows, table_width(c_), d(), c_.embedding_projection_bias);
  }

  Cost embedding(const Site& site, bool typed) const;
  Cost stem(const Site& site) const;
  Cost attention(const Site& site) const;
  Cost latent(const Site& site) const;
  Cost convolution(const Site& site) const;
  Cost experts(const std::string& specification, const Site& site, Work& again);
  void route(const ExpertOptions& o, Count tokens, Cost& cost, Work& again) const;
  Work losses(const ExpertOptions& o, Count rows, Count real) const;
  Cost shared_experts(const ExpertOptions& o, Count rows) const;
  Cost query_norms(const Site& site, const SiteAttention& mechanism) const;
  Cost feed_forward(Count rows, Count width) const;
  void stack(Site site, std::size_t layers, std::size_t frozen);
  void perceptron();
  Count pair_layers(Count rows, Count width);
  void sentence_head();
  void head();
  // What is done to the outputs of so many rows.
  Cost outputs(Count rows, Count width) const;
  // Those of a masked span loss that are no padding, else so many.
  Count judged_rows(Count rows) const;
  void loss(Count rows);

  const ModelConfig& c_;
  const Batch& batch_;
  bool training_;
  std::size_t loads_read_ = 0;
  CostTable table_;
};

Cost Formula::embedding(const Site& site, bool typed) const {
  const Count rows = site.rows(batch_.batch);
  // Positions, types and the norm are added before the projection, or behind it.
  const Count looked_up = rows * table_width(c_);
  const Count width = c_.embedding_projects_tokens ? d() : table_width(c_);
  const Count added = rows * width;
  Cost cost;
  const bool looks_up = c_.stem == StemKind::kTokens || site.part == ModelPart::kDecoder;
  if (looks_up) cost.update += flops(Kind::kGather, looked_up);
  if (looks_up && c_.embedding_scale) {
    cost.forward += flops(Kind::kAdd, looked_up);
    cost.update += flops(Kind::kAdd, looked_up);
  }
  if (c_.positions != PositionKind::kNone && c_.positions != PositionKind::kRotary) {
    cost.forward += flops(Kind::kAdd, added);
    const bool learned =
        c_.positions == PositionKind::kLearned || c_.positions == PositionKind::kAxial;
    if (learned) cost.update += flops(Kind::kAdd, added);
  }
  if (looks_up && c_.token_types > 0 && c_.embedding_types) {
    cost.forward += flops(Kind::kAdd, added);
    cost.update += flops(typed ? Kind::kGather : Kind::kAdd, added);
  }
  if (c_.embedding_norm) cost += norm(rows, width);
  if (c_.embedding_projection || table_width(c_) != d()) cost += projection(rows);
  if (drops()) {
    cost.forward += flops(Kind::kDropout, rows * d());
    cost.backward += flops(Kind::kDropout, rows * d());
  }
  return cost;
}

// Patches and a token before them, or two convolutions over three frames, zeros outside included.
Cost Formula::stem(const Site& site) const {
  const Count sequences = batch_.batch;
  const Count width = table_width(c_);
  if (c_.stem == StemKind::kPatches) {
    const Count side = c_.image / c_.patch;
    Cost cost =
        linear(sequences * side * side, c_.channels * c_.patch * c_.patch, width, c_.stem_bias);
    cost.backward = {};
    const Work token = flops(Kind::kAdd, c_.class_token ? sequences * width : 0);
    cost.forward += token;
    cost.update += token;
    return cost;
  }
  const Count rows = sequences * site.m;
  Cost first = linear(2 * rows, 3 * c_.channels, width, true);
  first.backward = {};
  Cost cost = first + linear(rows, 3 * width, width, true);
  cost.forward += flops(Kind::kActivation, 5 * 3 * rows * width);
  cost.backward += flops(Kind::kActivation, 11 * 3 * rows * width) +
                   flops(Kind::kAdd, sequences * (3 * site.m - 1) * width);
  return cost;
}

Cost Formula::attention(const Site& site) const {
  const SiteAttention mechanism = attention_at(c_, batch_, site, drops());
  const bool biased = c_.bias && c_.attention_bias;
  const bool bias = biased && c_.projection_bias;
  const Count queries = site.rows(batch_.batch);
  const Count keys = site.keys(batch_.batch);
  const Count q_width = mechanism.q_width;
  const Count k_width = mechanism.k_width;
  const Count v_width = mechanism.v_width;
  const Count pairs = site.cross ? keys : queries;
  Cost cost = linear(queries, q_width, d(), biased && c_.output_bias);  // W_O
  cost += linear(pairs, d(), site.cross ? v_width : k_width, bias && mechanism.key_bias);
  cost += linear(pairs, d(), v_width, bias);
  cost += linear(queries, d(), q_width, bias && mechanism.query_bias);
  if (adapts(c_)) {                          // one beside each matrix
    cost += adapter(queries, q_width, d());  // W_O
    cost += adapter(queries, d(), q_width);  // W_Q
    if (k_width > 0) cost += adapter(keys, d(), k_width);
    cost += adapter(keys, d(), v_width);
  }
  cost.forward += mechanism.cost.forward;
  cost.backward += mechanism.cost.backward;
  if (!adapts(c_)) cost.update += mechanism.cost.update;
  cost += query_norms(site, mechanism);
  const Count heads = heads_at(c_, site) + (k_width > 0 ? kv_heads_at(c_, site) : 0);
  const Work rotary = flops(
      Kind::kRotary, 3 * queries * heads * turning_channels(c_, site, head_width_at(c_, site)));
  cost.forward += rotary;
  cost.backward += rotary;
  return cost;
}

// Of every head, or of all side by side; keys have one where they are not the queries.
Cost Formula::query_norms(const Site& site, const SiteAttention& mechanism) const {
  Cost cost;
  if (site.cross || c_.query_norm == QueryNorm::kNone) return cost;
  const Count queries = site.rows(batch_.batch);
  for (const Count width : {mechanism.q_width, mechanism.k_width}) {
    if (width == 0) continue;
    const Count each = c_.query_norm == QueryNorm::kWhole ? width : head_width_at(c_, site);
    for (Count at = 0; at < width; at += each) cost += norm(queries, each);
  }
  return cost;
}

Cost Formula::feed_forward(Count rows, Count width) const {
  const ActivationCount a = activation_count(c_.activation);
  const bool bias = c_.bias && c_.feed_forward_bias;
  Cost cost =
      linear(rows, d(), c_.gated ? 2 * width : width, bias) + linear(rows, width, d(), bias);
  const Count elements = rows * width;
  cost.forward +=
      flops(Kind::kActivation, elements * (c_.gated ? a.forward + a.other + 1 : a.forward));
  cost.backward += flops(Kind::kActivation,
                         elements * (c_.gated ? a.forward + a.backward + a.other + 2 : a.backward));
  return cost;
}

// From a latent of `rank` the keys and values of h heads; a part `rope` of the keys is that of all.
Cost Formula::latent(const Site& site) const {
  LatentOptions o;
  const std::string options = mixer_of(c_, site);
  if (options.size() > 7) parse_options("latent", options.substr(7), o);
  const bool biased = c_.bias && c_.attention_bias;
  const bool bias = biased && c_.projection_bias;
  const Count rows = site.rows(batch_.batch);
  const Count h = heads_at(c_, site);
  const Count queries = h * (o.nope + o.rope);
  const auto rms = [&](Count width) {
    return Cost{flops(Kind::kNorm, rows * (4 * width + 4)),
                flops(Kind::kNorm, rows * (6 * width + 1)), flops(Kind::kNorm, rows * 2 * width)};
  };
  Cost cost = linear(rows, d(), o.rank + o.rope, bias) + rms(o.rank) +
              linear(rows, o.rank, h * (o.nope + o.value), false) +
              linear(rows, h * o.value, d(), biased && c_.output_bias);
  if (o.query_rank == 0) {
    cost += linear(rows, d(), queries, false);
  } else {
    cost += linear(rows, d(), o.query_rank, bias) + rms(o.query_rank) +
            linear(rows, o.query_rank, queries, false);
  }
  cost += core_at(c_, batch_, site, {.d = o.nope + o.rope, .e = o.value, .drops = drops()});
  const Count turning = o.rope > 0 ? turning_channels(c_, site, o.rope) : 0;
  const Work rotary = flops(Kind::kRotary, 3 * rows * (h + 1) * turning);
  cost.forward += rotary;
  cost.backward += rotary;
  cost.backward += flops(Kind::kAdd, (h - 1) * rows * o.rope);
  return cost;
}

// w taps of every channel of R real rows, and a bias.
Cost Formula::convolution(const Site& site) const {
  const std::string options = mixer_of(c_, site);
  const std::size_t at = options.find("width=");
  const Count width = at == std::string::npos ? 4 : std::stoul(options.substr(at + 6));
  Count elements = 0;
  for (std::size_t b = 0; b < batch_.batch; ++b) {
    elements += real_tokens(site.key_lengths, b, site.m) * d();
  }
  const bool bias_of = c_.bias && c_.attention_bias && c_.projection_bias;
  const Work taps = maccs(width * elements);
  const Work bias = flops(Kind::kAdd, bias_of ? elements : 0);
  Cost cost{.forward = taps + bias, .backward = taps};
  if (!adapts(c_)) cost.update = taps + bias;
  return cost;
}

// What T tokens take to choose k of E experts, and what it takes to go on from their choice.
void Formula::route(const ExpertOptions& o, Count tokens, Cost& cost, Work& again) const {
  const bool softmax = o.score == "softmax";
  const bool scaled = o.scaling != 1.0;
  Count forward = (softmax ? 5 : 4) * o.experts;
  Count backward = forward + o.top;
  if (o.divides()) {
    forward += softmax ? 2 * o.top - 1 : 2 * o.top;
    backward += 4 * o.top;
  }
  if (scaled) forward += o.top;
  if (scaled) backward += o.top;
  if (o.squares > 0.0) {
    forward += o.experts + 2;
    backward += 2 * o.experts + 2;
  }
  again = flops(Kind::kSoftmax, tokens * forward) + flops(Kind::kSort, tokens * o.top);
  if (o.correction) forward += o.experts;
  Count comparisons = o.top * (o.experts + 1);
  if (o.groups > 1) {
    comparisons += o.experts + o.top_groups * (o.groups + 1);
    if (o.group_score == "two-best") {
      comparisons += o.experts;
      forward += o.groups;
    }
  }
  cost.forward +=
      flops(Kind::kSoftmax, tokens * forward) + flops(Kind::kSort, tokens * comparisons);
  cost.backward += flops(Kind::kSoftmax, tokens * backward);
}

Work Formula::losses(const ExpertOptions& o, Count rows, Count real) const {
  if (!training_ || (o.balance == 0.0 && o.squares == 0.0)) return {};
  const bool sequences = o.balance_of == "sequences";
  const Count counted = sequences && o.padding ? rows : real;
  const Count groups = sequences ? Count{batch_.batch} : 1;
  return flops(Kind::kAdd,
               counted * o.experts + 2 * groups * o.experts + (o.squares > 0.0 ? 2 * counted : 0));
}

Cost Formula::shared_experts(const ExpertOptions& o, Count rows) const {
  if (o.shared == 0) return {};
  Cost cost = feed_forward(rows, o.shared);
  if (!o.shared_gate) return cost;
  cost += linear(rows, d(), 1, /*bias=*/false);
  cost.forward += flops(Kind::kActivation, rows * (d() + 4));
  cost.backward += flops(Kind::kActivation, rows * (d() + 3)) + maccs(rows * d());
  return cost;
}

// T routed tokens of M rows choose k of E experts, which compute S rows together.
Cost Formula::experts(const std::string& specification, const Site& site, Work& again) {
  ExpertOptions o;
  if (specification.size() > 8) parse_options("experts", specification.substr(8), o);
  const Count rows = site.rows(batch_.batch);
  Count real = 0;
  for (std::size_t b = 0; b < batch_.batch; ++b) real += real_tokens(site.key_lengths, b, site.m);
  const Count tokens = o.padding ? rows : real;
  Count computed = 0;
  for (std::size_t e = 0; e < o.experts; ++e) {
    computed += static_cast<Count>(batch_.loads[loads_read_++]);
  }
  const Count slots = o.overflow == "pass" ? tokens * o.top : computed;
  Cost cost = feed_forward(computed, o.width > 0 ? o.width : hidden_width(c_, site)) +
              linear(rows, d(), o.experts, o.router_bias) + shared_experts(o, rows);
  cost.forward += flops(Kind::kGather, 2 * slots * d());
  const Work both = cost.forward;
  route(o, tokens, cost, again);
  again += both;
  cost.forward += losses(o, rows, real);
  cost.backward += maccs(slots * d()) + flops(Kind::kGather, 2 * slots * d());
  return cost;
}

void Formula::stack(Site site, std::size_t layers, std::size_t frozen) {
  ExecutedStages stages(c_, batch_, site);
  Count rows = site.rows(batch_.batch);
  const bool reversible = c_.wiring == Wiring::kReversible;
  for (std::size_t i = 0; i < layers; ++i) {
    bool first = true;  // of its layer
    // `again`: what computing it a second time costs, where that is not the same.
    const auto add = [&](const std::string& name, Cost branch, const Work* again = nullptr) {
      Cost around;
      if (!goes_unnormed(c_, i, first)) around += norm(rows, d());
      if (c_.wiring == Wiring::kSandwich) around += norm(rows, d());
      first = false;
      const Count elements = rows * d();
      const bool takes_dropout = drops() && name != "fnet";
      const Work dropped = takes_dropout ? flops(Kind::kDropout, elements) : Work{};
      around.forward += flops(Kind::kAdd, elements) + dropped;
      around.backward += flops(Kind::kAdd, elements) + dropped;
      for (Cost* cost : {&branch, &around}) {
        if (reversible || c_.checkpointing) {
          cost->backward += cost == &branch && again != nullptr ? *again : cost->forward;
        }
        if (i < frozen) *cost = {.forward = cost->forward};
      }
      table_[name] += branch;
      table_["add & norm"] += around;
    };
    const Site reads = stages.enter(i, site, table_);
    rows = site.rows(batch_.batch);
    if (mixer_of(c_, site) == "fnet") {
      Work mixing;
      for (const Rectangle& r : rectangles(site, batch_)) {
        mixing += fourier_work(r.batch, r.m, c_.d_model);
      }
      add("fnet", {.forward = mixing, .backward = mixing});
    } else if (mixer_of(c_, site).starts_with("conv")) {
      add("conv", convolution(site));
    } else if (mixer_of(c_, site).starts_with("latent")) {
      add("mha", latent(site));
    } else {
      add("mha", attention(reads));
    }
    if (translates(c_) && site.part == ModelPart::kDecoder) {
      add("cross", attention(cross_site(site, batch_)));
    }
    if (turn_of(c_.feed_forward, i).starts_with("experts")) {
      Work again;
      const Cost cost = experts(turn_of(c_.feed_forward, i), site, again);
      add("ffn", cost, &again);
    } else {
      add("ffn", feed_forward(rows, hidden_width(c_, site)));
    }
  }
  const bool concat = c_.streams == StreamEnd::kConcat;
  if (c_.wiring != Wiring::kPostNorm && c_.final_norm) {
    table_["final norm"] += norm(rows, concat ? 2 * d() : d());
  }
  if (reversible) {
    table_["streams"] += {.forward = flops(Kind::kAdd, concat ? 0 : 2 * rows * d()),
                          .backward = flops(Kind::kAdd, (concat ? 1 : 2) * rows * d())};
  }
}

// The first layer sends no signal to the features.
void Formula::perceptron() {
  const Count elements = Count{batch_.batch} * d();
  const ActivationCount a = activation_count(c_.activation);
  const Work dropped = drops() ? flops(Kind::kDropout, elements) : Work{};
  for (std::size_t i = 0; i < c_.layers; ++i) {
    Cost cost = linear(batch_.batch, i == 0 ? c_.inputs : d(), d(), c_.bias);
    if (i == 0) cost.backward = {};
    cost.forward += flops(Kind::kActivation, elements * a.forward) + dropped;
    cost.backward += flops(Kind::kActivation, elements * a.backward) + dropped;
    table_["hidden"] += cost;
  }
}

// [a, b, a∘b, a − b] of two sequences through two layers with ReLU; returns the width of the last.
Count Formula::pair_layers(Count rows, Count width) {
  const Count wide = hidden_width(c_);
  const Count narrow = std::max<Count>(1, wide / 2);
  Cost& head = table_["head"];
  head += linear(rows, 4 * width, wide, true) + linear(rows, wide, narrow, true);
  head.forward += flops(Kind::kActivation, rows * (wide + narrow));
  head.backward += flops(Kind::kActivation, rows * (wide + narrow));
  head.forward += flops(Kind::kAdd, 2 * rows * width);
  head.backward += flops(Kind::kAdd, 6 * rows * width);
  return narrow;
}

// tanh of a linear map of the first row, and classes of it.
void Formula::sentence_head() {
  if (c_.pair_classes == 0) return;
  const Count width = c_.streams == StreamEnd::kConcat ? 2 * d() : d();
  const Count rows = batch_.batch;
  Cost cost = linear(rows, width, width, true) + linear(rows, width, c_.pair_classes, true);
  cost.forward += flops(Kind::kActivation, rows * width);
  cost.backward += flops(Kind::kActivation, 3 * rows * width) + flops(Kind::kAdd, rows * width);
  const bool known = !batch_.sentence_targets.empty();
  if (known || batch_.targets.empty()) {
    const auto ignored = static_cast<Count>(std::ranges::count(batch_.sentence_targets, -1));
    cost.forward += flops(Kind::kSoftmax, 5 * rows * c_.pair_classes);
    cost.backward += flops(Kind::kSoftmax, known ? rows - ignored : rows);
  } else if (training_) {
    cost = {};
  }
  table_["sentence head"] += cost;
}

void Formula::head() {
  const bool pairs = c_.head == HeadKind::kPairs;
  Count width = end_width(c_);
  const Count rows = output_rows(c_, batch_);
  if (pools(c_) && c_.family != Family::kPerceptron && c_.pool == Pool::kMean) {
    Count tokens = 0;
    for (std::size_t b = 0; b < batch_.batch; ++b) {
      tokens += std::max<Count>(1, real_tokens(batch_.lengths, b, batch_.length));
    }
    table_["head"].forward += flops(Kind::kAdd, (tokens + batch_.batch) * width);
    table_["head"].backward += flops(Kind::kAdd, batch_.batch * width);
  }
  if (pairs) width = pair_layers(rows, width);
  if (c_.head_transform) {
    const ActivationCount a = activation_count(c_.head_activation);
    const Count to = transformed_width(c_);
    Cost& head = table_["head"];
    head += linear(rows, width, to, c_.head_transform_bias);
    if (c_.head_activates) {
      head.forward += flops(Kind::kActivation, rows * to * a.forward);
      head.backward += flops(Kind::kActivation, rows * to * a.backward);
    }
    if (c_.head_norm) head += norm(rows, to);
    width = to;
  }
  if (c_.head != HeadKind::kStates) table_["softmax layer"] += outputs(rows, width);
  loss(rows);
}

Cost Formula::outputs(Count rows, Count width) const {
  // A table that is frozen is so for the output layer that shares it.
  const bool shared = c_.head == HeadKind::kLanguage && c_.tied && c_.frozen_layers > 0;
  const bool frozen = shared && (!translates(c_) || shares_table(c_));
  const Count elements = rows * output_columns(c_);
  Cost cost = linear(rows, width, output_columns(c_), false, frozen);
  if (c_.head_bias) {
    cost.forward += flops(Kind::kMatmul, elements);
    if (!adapts(c_)) cost.update += flops(Kind::kAdd, elements);
  }
  if (c_.head_constant_bias) cost.forward += flops(Kind::kAdd, elements);
  const Work scaling = score_scaling(c_, batch_);
  const Work capping = score_capping(c_, batch_);
  cost.forward += scaling + capping;
  cost.backward += scaling;
  if (c_.logit_cap > 0.0F) cost.backward += flops(Kind::kActivation, 3 * elements);
  return cost;
}

Count Formula::judged_rows(Count rows) const {
  if (c_.loss != "span:masked=true") return rows;
  Count real = 0;
  for (std::size_t b = 0; b < batch_.batch; ++b) {
    real += real_tokens(batch_.lengths, b, batch_.length);
  }
  return real;
}

void Formula::loss(Count rows) {
  Cost& output = table_["softmax layer"];
  const Count outputs = output_columns(c_);
  if (c_.loss == "squared-error") {
    output.forward += flops(Kind::kAdd, (training_ ? 4 : 3) * rows * outputs);
    output.backward += flops(Kind::kAdd, 3 * rows * outputs);
    return;
  }
  if (c_.loss == "weighted-sum") {
    output.forward += flops(Kind::kAdd, (training_ ? 3 : 2) * rows * outputs);
    output.backward += flops(Kind::kAdd, rows * outputs);
    return;
  }
  const auto ignored = static_cast<Count>(std::ranges::count(batch_.targets, -1));
  const bool spans = c_.loss.starts_with("span");
  const Count answers = spans                 ? Count{batch_.batch} * outputs
                        : c_.loss == "binary" ? rows * outputs
                                              : rows;
  const Count counted = batch_.targets.empty() ? answers : batch_.targets.size() - ignored;
  if (training_ && c_.loss.starts_with("distillation")) {
    output.forward += flops(Kind::kSoftmax, 24 * counted * outputs);
    const bool states = c_.loss.find("hidden_weight") != std::string::npos;
    if (states) output.forward += maccs(3 * counted * end_width(c_));
    if (states) output.backward += maccs(5 * counted * end_width(c_));
  } else {
    output.forward += flops(Kind::kSoftmax, 5 * judged_rows(rows) * outputs);
    output.backward += flops(Kind::kSoftmax, counted);
  }
}

CostTable Formula::table() {
  if (c_.family == Family::kPerceptron) perceptron();
  if (encodes(c_)) {
    const Site site = encoder_site(c_, batch_);
    Cost cost = embedding(site, !translates(c_) && !batch_.token_types.empty());
    if (!trains_embedding(c_, site)) cost = {.forward = cost.forward};
    table_["embedding"] += cost;
    if (c_.stem != StemKind::kTokens) {
      Cost own = stem(site);
      if (!trains_embedding(c_, site)) own = {.forward = own.forward};
      table_["stem"] += own;
    }
    stack(site, c_.layers, c_.frozen_layers);
  }
  if (decodes(c_)) {
    const Site site = decoder_site(batch_);
    Cost cost = embedding(site, !batch_.token_types.empty());
    const Count elements = site.rows(batch_.batch) * table_width(c_);
    if (!trains_embedding(c_, site)) {
      cost = {.forward = cost.forward};
    } else if (!trains_table(c_, site)) {
      cost.update[Kind::kGather] -= elements;
      if (c_.embedding_scale) cost.update[Kind::kAdd] -= elements;
    }
    table_["embedding"] += cost;
    stack(site, translates(c_) ? c_.decoder_layers : c_.layers,
          translates(c_) ? 0 : c_.frozen_layers);
  }
  head();
  sentence_head();
  if (!training_) {
    for (auto& [name, cost] : table_) cost = {.forward = cost.forward};
  }
  return table_;
}

}  // namespace

CostTable executed_formula(const ModelConfig& config, const Batch& batch, bool training) {
  return Formula(config, batch, training).table();
}

}  // namespace longspan::testing
