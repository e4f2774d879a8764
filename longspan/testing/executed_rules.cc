#include "longspan/testing/executed_rules.h"

#include "longspan/base/error.h"
#include "longspan/testing/executed_formula.h"
#include "longspan/testing/executed_site.h"

namespace longspan::testing {

namespace {

constexpr std::string_view kLastLayer = "softmax layer";

// α·(a − a_err) of so many elements; α is folded in.
Work differences(Count elements) { return flops(Kind::kAdd, elements); }

class Passes {
 public:
  Passes(const ModelConfig& config, const Feedback& feedback, const Batch& batch, bool keeps)
      : c_(config), feedback_(feedback), batch_(batch), keeps_(keeps) {}

  CostTable table() const;

 private:
  Count d() const { return c_.d_model; }
  Count output_elements() const { return output_rows(c_, batch_) * output_columns(c_); }
  Count rows(const Site& site) const { return site.rows(batch_.batch); }
  bool in_model_space() const {
    return translates(c_) && feedback_.error_space == ErrorSpace::kModel;
  }

  Work projection() const;
  Work injection() const;
  Work embedding(const Site& stack) const;
  Work attention(const Site& site) const;
  Work stack(Site site, std::size_t layers, std::size_t frozen) const;
  Work head() const;

  const ModelConfig& c_;
  const Feedback& feedback_;
  const Batch& batch_;
  bool keeps_;
};

// softmax(T_enc·Eᵀ/√w)·E
Work Passes::projection() const {
  const Count pairs = Count{batch_.batch} * batch_.source_length * batch_.length;
  return maccs(pairs * (in_model_space() ? 2 * d() : Count{c_.vocab})) +
         flops(Kind::kSoftmax, 5 * pairs) + flops(Kind::kAdd, pairs);
}

// From e to what is added to the inputs, and the addition.
Work Passes::injection() const {
  if (c_.family == Family::kPerceptron) return maccs(output_elements() * c_.inputs);
  const Count tokens = tokens_of(batch_);
  const Count sources = translates(c_) ? rows(encoder_site(c_, batch_)) : 0;
  Work work = maccs(output_elements() * d());
  if (pools(c_)) work += flops(Kind::kAdd, tokens * d());
  if (in_model_space()) {
    work += flops(Kind::kAdd, (tokens + sources) * d());
  } else {
    work += maccs(sources * c_.vocab * d());
  }
  return work;
}

Work Passes::embedding(const Site& stack) const {
  Work work;
  if (!trains_embedding(c_, stack)) return work;
  work += differences(rows(stack) * d() * (c_.embedding_norm ? 2 : 1));
  // What reaches an encoder in the space of the model is no longer of the vocabulary.
  const bool lost = in_model_space() && stack.part == ModelPart::kEncoder;
  const bool dense =
      c_.head == HeadKind::kLanguage && feedback_.injection == ErrorInjection::kInput && !lost;
  if (dense && trains_table(c_, stack)) work += maccs(rows(stack) * c_.vocab * d());
  return work;
}

Work Passes::attention(const Site& site) const {
  const SiteAttention mechanism = attention_at(c_, batch_, site, c_.dropout > 0.0F);
  const Count queries = rows(site);
  const Count keys = site.keys(batch_.batch);
  const Count q_width = mechanism.q_width;
  const Count k_width = mechanism.k_width;
  Work work = differences(queries * (q_width + d()) + keys * (k_width + mechanism.v_width));
  if (adapts(c_)) {  // of q and the output, of k and v
    work += differences(c_.lora_rank * (2 * queries + (k_width > 0 ? 2 : 1) * keys));
  } else if (mechanism.cost.signals > 0) {
    work += differences(queries * q_width) + mechanism.cost.backward;
  }
  const Count heads = heads_at(c_, site) + (k_width > 0 ? kv_heads_at(c_, site) : 0);
  const Count turning = turning_channels(c_, site, head_width_at(c_, site));
  return work + flops(Kind::kRotary, 3 * queries * heads * turning);
}

Work Passes::stack(Site site, std::size_t layers, std::size_t frozen) const {
  const Count elements = rows(site) * d();
  const Work kept = adapts(c_) ? Work{} : differences(elements);
  const Work norm = norms_learn(c_) ? kept : Work{};
  const Count f = hidden_width(c_, site);
  Work work;
  for (site.layer = frozen; site.layer < layers; ++site.layer) {
    work += norm;
    if (mixer_of(c_, site).starts_with("conv")) {
      work += kept;  // the difference of its outputs, which are as many
    } else if (mixer_of(c_, site) != "fnet") {
      work += attention(site);
    }
    if (translates(c_) && site.part == ModelPart::kDecoder) {
      work += norm + attention(cross_site(site, batch_));
    }
    work += norm;
    if (!adapts(c_)) work += differences(elements + rows(site) * (c_.gated ? 2 * f : f));
  }
  if (c_.wiring != Wiring::kPostNorm && c_.final_norm)
    work += (c_.streams == StreamEnd::kConcat ? 2U : 1U) * norm;
  return work;
}

Work Passes::head() const {
  if (adapts(c_) || !c_.head_transform) return {};
  const Count width = transformed_width(c_);
  return differences(output_rows(c_, batch_) * width * (c_.head_norm && norms_learn(c_) ? 2 : 1));
}

CostTable Passes::table() const {
  const CostTable backprop = executed_formula(c_, batch_, /*training=*/true);
  CostTable table;
  for (const auto& [layer, cost] : backprop) {
    table[layer] = {.forward = (keeps_ ? 2U : 3U) * cost.forward, .update = cost.update};
  }
  const Cost& last = backprop.find(kLastLayer)->second;
  // All of it but the product and what is done to the logits.
  Work error = last.backward;
  error.maccs = 0;
  error[Kind::kActivation] = 0;
  const Work scaling = score_scaling(c_, batch_);
  error[Kind::kAdd] -= scaling[Kind::kAdd];

  Work overhead = error + injection() + head();
  Count scored = 1;
  if (feedback_.last_layer == LastLayer::kModulatedError) {
    scored = 2;
    overhead += error;
  } else if (feedback_.last_layer == LastLayer::kDifference) {
    scored = keeps_ ? 2 : 3;
    overhead += differences(output_elements());
  }
  Work own = last.forward;
  own[Kind::kAdd] -= scaling[Kind::kAdd];
  table.find(kLastLayer)->second.forward = scored * own + (keeps_ ? 2U : 3U) * scaling;

  if (c_.family == Family::kPerceptron) overhead += differences(c_.layers * batch_.batch * d());
  if (encodes(c_)) {
    const Site site = encoder_site(c_, batch_);
    overhead += embedding(site) + stack(site, c_.layers, c_.frozen_layers);
  }
  if (decodes(c_)) {
    const Site site = decoder_site(batch_);
    overhead += embedding(site) + (translates(c_) ? stack(site, c_.decoder_layers, 0)
                                                  : stack(site, c_.layers, c_.frozen_layers));
  }
  table["rule overhead"].update = overhead;
  if (translates(c_)) table["error projection"].forward = projection();
  return table;
}

CostTable direct_feedback(const ModelConfig& c, const Batch& batch) {
  CostTable table = executed_formula(c, batch, /*training=*/true);
  const Count blocks = c.layers - c.frozen_layers;
  const bool perceptron = c.family == Family::kPerceptron;
  Work sent = maccs(output_rows(c, batch) * output_columns(c) * c.d_model);
  if (pools(c) && !perceptron) sent += flops(Kind::kAdd, batch.batch * c.d_model);
  table["rule overhead"].update = blocks * sent;
  table["final norm"].backward = blocks * table["final norm"].backward;
  if (perceptron) table["hidden"].backward.maccs = 0;
  return table;
}

}  // namespace

CostTable executed_rule(std::string_view rule, const ModelConfig& config, const Feedback& feedback,
                        const Batch& batch) {
  if (rule == "bp" || rule == "fa") return executed_formula(config, batch, /*training=*/true);
  if (rule == "dfa") return direct_feedback(config, batch);
  require(rule == "pepita" || rule == "mempepita",
          "[formula] what the rule {} executes is not worked out; need its formula", rule);
  return Passes(config, feedback, batch, /*keeps=*/rule == "pepita").table();
}

}  // namespace longspan::testing
