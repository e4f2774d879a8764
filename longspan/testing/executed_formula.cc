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
};
ActivationCount activation_count(Activation f) {
  if (f == Activation::kRelu) return {1, 1};
  if (f == Activation::kGelu) return {5, 11};
  if (f == Activation::kGeluTanh) return {8, 14};
  if (f == Activation::kSilu) return {4, 9};
  return {1, 3};  // tanh
}

Count real_tokens(std::span<const std::int32_t> lengths, std::size_t b, std::size_t length) {
  return lengths.empty() ? length : static_cast<Count>(lengths[b]);
}

struct ExpertOptions {
  std::size_t experts = 8;
  std::size_t top = 1;
  double capacity = 1.25;
  double balance = 0.01;
  bool normalize = true;
  template <class See>
  void visit(See see) {
    see("experts", experts);
    see("top", top);
    see("capacity", capacity);
    see("balance", balance);
    see("normalize", normalize);
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
  Cost attention(const Site& site) const;
  Cost convolution(const Site& site) const;
  Cost experts(const std::string& specification, const Site& site, Work& again);
  Cost query_norms(const Site& site, const SiteAttention& mechanism) const;
  Cost feed_forward(Count rows, const Site& site) const;
  void stack(Site site, std::size_t layers, std::size_t frozen);
  void perceptron();
  Count pair_layers(Count rows, Count width);
  void head();
  // What is done to the outputs of so many rows.
  Cost outputs(Count rows, Count width) const;
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
  cost.update += flops(Kind::kGather, looked_up);
  if (c_.embedding_scale) {
    cost.forward += flops(Kind::kAdd, looked_up);
    cost.update += flops(Kind::kAdd, looked_up);
  }
  if (c_.positions != PositionKind::kNone && c_.positions != PositionKind::kRotary) {
    cost.forward += flops(Kind::kAdd, added);
    const bool learned =
        c_.positions == PositionKind::kLearned || c_.positions == PositionKind::kAxial;
    if (learned) cost.update += flops(Kind::kAdd, added);
  }
  if (c_.token_types > 0 && c_.embedding_types) {
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

Cost Formula::attention(const Site& site) const {
  const SiteAttention mechanism = attention_at(c_, batch_, site, drops());
  const bool biased = c_.bias && c_.attention_bias;
  const bool bias = biased && c_.projection_bias;
  const Count queries = site.rows(batch_.batch);
  const Count keys = site.keys(batch_.batch);
  const Count q_width = mechanism.q_width;
  const Count k_width = mechanism.k_width;
  const Count v_width = mechanism.v_width;
  Cost cost = linear(queries, q_width, d(), biased && c_.output_bias);  // W_O
  if (site.cross) {
    cost += linear(keys, d(), v_width + v_width, bias);
  } else {
    cost += linear(queries, d(), k_width + v_width, bias);
  }
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
  const Work rotary = flops(Kind::kRotary, 3 * queries * heads * turning_channels(c_, site));
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

Cost Formula::feed_forward(Count rows, const Site& site) const {
  const Count f = hidden_width(c_, site);
  const ActivationCount a = activation_count(c_.activation);
  const bool bias = c_.bias && c_.feed_forward_bias;
  Cost cost = linear(rows, d(), c_.gated ? 2 * f : f, bias) + linear(rows, f, d(), bias);
  cost.forward += flops(Kind::kActivation, rows * f * (c_.gated ? a.forward + 1 : a.forward));
  cost.backward +=
      flops(Kind::kActivation, rows * f * (c_.gated ? a.forward + a.backward + 2 : a.backward));
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

// T real tokens of M rows choose k of E experts, which compute S rows together.
Cost Formula::experts(const std::string& specification, const Site& site, Work& again) {
  ExpertOptions o;
  if (specification.size() > 8) parse_options("experts", specification.substr(8), o);
  const Count rows = site.rows(batch_.batch);
  Count tokens = 0;
  for (std::size_t b = 0; b < batch_.batch; ++b) tokens += real_tokens(site.key_lengths, b, site.m);
  Count slots = 0;
  for (std::size_t e = 0; e < o.experts; ++e) {
    slots += static_cast<Count>(batch_.loads[loads_read_++]);
  }
  Cost cost = feed_forward(slots, site) + linear(rows, d(), o.experts, /*bias=*/false);
  const bool divided = o.normalize && o.top > 1;
  cost.forward += flops(Kind::kGather, 2 * slots * d()) +
                  flops(Kind::kSoftmax, tokens * (5 * o.experts + (divided ? 2 * o.top - 1 : 0)));
  again = cost.forward + flops(Kind::kSort, tokens * o.top);
  cost.forward += flops(Kind::kSort, tokens * o.top * (o.experts + 1));
  if (training_ && o.balance > 0.0) {
    cost.forward += flops(Kind::kAdd, rows * o.experts + 2 * o.experts);
  }
  cost.backward +=
      maccs(slots * d()) + flops(Kind::kGather, 2 * slots * d()) +
      flops(Kind::kSoftmax, tokens * (5 * o.experts + o.top + (divided ? 4 * o.top : 0)));
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
      add("ffn", feed_forward(rows, site));
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
  const bool frozen = shared && (!translates(c_) || c_.shared_table);
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

void Formula::loss(Count rows) {
  Cost& output = table_["softmax layer"];
  const Count outputs = output_columns(c_);
  if (c_.loss == "squared-error") {
    output.forward += flops(Kind::kAdd, (training_ ? 4 : 3) * rows * outputs);
    output.backward += flops(Kind::kAdd, 3 * rows * outputs);
    return;
  }
  const auto ignored = static_cast<Count>(std::ranges::count(batch_.targets, -1));
  const Count counted = batch_.targets.empty() ? rows : batch_.targets.size() - ignored;
  if (training_ && c_.loss.starts_with("distillation")) {
    output.forward += flops(Kind::kSoftmax, 24 * counted * outputs);
    const bool states = c_.loss.find("hidden_weight") != std::string::npos;
    if (states) output.forward += maccs(3 * counted * end_width(c_));
    if (states) output.backward += maccs(5 * counted * end_width(c_));
  } else {
    output.forward += flops(Kind::kSoftmax, 5 * rows * outputs);
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
