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
  if (f == Activation::kQuickGelu) return {5, 10};
  if (f == Activation::kRelu2) return {2, 3};
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
    Cost cost{flops(Kind::kNorm, rows * (layer ? 7 * width + 5 : 4 * width + 4)),
              flops(Kind::kNorm, rows * (layer ? 8 * width + 2 : 6 * width + 1)),
              flops(Kind::kNorm, rows * (layer ? 3 : 2) * width)};
    if (adapts(c_)) cost.update = {};
    return cost;
  }

  Cost embedding(const Site& site, bool typed) const;
  Cost stem(const Site& site) const;
  Cost attention(const Site& site) const;
  Cost convolution(const Site& site) const;
  Cost experts(const std::string& specification, const Site& site, Work& again);
  Cost feed_forward(Count rows) const;
  void stack(Site site, std::size_t layers, std::size_t frozen);
  void perceptron();
  Count pair_layers(Count rows, Count width);
  void sentence_head();
  void head();

  const ModelConfig& c_;
  const Batch& batch_;
  bool training_;
  std::size_t loads_read_ = 0;
  CostTable table_;
};

Cost Formula::embedding(const Site& site, bool typed) const {
  const Count elements = site.rows(batch_.batch) * d();
  Cost cost;
  const bool looks_up = c_.stem == StemKind::kTokens || site.part == ModelPart::kDecoder;
  if (looks_up) cost.update += flops(Kind::kGather, elements);
  if (looks_up && c_.embedding_scale) {
    cost.forward += flops(Kind::kAdd, elements);
    cost.update += flops(Kind::kAdd, elements);
  }
  if (c_.positions != PositionKind::kNone && c_.positions != PositionKind::kRotary) {
    cost.forward += flops(Kind::kAdd, elements);
    const bool learned =
        c_.positions == PositionKind::kLearned || c_.positions == PositionKind::kAxial;
    if (learned) cost.update += flops(Kind::kAdd, elements);
  }
  if (looks_up && c_.token_types > 0 && c_.embedding_types) {
    cost.forward += flops(Kind::kAdd, elements);
    cost.update += flops(typed ? Kind::kGather : Kind::kAdd, elements);
  }
  if (c_.embedding_norm) cost += norm(site.rows(batch_.batch), d());
  if (c_.embedding_projection) cost += linear(site.rows(batch_.batch), d(), d(), /*bias=*/true);
  if (drops()) {
    cost.forward += flops(Kind::kDropout, elements);
    cost.backward += flops(Kind::kDropout, elements);
  }
  return cost;
}

// Patches and a token before them, or two convolutions over three frames, zeros outside included.
Cost Formula::stem(const Site& site) const {
  const Count sequences = batch_.batch;
  if (c_.stem == StemKind::kPatches) {
    const Count side = c_.image / c_.patch;
    Cost cost =
        linear(sequences * side * side, c_.channels * c_.patch * c_.patch, d(), c_.stem_bias);
    cost.backward = {};
    const Work token = flops(Kind::kAdd, c_.class_token ? sequences * d() : 0);
    cost.forward += token;
    cost.update += token;
    return cost;
  }
  const Count rows = sequences * site.m;
  Cost first = linear(2 * rows, 3 * c_.channels, d(), true);
  first.backward = {};
  Cost cost = first + linear(rows, 3 * d(), d(), true);
  cost.forward += flops(Kind::kActivation, 5 * 3 * rows * d());
  cost.backward += flops(Kind::kActivation, 11 * 3 * rows * d()) +
                   flops(Kind::kAdd, sequences * (3 * site.m - 1) * d());
  return cost;
}

Cost Formula::attention(const Site& site) const {
  const SiteAttention mechanism = attention_at(c_, batch_, site, drops());
  const bool bias = c_.bias && c_.attention_bias;
  const Count queries = site.rows(batch_.batch);
  const Count keys = site.keys(batch_.batch);
  const Count k_width = mechanism.k_width;
  Cost cost = linear(queries, d(), d(), bias);  // W_O
  const Count pairs = site.cross ? keys : queries;
  cost += linear(pairs, d(), site.cross ? kv_width(c_) : k_width, bias && mechanism.key_bias);
  cost += linear(pairs, d(), kv_width(c_), bias);
  cost += linear(queries, d(), d(), bias && mechanism.query_bias);
  if (adapts(c_)) {                      // one beside each matrix
    cost += adapter(queries, d(), d());  // W_O
    cost += adapter(queries, d(), d());  // W_Q
    if (k_width > 0) cost += adapter(keys, d(), k_width);
    cost += adapter(keys, d(), kv_width(c_));
  }
  cost.forward += mechanism.cost.forward;
  cost.backward += mechanism.cost.backward;
  if (!adapts(c_)) cost.update += mechanism.cost.update;
  if (c_.positions == PositionKind::kRotary && !site.cross) {
    const Work rotary = flops(Kind::kRotary, 3 * queries * (d() + k_width));
    cost.forward += rotary;
    cost.backward += rotary;
  }
  return cost;
}

Cost Formula::feed_forward(Count rows) const {
  const Count f = hidden_width(c_);
  const ActivationCount a = activation_count(c_.activation);
  Cost cost = linear(rows, d(), c_.gated ? 2 * f : f, c_.bias) + linear(rows, f, d(), c_.bias);
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
  const Work taps = maccs(width * elements);
  const Work bias = flops(Kind::kAdd, c_.bias && c_.attention_bias ? elements : 0);
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
  Cost cost = feed_forward(slots) + linear(rows, d(), o.experts, /*bias=*/false);
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
    // `again`: what computing it a second time costs, where that is not the same.
    const auto add = [&](const std::string& name, Cost branch, const Work* again = nullptr) {
      Cost around = norm(rows, d());
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
      add("ffn", feed_forward(rows));
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
  const bool classifies = pairs || c_.head == HeadKind::kClassifier;
  Count d_in = c_.streams == StreamEnd::kConcat ? 2 * d() : d();
  const Count rows = output_rows(c_, batch_);
  const Count outputs = c_.head == HeadKind::kLanguage ? c_.vocab : c_.classes;
  if (classifies && c_.family != Family::kPerceptron && c_.pool == Pool::kMean) {
    Count tokens = 0;
    for (std::size_t b = 0; b < batch_.batch; ++b) {
      tokens += std::max<Count>(1, real_tokens(batch_.lengths, b, batch_.length));
    }
    table_["head"].forward += flops(Kind::kAdd, (tokens + batch_.batch) * d_in);
    table_["head"].backward += flops(Kind::kAdd, batch_.batch * d_in);
  }
  if (pairs) d_in = pair_layers(rows, d_in);
  if (c_.head_transform) {
    const ActivationCount a = activation_count(c_.head_activation);
    Cost& head = table_["head"];
    head += linear(rows, d_in, d_in, true);
    head.forward += flops(Kind::kActivation, rows * d_in * a.forward);
    head.backward += flops(Kind::kActivation, rows * d_in * a.backward);
    if (c_.head_norm) head += norm(rows, d_in);
  }
  // A table that is frozen is so for the output layer that shares it.
  const bool shared = c_.head == HeadKind::kLanguage && c_.tied && c_.frozen_layers > 0;
  const bool frozen = shared && (!translates(c_) || shares_table(c_));
  Cost output = linear(rows, d_in, outputs, false, frozen);
  if (c_.head_bias) {
    output.forward += flops(Kind::kMatmul, rows * outputs);
    if (!adapts(c_)) output.update += flops(Kind::kAdd, rows * outputs);
  }
  if (c_.loss == "squared-error") {
    output.forward += flops(Kind::kAdd, (training_ ? 4 : 3) * rows * outputs);
    output.backward += flops(Kind::kAdd, 3 * rows * outputs);
  } else if (c_.loss == "weighted-sum") {
    output.forward += flops(Kind::kAdd, (training_ ? 3 : 2) * rows * outputs);
    output.backward += flops(Kind::kAdd, rows * outputs);
  } else {
    const auto ignored = static_cast<Count>(std::ranges::count(batch_.targets, -1));
    const bool spans = c_.loss.starts_with("span");
    const Count answers = spans                 ? Count{batch_.batch} * outputs
                          : c_.loss == "binary" ? rows * outputs
                                                : rows;
    const Count counted = batch_.targets.empty() ? answers : batch_.targets.size() - ignored;
    if (training_ && c_.loss.starts_with("distillation")) {
      output.forward += flops(Kind::kSoftmax, 24 * counted * outputs);
      const bool states = c_.loss.find("hidden_weight") != std::string::npos;
      const Count width = (c_.streams == StreamEnd::kConcat ? 2 : 1) * c_.d_model;
      if (states) output.forward += maccs(3 * counted * width);
      if (states) output.backward += maccs(5 * counted * width);
    } else {
      Count judged = rows;
      if (c_.loss == "span:masked=true") {
        judged = 0;
        for (std::size_t b = 0; b < batch_.batch; ++b) {
          judged += real_tokens(batch_.lengths, b, batch_.length);
        }
      }
      output.forward += flops(Kind::kSoftmax, 5 * judged * outputs);
      output.backward += flops(Kind::kSoftmax, counted);
    }
  }
  table_["softmax layer"] += output;
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
    const Count elements = site.rows(batch_.batch) * d();
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
