#include "longspan/measure/operation.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "longspan/measure/quantities.h"

namespace longspan {

namespace {

// One layer's part of the work of `layers`, without the MACCs that are known; rotations are calls
// of their own.
Work share(Work work, std::uint64_t layers, std::uint64_t known) {
  if (layers == 0) return {};
  work.maccs = work.maccs / layers - std::min(known, work.maccs / layers);
  for (std::uint64_t& flops : work.other) flops /= layers;
  for (std::uint64_t& bytes : work.bytes) bytes /= layers;
  work[Kind::kRotary] = 0;
  return work;
}

// work −= part/layers·times
void take_off(Work& work, const Work& part, std::uint64_t layers, std::uint64_t times) {
  work.maccs -= std::min(work.maccs, part.maccs / layers * times);
  for (std::size_t i = 0; i < kKinds; ++i) {
    work.other[i] -= std::min(work.other[i], part.other[i] / layers * times);
    work.bytes[i] -= std::min(work.bytes[i], part.bytes[i] / layers * times);
  }
}

// "a|b" → a, b
std::vector<std::string> taken_in_turn(const std::string& specification) {
  std::vector<std::string> turns;
  std::size_t first = 0;
  while (first <= specification.size()) {
    const std::size_t end = std::min(specification.find('|', first), specification.size());
    turns.push_back(specification.substr(first, end - first));
    first = end + 1;
  }
  return turns;
}

// Writes down the calls of a model in the order of its code.
class Walk {
 public:
  Walk(const Model& model, const Batch& batch, bool training)
      : model_(model),
        c_(model.config()),
        training_(training),
        cost_(model.cost_by_part(batch, training)) {}

  void run(const Batch& batch);
  void optimizer(const OptimizerConfig& config);
  std::vector<Operation> take() { return std::move(operations_); }

 private:
  std::size_t kv_width() const {
    return (c_.kv_heads == 0 ? c_.heads : c_.kv_heads) * (c_.d_model / c_.heads);
  }
  std::size_t d_ff() const { return c_.d_ff == 0 ? 4 * c_.d_model : c_.d_ff; }
  bool drops() const { return training_ && c_.dropout > 0.0F; }
  bool reversible() const { return c_.wiring == "reversible"; }
  bool recomputes() const { return reversible() || c_.checkpointing; }
  // With adapters nothing else learns.
  bool adapts() const { return c_.lora_rank > 0; }
  std::size_t trained(std::size_t layers) const { return layers - std::min(layers, frozen_); }

  void add(std::string rate, Phase phase, std::vector<double> x, std::uint64_t maccs = 0) {
    operations_.push_back({std::move(rate), layer_, phase, std::move(x), maccs});
  }
  // A call on rows×cols in `phase`.
  void rows(const std::string& rate, Phase phase, std::size_t rows, std::size_t cols) {
    add(rate, phase, row_quantities(rows, cols));
  }
  void product(const char* rate, Phase phase, std::size_t m, std::size_t n, std::size_t k) {
    add(rate, phase, product_quantities(m, n, k), std::uint64_t{m} * n * k);
  }

  void linear_forward(std::size_t rows, std::size_t in, std::size_t out, Phase phase) {
    product("product forward", phase, rows, out, in);
  }
  void linear_backward(std::size_t rows, std::size_t in, std::size_t out, bool bias,
                       bool learns = true) {
    product("product backward", Phase::kBackward, rows, in, out);
    if (adapts() || !learns) return;
    product("product update", Phase::kUpdate, out, in, rows);
    if (bias) this->rows("column sums", Phase::kUpdate, rows, out);
  }
  // x·Aᵀ·Bᵀ beside a layer of attention, A r×in, B out×r.
  void adapter_forward(std::size_t rows, std::size_t in, std::size_t out, Phase phase) {
    if (!adapts()) return;
    product("product forward", phase, rows, c_.lora_rank, in);
    product("product forward", phase, rows, out, c_.lora_rank);
  }
  void adapter_backward(std::size_t rows, std::size_t in, std::size_t out) {
    if (!adapts()) return;
    product("product backward", Phase::kBackward, rows, c_.lora_rank, out);
    product("product backward", Phase::kBackward, rows, in, c_.lora_rank);
    product("product update", Phase::kUpdate, out, c_.lora_rank, rows);
    product("product update", Phase::kUpdate, c_.lora_rank, in, rows);
  }
  // Reversible streams may end side by side.
  std::size_t output_width() const {
    return reversible() && c_.streams == "concat" ? 2 * c_.d_model : c_.d_model;
  }
  void norm_forward(std::size_t rows, Phase phase, bool saves) {
    norm_forward(rows, phase, saves, c_.d_model);
  }
  void norm_forward(std::size_t rows, Phase phase, bool saves, std::size_t width) {
    this->rows((saves ? "norm saved " : "norm ") + c_.norm, phase, rows, width);
  }
  void norm_backward(std::size_t rows) { norm_backward(rows, c_.d_model); }
  void norm_backward(std::size_t rows, std::size_t width) {
    if (!adapts()) this->rows("norm update " + c_.norm, Phase::kUpdate, rows, width);
    this->rows("norm backward " + c_.norm, Phase::kBackward, rows, width);
  }

  void embedding(std::size_t batch, std::size_t length);
  void embedding_backward(std::size_t rows);
  // Queries and keys of one attention, and what its mechanism does.
  struct Attended {
    std::size_t batch, m, n;
    std::size_t projected;  // width of the projection of the queries' side
    bool cross;
    std::vector<std::string> mechanisms;  // that the layers take in turn
    std::vector<Work> forward, backward;  // of each
  };
  // In the decoder of both or in the only stack.
  struct Place {
    bool cross, decoder;
    std::size_t m, n, layers;
  };
  Attended attended(const Batch& batch, const Place& place) const;
  std::string specification(const Place& place) const;
  std::size_t projected_width() const;
  void mechanism(const Attended& a, std::size_t layer, Phase as, Phase phase);
  void attention(const Attended& a, std::size_t layer, Phase phase);
  void attention_backward(const Attended& a, std::size_t layer);
  void feed_forward(std::size_t rows, Phase phase);
  void feed_forward_backward(std::size_t rows);
  void stack(const Attended& self, const Attended* cross, std::size_t layers);
  template <class Forward, class Backward>
  void sublayer(std::size_t rows, bool learns, Forward forward, Backward backward);
  void head(std::size_t batch, std::size_t length);

  const Model& model_;
  const ModelConfig& c_;
  bool training_;
  ModelCost cost_;
  std::size_t frozen_ = 0;  // layers of the stack that is walked
  std::string layer_;
  std::vector<Operation> operations_;
};

// q|k|v, as wide as the layer made it: a mechanism may have no keys of its own.
std::size_t Walk::projected_width() const {
  for (const Parameter& p : model_.parameters().all()) {
    if (p.name.ends_with(".attention.qkv.weight")) return p.rows;
  }
  return c_.d_model + 2 * kv_width();
}

std::string Walk::specification(const Place& p) const {
  if (p.cross && !c_.cross_attention.empty()) return c_.cross_attention;
  const bool both = c_.family == "encoder-decoder";
  return both && p.decoder && !c_.decoder_attention.empty() ? c_.decoder_attention : c_.attention;
}

// The layer's cost less its projections: the mechanism's. Where layers take several mechanisms in
// turn, each is asked of a model that has no other.
Walk::Attended Walk::attended(const Batch& batch, const Place& p) const {
  Attended a{.batch = batch.batch, .m = p.m, .n = p.n, .cross = p.cross};
  a.projected = p.cross ? c_.d_model : projected_width();
  a.mechanisms = taken_in_turn(specification(p));
  const std::uint64_t d = c_.d_model;
  std::uint64_t projections = std::uint64_t{a.batch} * p.m * d * (a.projected + d);
  if (p.cross) projections += std::uint64_t{a.batch} * p.n * d * 2 * kv_width();
  const std::uint64_t adapters =
      p.cross ? 0 : std::uint64_t{a.batch} * p.m * c_.lora_rank * (3 * d + a.projected);
  for (const std::string& mechanism : a.mechanisms) {
    ModelCost alone;
    if (a.mechanisms.size() > 1) {
      ModelConfig only = c_;
      only.attention = only.decoder_attention = only.cross_attention = mechanism;
      alone = Model(only, ModelUse::kCount).cost_by_part(batch, training_);
    }
    const ModelCost& parts = a.mechanisms.size() > 1 ? alone : cost_;
    const CostTable& table = p.decoder ? parts.decoder : parts.encoder;
    const auto entry = table.find(p.cross ? "cross" : "mha");
    const Cost cost = entry == table.end() ? Cost{} : entry->second;
    Work backward = cost.backward;
    if (recomputes()) take_off(backward, cost.forward, p.layers, trained(p.layers));
    a.forward.push_back(share(cost.forward, p.layers, projections + adapters));
    a.backward.push_back(share(backward, trained(p.layers), projections + adapters) +
                         share(cost.update, trained(p.layers), adapts() ? adapters : projections));
  }
  return a;
}

void Walk::embedding(std::size_t batch, std::size_t length) {
  layer_ = "embedding";
  const std::size_t n = batch * length;
  rows("gather", Phase::kForward, n, c_.d_model);
  if (c_.embedding_scale) rows("add", Phase::kForward, n, c_.d_model);
  if (c_.positions != "none" && c_.positions != "rotary") {
    for (std::size_t b = 0; b < batch; ++b) rows("add", Phase::kForward, length, c_.d_model);
  }
  if (c_.token_types > 0) rows("add", Phase::kForward, n, c_.d_model);
  if (c_.embedding_norm) norm_forward(n, Phase::kForward, training_);
  if (drops()) rows("dropout", Phase::kForward, n, c_.d_model);
  if (training_ && !adapts() && c_.frozen_layers == 0) embedding_backward(n);
}

void Walk::embedding_backward(std::size_t n) {
  if (drops()) rows("dropout", Phase::kBackward, n, c_.d_model);
  if (c_.embedding_norm) norm_backward(n);
  if (c_.embedding_scale) rows("add", Phase::kBackward, n, c_.d_model);
  if (c_.positions == "learned" || c_.positions == "axial") {
    rows("add", Phase::kUpdate, n, c_.d_model);
  }
  if (c_.token_types > 0) rows("column sums", Phase::kUpdate, n, c_.d_model);
  rows("scatter", Phase::kUpdate, n, c_.d_model);
}

void Walk::mechanism(const Attended& a, std::size_t layer, Phase as, Phase phase) {
  const std::size_t turn = layer % a.mechanisms.size();
  const Work& work = as == Phase::kForward ? a.forward[turn] : a.backward[turn];
  const auto queries = static_cast<double>(a.batch * c_.heads * a.m);
  add(attention_rate(a.mechanisms[turn], as), phase, attention_quantities(queries, work),
      work.maccs);
  if (const std::uint64_t dropped = work[Kind::kDropout]; dropped > 0) {
    rows("dropout", phase, 1, dropped);
  }
}

void Walk::attention(const Attended& a, std::size_t layer, Phase phase) {
  const std::size_t queries = a.batch * a.m;
  linear_forward(queries, c_.d_model, a.projected, phase);
  if (a.cross) linear_forward(a.batch * a.n, c_.d_model, 2 * kv_width(), phase);
  if (c_.positions == "rotary" && !a.cross) rows("rotary", phase, queries, c_.d_model + kv_width());
  mechanism(a, layer, Phase::kForward, phase);
  linear_forward(queries, c_.d_model, c_.d_model, phase);
  if (a.cross) return;
  adapter_forward(queries, c_.d_model, a.projected, phase);
  adapter_forward(queries, c_.d_model, c_.d_model, phase);
}

void Walk::attention_backward(const Attended& a, std::size_t layer) {
  const std::size_t queries = a.batch * a.m;
  const bool bias = c_.bias && c_.attention_bias;
  linear_backward(queries, c_.d_model, c_.d_model, bias);
  mechanism(a, layer, Phase::kBackward, Phase::kBackward);
  if (c_.positions == "rotary" && !a.cross) {
    rows("rotary", Phase::kBackward, queries, c_.d_model + kv_width());
  }
  linear_backward(queries, c_.d_model, a.projected, bias);
  if (a.cross) return linear_backward(a.batch * a.n, c_.d_model, 2 * kv_width(), bias);
  adapter_backward(queries, c_.d_model, a.projected);
  adapter_backward(queries, c_.d_model, c_.d_model);
}

void Walk::feed_forward(std::size_t n, Phase phase) {
  const std::size_t hidden = c_.gated ? 2 * d_ff() : d_ff();
  linear_forward(n, c_.d_model, hidden, phase);
  if (c_.gated) {
    rows("gated " + c_.activation, phase, n, d_ff());
  } else {
    add("activation " + c_.activation, phase, row_quantities(n, d_ff(), 0.0));
  }
  linear_forward(n, d_ff(), c_.d_model, phase);
}

void Walk::feed_forward_backward(std::size_t n) {
  const std::size_t hidden = c_.gated ? 2 * d_ff() : d_ff();
  linear_backward(n, d_ff(), c_.d_model, c_.bias);
  rows((c_.gated ? "gated backward " : "activation backward ") + c_.activation, Phase::kBackward, n,
       d_ff());
  linear_backward(n, c_.d_model, hidden, c_.bias);
}

template <class Forward, class Backward>
void Walk::sublayer(std::size_t n, bool learns, Forward forward, Backward backward) {
  const std::string branch = layer_;
  // What kept nothing does its forward again on the way back.
  for (const bool again : {false, true}) {
    if (again && !(learns && recomputes())) continue;
    const Phase phase = again ? Phase::kBackward : Phase::kForward;
    layer_ = "add & norm";
    norm_forward(n, phase, learns && (again || !recomputes()));
    if (drops()) rows("dropout", phase, n, c_.d_model);
    rows("add", phase, n, c_.d_model);
    layer_ = branch;
    forward(phase);
  }
  if (!learns) return;
  backward();
  layer_ = "add & norm";
  if (drops()) rows("dropout", Phase::kBackward, n, c_.d_model);
  norm_backward(n);
  if (c_.wiring == "post") rows("add", Phase::kBackward, n, c_.d_model);
}

void Walk::stack(const Attended& self, const Attended* cross, std::size_t layers) {
  const std::size_t n = self.batch * self.m;
  for (std::size_t i = 0; i < layers; ++i) {
    const bool learns = training_ && i + trained(layers) >= layers;
    layer_ = "mha";
    sublayer(
        n, learns, [&](Phase phase) { attention(self, i, phase); },
        [&] { attention_backward(self, i); });
    if (cross != nullptr) {
      layer_ = "cross";
      sublayer(
          n, learns, [&](Phase phase) { attention(*cross, i, phase); },
          [&] { attention_backward(*cross, i); });
    }
    layer_ = "ffn";
    sublayer(
        n, learns, [&](Phase phase) { feed_forward(n, phase); }, [&] { feed_forward_backward(n); });
  }
  if (c_.wiring != "post") {
    layer_ = "final norm";
    norm_forward(n, Phase::kForward, training_, output_width());
    if (training_) norm_backward(n, output_width());
  }
  if (reversible()) {
    layer_ = "streams";
    for (int i = 0; i < (training_ ? 5 : 3); ++i) rows("add", Phase::kForward, n, c_.d_model);
  }
}

void Walk::head(std::size_t batch, std::size_t length) {
  const bool classifier = c_.head == "classifier";
  const std::size_t n = classifier ? batch : batch * length;
  const std::size_t outputs = c_.outputs();
  const std::size_t d = output_width();
  layer_ = "head";
  if (classifier && c_.pool == "mean") rows("column sums", Phase::kForward, batch * length, d);
  if (c_.head_transform) {
    linear_forward(n, d, d, Phase::kForward);
    add("activation " + c_.head_activation, Phase::kForward, row_quantities(n, d, 0.0));
    if (c_.head_norm) norm_forward(n, Phase::kForward, training_, d);
    if (training_) {
      if (c_.head_norm) norm_backward(n, d);
      rows("activation backward " + c_.head_activation, Phase::kBackward, n, d);
      linear_backward(n, d, d, true);
    }
  }
  layer_ = "softmax layer";
  linear_forward(n, d, outputs, Phase::kForward);
  rows(training_ ? "loss saved" : "loss", Phase::kForward, n, outputs);
  // A table that is frozen is so for the output layer that shares it.
  const bool learns = !(c_.head == "lm" && c_.tied && c_.frozen_layers > 0);
  if (training_) linear_backward(n, d, outputs, c_.head_bias, learns);
}

void Walk::run(const Batch& b) {
  const bool encodes = c_.family != "decoder";
  const bool decodes = c_.family != "encoder";
  const std::size_t source = encodes && decodes ? b.source_length : b.length;
  frozen_ = c_.frozen_layers;
  if (encodes) {
    embedding(b.batch, source);
    stack(attended(b, {false, false, source, source, c_.layers}), nullptr, c_.layers);
  }
  if (decodes) {
    if (encodes) frozen_ = 0;  // an encoder's first layers are meant
    const std::size_t layers = encodes ? c_.decoder_layers : c_.layers;
    embedding(b.batch, b.length);
    const Attended self = attended(b, {false, true, b.length, b.length, layers});
    std::optional<Attended> cross;
    if (encodes) cross = attended(b, {true, true, b.length, source, layers});
    stack(self, cross ? &*cross : nullptr, layers);
  }
  head(b.batch, b.length);
}

void Walk::optimizer(const OptimizerConfig& config) {
  const std::size_t count = model_.parameters().count();
  layer_ = "optimizer";
  rows("zero and norm", Phase::kOptimizer, 1, count);
  rows("step " + config.kind, Phase::kOptimizer, 1, count);
}

}  // namespace

std::string attention_rate(std::string_view specification, Phase phase) {
  const std::string_view name = specification.substr(0, specification.find(':'));
  return fmt::format("attention {} {}", name_of(phase), name);
}

std::vector<Operation> forward_operations(const Model& model, const Batch& shape) {
  Walk walk(model, shape, /*training=*/false);
  walk.run(shape);
  return walk.take();
}

std::vector<Operation> step_operations(const Model& model, const Batch& shape,
                                       const OptimizerConfig& optimizer) {
  Walk walk(model, shape, /*training=*/true);
  walk.run(shape);
  walk.optimizer(optimizer);
  return walk.take();
}

}  // namespace longspan
