#include "longspan/measure/operation.h"

#include <fmt/core.h>

#include <algorithm>

#include "longspan/base/parallel.h"
#include "longspan/kernels/gemm_tiles.h"
#include "longspan/kernels/pieces.h"

namespace longspan {

namespace {

// What one thread of all does when c equal pieces are shared out: ⌈c/T⌉/c.
double busiest_share(std::size_t pieces) {
  const auto threads = static_cast<std::size_t>(thread_count());
  const std::size_t rounds = (pieces + threads - 1) / threads;
  return static_cast<double>(rounds) / static_cast<double>(std::max<std::size_t>(pieces, 1));
}

double round_up(std::size_t value, std::size_t unit) {
  return static_cast<double>((value + unit - 1) / unit * unit);
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
  void linear_backward(std::size_t rows, std::size_t in, std::size_t out, bool bias) {
    product("product backward", Phase::kBackward, rows, in, out);
    product("product update", Phase::kUpdate, out, in, rows);
    if (bias) this->rows("column sums", Phase::kUpdate, rows, out);
  }
  void norm_forward(std::size_t rows, Phase phase, bool saves) {
    this->rows((saves ? "norm saved " : "norm ") + c_.norm, phase, rows, c_.d_model);
  }
  void norm_backward(std::size_t rows) {
    this->rows("norm update " + c_.norm, Phase::kUpdate, rows, c_.d_model);
    this->rows("norm backward " + c_.norm, Phase::kBackward, rows, c_.d_model);
  }

  void embedding(std::size_t batch, std::size_t length);
  void embedding_backward(std::size_t rows);
  // Queries and keys of one attention, and what its mechanism does.
  struct Attended {
    std::size_t batch, m, n;
    std::size_t projected;  // width of the projection of the queries' side
    bool cross;
    Work forward, backward, update;
  };
  Attended attended(const CostTable& table, bool cross, std::size_t batch, std::size_t m,
                    std::size_t n, std::size_t layers) const;
  std::size_t projected_width() const;
  void mechanism(const Attended& a, const Work& work, Phase as, Phase phase);
  void attention(const Attended& a, Phase phase);
  void attention_backward(const Attended& a);
  void feed_forward(std::size_t rows, Phase phase);
  void feed_forward_backward(std::size_t rows);
  void stack(const Attended& self, const Attended* cross, std::size_t layers);
  template <class Forward, class Backward>
  void sublayer(std::size_t rows, Forward forward, Backward backward);
  void head(std::size_t batch, std::size_t length);

  const Model& model_;
  const ModelConfig& c_;
  bool training_;
  ModelCost cost_;
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

// The layer's cost less its projections: the mechanism's.
Walk::Attended Walk::attended(const CostTable& table, bool cross, std::size_t batch, std::size_t m,
                              std::size_t n, std::size_t layers) const {
  Attended a{.batch = batch, .m = m, .n = n, .cross = cross};
  a.projected = cross ? c_.d_model : projected_width();
  const auto entry = table.find(cross ? "cross" : "mha");
  if (entry == table.end()) return a;
  const Cost& cost = entry->second;
  a.forward = cost.forward;
  a.backward = cost.backward;
  a.update = cost.update;
  const std::uint64_t d = c_.d_model;
  std::uint64_t projections = std::uint64_t{batch} * m * d * (a.projected + d);
  if (cross) projections += std::uint64_t{batch} * n * d * 2 * kv_width();
  for (Work* work : {&a.forward, &a.backward, &a.update}) {
    if (reversible() && work == &a.backward) {  // holds a second forward
      work->maccs -= cost.forward.maccs;
      for (std::size_t i = 0; i < kKinds; ++i) work->other[i] -= cost.forward.other[i];
    }
    work->maccs = work->maccs / layers - projections;
    for (std::uint64_t& flops : work->other) flops /= layers;
    (*work)[Kind::kRotary] = 0;
  }
  return a;
}

void Walk::embedding(std::size_t batch, std::size_t length) {
  layer_ = "embedding";
  const std::size_t n = batch * length;
  rows("gather", Phase::kForward, n, c_.d_model);
  if (c_.positions == "learned" || c_.positions == "sinusoidal") {
    for (std::size_t b = 0; b < batch; ++b) rows("add", Phase::kForward, length, c_.d_model);
  }
  if (c_.token_types > 0) rows("add", Phase::kForward, n, c_.d_model);
  if (c_.embedding_norm) norm_forward(n, Phase::kForward, training_);
  if (drops()) rows("dropout", Phase::kForward, n, c_.d_model);
  if (training_) embedding_backward(n);
}

void Walk::embedding_backward(std::size_t n) {
  if (drops()) rows("dropout", Phase::kBackward, n, c_.d_model);
  if (c_.embedding_norm) norm_backward(n);
  if (c_.positions == "learned") rows("add", Phase::kUpdate, n, c_.d_model);
  if (c_.token_types > 0) rows("column sums", Phase::kUpdate, n, c_.d_model);
  rows("scatter", Phase::kUpdate, n, c_.d_model);
}

void Walk::mechanism(const Attended& a, const Work& work, Phase as, Phase phase) {
  const auto queries = static_cast<double>(a.batch * c_.heads * a.m);
  add(attention_rate(c_.attention, as), phase, attention_quantities(queries, work), work.maccs);
  if (const std::uint64_t dropped = work[Kind::kDropout]; dropped > 0) {
    rows("dropout", phase, 1, dropped);
  }
}

void Walk::attention(const Attended& a, Phase phase) {
  const std::size_t queries = a.batch * a.m;
  linear_forward(queries, c_.d_model, a.projected, phase);
  if (a.cross) linear_forward(a.batch * a.n, c_.d_model, 2 * kv_width(), phase);
  if (c_.positions == "rotary" && !a.cross) rows("rotary", phase, queries, c_.d_model + kv_width());
  mechanism(a, a.forward, Phase::kForward, phase);
  linear_forward(queries, c_.d_model, c_.d_model, phase);
}

void Walk::attention_backward(const Attended& a) {
  const std::size_t queries = a.batch * a.m;
  const bool bias = c_.bias && c_.attention_bias;
  linear_backward(queries, c_.d_model, c_.d_model, bias);
  mechanism(a, a.backward + a.update, Phase::kBackward, Phase::kBackward);
  if (c_.positions == "rotary" && !a.cross) {
    rows("rotary", Phase::kBackward, queries, c_.d_model + kv_width());
  }
  linear_backward(queries, c_.d_model, a.projected, bias);
  if (a.cross) linear_backward(a.batch * a.n, c_.d_model, 2 * kv_width(), bias);
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
void Walk::sublayer(std::size_t n, Forward forward, Backward backward) {
  const std::string branch = layer_;
  // A reversible block does its forward again on the way back.
  for (const bool again : {false, true}) {
    if (again && !(training_ && reversible())) continue;
    const Phase phase = again ? Phase::kBackward : Phase::kForward;
    layer_ = "add & norm";
    norm_forward(n, phase, training_ && (again || !reversible()));
    if (drops()) rows("dropout", phase, n, c_.d_model);
    rows("add", phase, n, c_.d_model);
    layer_ = branch;
    forward(phase);
  }
  if (!training_) return;
  backward();
  layer_ = "add & norm";
  if (drops()) rows("dropout", Phase::kBackward, n, c_.d_model);
  norm_backward(n);
  if (c_.wiring == "post") rows("add", Phase::kBackward, n, c_.d_model);
}

void Walk::stack(const Attended& self, const Attended* cross, std::size_t layers) {
  const std::size_t n = self.batch * self.m;
  for (std::size_t i = 0; i < layers; ++i) {
    layer_ = "mha";
    sublayer(
        n, [&](Phase phase) { attention(self, phase); }, [&] { attention_backward(self); });
    if (cross != nullptr) {
      layer_ = "cross";
      sublayer(
          n, [&](Phase phase) { attention(*cross, phase); }, [&] { attention_backward(*cross); });
    }
    layer_ = "ffn";
    sublayer(
        n, [&](Phase phase) { feed_forward(n, phase); }, [&] { feed_forward_backward(n); });
  }
  if (c_.wiring != "post") {
    layer_ = "final norm";
    norm_forward(n, Phase::kForward, training_);
    if (training_) norm_backward(n);
  }
  if (reversible()) {
    layer_ = "streams";
    for (int i = 0; i < (training_ ? 5 : 3); ++i) rows("add", Phase::kForward, n, c_.d_model);
  }
}

void Walk::head(std::size_t batch, std::size_t length) {
  const bool classifier = c_.head == "classifier";
  const std::size_t n = classifier ? batch : batch * length;
  const std::size_t outputs = classifier ? c_.classes : c_.vocab;
  layer_ = "head";
  if (classifier && c_.pool == "mean")
    rows("column sums", Phase::kForward, batch * length, c_.d_model);
  if (c_.head_transform) {
    linear_forward(n, c_.d_model, c_.d_model, Phase::kForward);
    add("activation " + c_.head_activation, Phase::kForward, row_quantities(n, c_.d_model, 0.0));
    if (c_.head_norm) norm_forward(n, Phase::kForward, training_);
    if (training_) {
      if (c_.head_norm) norm_backward(n);
      rows("activation backward " + c_.head_activation, Phase::kBackward, n, c_.d_model);
      linear_backward(n, c_.d_model, c_.d_model, true);
    }
  }
  layer_ = "softmax layer";
  linear_forward(n, c_.d_model, outputs, Phase::kForward);
  rows(training_ ? "loss saved" : "loss", Phase::kForward, n, outputs);
  if (training_) linear_backward(n, c_.d_model, outputs, c_.head_bias);
}

void Walk::run(const Batch& b) {
  const bool encodes = c_.family != "decoder";
  const bool decodes = c_.family != "encoder";
  const std::size_t source = encodes && decodes ? b.source_length : b.length;
  if (encodes) {
    embedding(b.batch, source);
    stack(attended(cost_.encoder, false, b.batch, source, source, c_.layers), nullptr, c_.layers);
  }
  if (decodes) {
    const std::size_t layers = encodes ? c_.decoder_layers : c_.layers;
    embedding(b.batch, b.length);
    const Attended cross = attended(cost_.decoder, true, b.batch, b.length, source, layers);
    stack(attended(cost_.decoder, false, b.batch, b.length, b.length, layers),
          encodes ? &cross : nullptr, layers);
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

std::vector<double> product_quantities(std::size_t m, std::size_t n, std::size_t k) {
  const detail::GemmTiles tiles = detail::gemm_tiles(m, n, k);
  const std::size_t count = tiles.count();
  const double share = busiest_share(count);
  const auto across = static_cast<double>(tiles.across());
  const auto down = static_cast<double>(count) / across;
  const auto depth = static_cast<double>(k);
  // Rows and columns are computed by whole micro-tiles.
  const double rows = round_up(m, 6);
  const double cols = round_up(n, 16);
  return {share * rows * cols * depth,        share * rows * depth * across,
          share * cols * depth * down,        share * rows * cols,
          share * static_cast<double>(count), 1.0};
}

std::vector<double> row_quantities(std::size_t rows, std::size_t cols, double calls) {
  const std::size_t elements = rows * cols;
  const std::size_t pieces = (elements + detail::kPieceElements - 1) / detail::kPieceElements;
  const double share = busiest_share(pieces);
  return {share * static_cast<double>(elements), share * static_cast<double>(rows), calls};
}

std::vector<double> attention_quantities(double queries, const Work& work) {
  // Heads are shared out, and most mechanisms cut them further.
  const double share = 1.0 / static_cast<double>(thread_count());
  const auto softmax = static_cast<double>(work[Kind::kSoftmax]);
  const auto other = static_cast<double>(work.other_flops() - work[Kind::kDropout]) - softmax;
  return {share * static_cast<double>(work.maccs), share * softmax, share * other, share * queries,
          1.0};
}

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
