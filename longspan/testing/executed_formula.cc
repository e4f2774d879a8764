#include "longspan/testing/executed_formula.h"

#include <algorithm>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/attention/registry.h"
#include "longspan/base/config.h"
#include "longspan/kernels/fourier/fourier.h"

namespace longspan::testing {

namespace {

using Count = std::uint64_t;

struct ActivationCount {
  Count forward, backward;
};
ActivationCount activation_count(std::string_view name) {
  if (name == "relu") return {1, 1};
  if (name == "gelu") return {5, 11};
  if (name == "gelu-tanh") return {8, 14};
  if (name == "silu") return {4, 9};
  return {1, 3};  // tanh
}

// "a|b", layer 3 → b
std::string turn_of(std::string_view mechanisms, std::size_t layer) {
  const auto count = static_cast<std::size_t>(std::ranges::count(mechanisms, '|')) + 1;
  for (std::size_t i = 0; i < layer % count; ++i) {
    mechanisms.remove_prefix(mechanisms.find('|') + 1);
  }
  return std::string(mechanisms.substr(0, mechanisms.find('|')));
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
  // Where one attention or one stack stands.
  struct Site {
    std::string part;
    bool causal = false;
    bool cross = false;
    std::size_t layer = 0;
    std::size_t m = 0;
    std::size_t n = 0;
    std::span<const std::int32_t> key_lengths;
    Count rows(std::size_t batch) const { return Count{batch} * m; }
  };

  Count d() const { return c_.d_model; }
  Count d_ff() const { return c_.d_ff == 0 ? 4 * c_.d_model : c_.d_ff; }
  Count kv_width() const {
    return (c_.kv_heads == 0 ? c_.heads : c_.kv_heads) * (c_.d_model / c_.heads);
  }
  bool adapted() const { return c_.lora_rank > 0; }
  bool drops() const { return training_ && c_.dropout > 0.0F; }
  bool both() const { return c_.family == "encoder-decoder"; }

  // x·Wᵀ + b. With adapters every other matrix is frozen.
  Cost linear(Count rows, Count in, Count out, bool bias, bool frozen = false) const {
    const Work product = maccs(rows * in * out);
    Cost cost{product, product, product};
    if (bias) {
      cost.forward += flops(Kind::kMatmul, rows * out);
      cost.update += flops(Kind::kAdd, rows * out);
    }
    if (frozen || adapted()) cost.update = {};
    return cost;
  }
  Cost adapter(Count rows, Count in, Count out) const {
    const Work products = maccs(rows * c_.lora_rank * (in + out));
    return {products, products, products};
  }
  Cost norm(Count rows, Count width) const {
    const bool layer = c_.norm == "layer";
    Cost cost{flops(Kind::kNorm, rows * (layer ? 7 * width + 5 : 4 * width + 4)),
              flops(Kind::kNorm, rows * (layer ? 8 * width + 2 : 6 * width + 1)),
              flops(Kind::kNorm, rows * (layer ? 3 : 2) * width)};
    if (adapted()) cost.update = {};
    return cost;
  }

  Cost embedding(const Site& site, bool typed) const;
  const std::string& attention_of(const Site& site) const;
  Cost attention(const Site& site) const;
  Cost experts(const std::string& specification, const Site& site, Work& again);
  Cost feed_forward(Count rows) const;
  void stack(Site site, std::size_t layers, std::size_t frozen);
  // Stages: their ends among the layers, and what happens there.
  void begin_stages(const Site& site);
  void pool(Site& site);
  void repeat(Site& site);
  void head();

  const ModelConfig& c_;
  const Batch& batch_;
  bool training_;
  std::size_t loads_read_ = 0;
  CostTable table_;
  std::vector<std::size_t> stage_ends_;
  std::vector<Site> stage_sites_;
  std::deque<std::vector<std::int32_t>> stage_lengths_;
};

Cost Formula::embedding(const Site& site, bool typed) const {
  const Count elements = site.rows(batch_.batch) * d();
  Cost cost;
  cost.update += flops(Kind::kGather, elements);
  if (c_.embedding_scale) {
    cost.forward += flops(Kind::kAdd, elements);
    cost.update += flops(Kind::kAdd, elements);
  }
  if (c_.positions != "none" && c_.positions != "rotary") {
    cost.forward += flops(Kind::kAdd, elements);
    if (c_.positions != "sinusoidal") cost.update += flops(Kind::kAdd, elements);
  }
  if (c_.token_types > 0 && c_.embedding_types) {
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

const std::string& Formula::attention_of(const Site& site) const {
  if (site.cross && both() && !c_.cross_attention.empty()) return c_.cross_attention;
  const bool own = both() && site.part == "decoder" && !c_.decoder_attention.empty();
  return own ? c_.decoder_attention : c_.attention;
}

Cost Formula::attention(const Site& site) const {
  const std::string& specification = attention_of(site);
  const LoneAttention mechanism(turn_of(specification, site.layer),
                                {.layer = site.layer,
                                 .d_model = c_.d_model,
                                 .heads = c_.heads,
                                 .kv_heads = c_.kv_heads == 0 ? c_.heads : c_.kv_heads,
                                 .d_head = c_.d_model / c_.heads,
                                 .max_length = c_.max_length});
  const bool bias = c_.bias && c_.attention_bias;
  const AttentionCost inner =
      mechanism->cost({.batch = batch_.batch,
                       .heads = c_.heads,
                       .kv_heads = c_.kv_heads == 0 ? c_.heads : c_.kv_heads,
                       .m = site.m,
                       .n = site.n,
                       .d = c_.d_model / c_.heads,
                       .e = c_.d_model / c_.heads,
                       .causal = site.causal,
                       .key_lengths = site.key_lengths,
                       .dropout = drops()});
  const Count queries = site.rows(batch_.batch);
  const Count keys = Count{batch_.batch} * site.n;
  const Count k_width = mechanism->abilities().shared_qk ? 0 : kv_width();
  Cost cost = linear(queries, d(), d(), bias);  // W_O
  if (site.cross) {
    cost += linear(keys, d(), 2 * kv_width(), bias);
  } else {
    cost += linear(queries, d(), k_width + kv_width(), bias);
  }
  cost += linear(queries, d(), d(), bias && mechanism.streams().given[0].bias.value_or(true));
  if (adapted()) {                       // one beside each matrix
    cost += adapter(queries, d(), d());  // W_O
    cost += adapter(queries, d(), d());  // W_Q
    if (k_width > 0) cost += adapter(keys, d(), k_width);
    cost += adapter(keys, d(), kv_width());
  }
  cost.forward += inner.forward;
  cost.backward += inner.backward;
  if (!adapted()) cost.update += inner.update;
  if (c_.positions == "rotary" && !site.cross) {
    const Work rotary = flops(Kind::kRotary, 3 * queries * (d() + k_width));
    cost.forward += rotary;
    cost.backward += rotary;
  }
  return cost;
}

Cost Formula::feed_forward(Count rows) const {
  const Count f = d_ff();
  const ActivationCount a = activation_count(c_.activation);
  Cost cost = linear(rows, d(), c_.gated ? 2 * f : f, c_.bias) + linear(rows, f, d(), c_.bias);
  cost.forward += flops(Kind::kActivation, rows * f * (c_.gated ? a.forward + 1 : a.forward));
  cost.backward +=
      flops(Kind::kActivation, rows * f * (c_.gated ? a.forward + a.backward + 2 : a.backward));
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

void Formula::begin_stages(const Site& site) {
  stage_ends_ = {};
  stage_sites_ = {site};
  if (c_.stages.empty() || site.part != "encoder") return;
  std::size_t end = 0;
  for (std::size_t from = 0; from <= c_.stages.size();) {
    const std::size_t to = std::min(c_.stages.find('|', from), c_.stages.size());
    end += static_cast<std::size_t>(std::stoi(c_.stages.substr(from, to - from)));
    stage_ends_.push_back(end);
    from = to + 1;
  }
}

// Pairs of the first 2p of u rows become p, with a first row that stands apart beside them.
void Formula::pool(Site& site) {
  const Site longer = site;
  const std::size_t alone = c_.stage_cls ? 1 : 0;
  const std::size_t used = site.m - (c_.stage_cls && c_.stage_truncate ? 1 : 0);
  const std::size_t pairs = (used - alone) / 2;
  site.m = site.n = alone + (used - alone + 1) / 2;
  std::vector<std::int32_t> real;
  for (const std::int32_t length : longer.key_lengths) {
    const auto rows = static_cast<std::size_t>(length);
    const std::size_t whole = rows < alone ? 0 : alone + (rows - alone) / 2;
    real.push_back(static_cast<std::int32_t>(rows >= used ? site.m : whole));
  }
  stage_lengths_.push_back(real);
  site.key_lengths = stage_lengths_.back();
  const bool mean = c_.stage_pool == "mean";
  const Count elements = Count{batch_.batch} * d();
  table_["stages"] +=
      {.forward = flops(Kind::kAdd, elements * pairs * (mean ? 2 : 1)),
       .backward = flops(Kind::kAdd, elements * (pairs * (mean ? 3 : 2) + site.m - pairs))};
  if (stage_sites_.size() == 1) {  // what skips the pools
    table_["stages"] += {.backward = flops(Kind::kAdd, elements * longer.m)};
  }
  stage_sites_.push_back(site);
}

void Formula::repeat(Site& site) {
  const std::size_t times = std::size_t{1} << (stage_ends_.size() - 1);
  const Site& whole = stage_sites_.front();
  std::size_t repeated = 0;
  std::size_t sums = 0;
  for (std::size_t i = 0; i < site.m; ++i) {
    const std::size_t copies = std::min(c_.stage_cls && i == 0 ? 1 : times, whole.m - repeated);
    repeated += copies;
    sums += copies > 0 ? 1 : 0;
  }
  const Count elements = Count{batch_.batch} * d();
  table_["stages"] += {.forward = flops(Kind::kAdd, elements * repeated),
                       .backward = flops(Kind::kAdd, elements * (repeated - sums))};
  site = whole;
}

void Formula::stack(Site site, std::size_t layers, std::size_t frozen) {
  begin_stages(site);
  Count rows = site.rows(batch_.batch);
  const bool reversible = c_.wiring == "reversible";
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
    Site reads = site;
    if (const auto stage = std::ranges::find(stage_ends_, i); stage != stage_ends_.end()) {
      if (stage + 1 == stage_ends_.end()) {
        repeat(site);
        reads = site;
      } else {
        pool(site);
        reads.cross = c_.unpooled_keys;
        if (!c_.unpooled_keys) reads = site;
        reads.m = site.m;
      }
      rows = site.rows(batch_.batch);
    }
    site.layer = reads.layer = i;
    if (turn_of(attention_of(site), i) == "fnet") {
      const Work mixing = fourier_work(batch_.batch, site.m, c_.d_model);
      add("fnet", {.forward = mixing, .backward = mixing});
    } else {
      add("mha", attention(reads));
    }
    if (both() && site.part == "decoder") {
      Site cross = site;
      cross.cross = true;
      cross.causal = false;
      cross.n = batch_.source_length;
      cross.key_lengths = batch_.source_lengths;
      add("cross", attention(cross));
    }
    if (turn_of(c_.feed_forward, i).starts_with("experts")) {
      Work again;
      const Cost cost = experts(turn_of(c_.feed_forward, i), site, again);
      add("ffn", cost, &again);
    } else {
      add("ffn", feed_forward(rows));
    }
  }
  const bool concat = c_.streams == "concat";
  if (c_.wiring != "post" && c_.final_norm) {
    table_["final norm"] += norm(rows, concat ? 2 * d() : d());
  }
  if (reversible) {
    table_["streams"] += {.forward = flops(Kind::kAdd, concat ? 0 : 2 * rows * d()),
                          .backward = flops(Kind::kAdd, (concat ? 1 : 2) * rows * d())};
  }
}

void Formula::head() {
  const bool classifies = c_.head == "classifier";
  const Count d_in = c_.streams == "concat" ? 2 * d() : d();
  const Count rows = classifies ? batch_.batch : Count{batch_.batch} * batch_.length;
  const Count outputs = c_.head == "lm" ? c_.vocab : c_.classes;
  if (classifies && c_.pool == "mean") {
    Count tokens = 0;
    for (std::size_t b = 0; b < batch_.batch; ++b) {
      tokens += std::max<Count>(1, real_tokens(batch_.lengths, b, batch_.length));
    }
    table_["head"].forward += flops(Kind::kAdd, (tokens + rows) * d_in);
    table_["head"].backward += flops(Kind::kAdd, rows * d_in);
  }
  if (c_.head_transform) {
    const ActivationCount a = activation_count(c_.head_activation);
    Cost& head = table_["head"];
    head += linear(rows, d_in, d_in, true);
    head.forward += flops(Kind::kActivation, rows * d_in * a.forward);
    head.backward += flops(Kind::kActivation, rows * d_in * a.backward);
    if (c_.head_norm) head += norm(rows, d_in);
  }
  // A table that is frozen is so for the output layer that shares it.
  const bool shared = c_.head == "lm" && c_.tied && c_.frozen_layers > 0;
  const bool frozen = shared && (!both() || c_.shared_table);
  Cost output = linear(rows, d_in, outputs, false, frozen);
  if (c_.head_bias) {
    output.forward += flops(Kind::kMatmul, rows * outputs);
    if (!adapted()) output.update += flops(Kind::kAdd, rows * outputs);
  }
  if (c_.loss == "squared-error") {
    output.forward += flops(Kind::kAdd, (training_ ? 4 : 3) * rows * outputs);
    output.backward += flops(Kind::kAdd, 3 * rows * outputs);
  } else {
    const auto ignored = static_cast<Count>(std::ranges::count(batch_.targets, -1));
    const Count counted = batch_.targets.empty() ? rows : batch_.targets.size() - ignored;
    output.forward += flops(Kind::kSoftmax, 5 * rows * outputs);
    output.backward += flops(Kind::kSoftmax, counted);
  }
  table_["softmax layer"] += output;
}

CostTable Formula::table() {
  const bool encodes = c_.family != "decoder";
  const bool decodes = c_.family != "encoder";
  const bool frozen = c_.frozen_layers > 0;
  // A decoder's own tables are trained where the encoder's are frozen, its token table if it is
  // not the encoder's.
  if (encodes) {
    const std::size_t n = both() ? batch_.source_length : batch_.length;
    const Site site{.part = "encoder",
                    .m = n,
                    .n = n,
                    .key_lengths = both() ? batch_.source_lengths : batch_.lengths};
    Cost cost = embedding(site, !both() && !batch_.token_types.empty());
    if (frozen || adapted()) cost = {.forward = cost.forward};
    table_["embedding"] += cost;
    stack(site, c_.layers, c_.frozen_layers);
  }
  if (decodes) {
    const Site site{.part = "decoder",
                    .causal = true,
                    .m = batch_.length,
                    .n = batch_.length,
                    .key_lengths = batch_.lengths};
    Cost cost = embedding(site, !batch_.token_types.empty());
    const Count elements = site.rows(batch_.batch) * d();
    if (adapted() || (frozen && !both())) cost = {.forward = cost.forward};
    if (both() && frozen && c_.shared_table && !adapted()) {
      const Count looked_up = elements;
      cost.update[Kind::kGather] -= looked_up;
      if (c_.embedding_scale) cost.update[Kind::kAdd] -= elements;
      const bool others = c_.positions == "learned" || c_.positions == "axial" ||
                          (c_.token_types > 0 && c_.embedding_types) || c_.embedding_norm;
      if (!others) cost = {.forward = cost.forward};
    }
    table_["embedding"] += cost;
    stack(site, both() ? c_.decoder_layers : c_.layers, both() ? 0 : c_.frozen_layers);
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
