#include "longspan/cost/workload.h"

#include <algorithm>
#include <array>

#include "longspan/attention/registry.h"
#include "longspan/base/config.h"
#include "longspan/cost/rules.h"
#include "longspan/layers/branches.h"
#include "longspan/layers/loss.h"

namespace longspan {
namespace {

using symbols::c, symbols::d, symbols::f, symbols::h, symbols::L, symbols::M, symbols::n_dec,
    symbols::n_enc, symbols::N, symbols::v;

void check_size(std::string_view what, std::size_t value, std::size_t most) {
  require(value >= 1 && value <= most, "[cost] {} is {}; need 1 to {}", what, value, most);
}

// What a mechanism, or one of several "a|b", cannot do in a layer of this model.
void check_mechanisms(const std::string& specification, const AttentionShape& shape,
                      const ModelConfig& m) {
  const auto turns = 1 + static_cast<std::size_t>(std::ranges::count(specification, '|'));
  for (std::size_t turn = 0; turn < turns; ++turn) {
    if (find_branch(turn_of(specification, turn)) != nullptr) continue;  // no mechanism
    const LoneAttention mechanism(turn_of(specification, turn), {.d_model = m.d_model,
                                                                 .heads = shape.heads,
                                                                 .kv_heads = shape.kv_heads,
                                                                 .d_head = shape.d,
                                                                 .max_length = m.max_length});
    mechanism->check(shape);
  }
}

// Asked of shapes that need no memory to speak of.
void check_attention(const Workload& w) {
  static constexpr std::array<std::int32_t, 1> kLengths = {1};
  const ModelConfig& m = w.model;
  const std::size_t d_head = head_width_of(m);
  AttentionShape shape{.heads = m.heads,
                       .kv_heads = w.kv_heads(),
                       .m = 1,
                       .n = 1,
                       .d = d_head,
                       .e = d_head,
                       .causal = m.family == Family::kDecoder,
                       .dropout = m.dropout > 0.0F};
  if (!w.lengths.empty()) shape.key_lengths = kLengths;
  check_mechanisms(m.attention, shape, m);
  const std::string& decoder = m.decoder_attention.empty() ? m.attention : m.decoder_attention;
  if (!w.has_both()) {
    require(m.decoder_attention.empty() && m.cross_attention.empty(),
            "[cost] --decoder-attention or --cross-attention, and one stack; need an encoder and a "
            "decoder");
    return;
  }
  shape.causal = true;
  check_mechanisms(decoder, shape, m);
  shape.causal = false;
  shape.n = 2;
  check_mechanisms(m.cross_attention.empty() ? decoder : m.cross_attention, shape, m);
}

// A step does less than eight times what the closed form says, whatever the engine adds to it
// (gates, biases, recomputation).
Integer step_flops(const Workload& w) {
  const ModelFormula model = formula_of(w, CostView::kExecuted);
  const CountFormula step = rule_formula(model, LearningRule::kBackprop).total();
  return multiply_exactly(static_cast<Integer>(w.batch), step.flops.evaluate(symbol_values(w)));
}

constexpr Integer kMostFlops = Integer{1} << 60;

// The layer that a classifier ends in sees one row and has c outputs; that of pairs one row of two.
void end_in_classes(ModelFormula& model, CostView view) {
  const auto in_classes = [](CountFormula& count) {
    count = {count.maccs.substitute(v, c), count.flops.substitute(v, c)};
  };
  for (ModelLayer& layer : model.layers) {
    LayerFormula& formula = layer.formula;
    if (formula.kind != LayerKind::kSoftmax) continue;
    formula =
        view == CostView::kExecuted ? executed_softmax_layer(1) : paper_softmax_layer(view, 1);
    formula.parameters = formula.parameters.substitute(v, c);
    for (FormulaLine& line : formula.lines) in_classes(line.count);
    for (CountFormula& total : formula.totals) in_classes(total);
  }
}

}  // namespace

std::size_t Workload::output_rows() const {
  return model.output_rows(batch, has_both() ? target_length : length);
}

Batch Workload::shape() const {
  Batch shape;
  shape.batch = batch;
  if (has_both()) {
    shape.length = target_length;
    shape.source_length = length;
    shape.source_lengths = lengths;
  } else {
    shape.length = length;
    shape.lengths = lengths;
  }
  return shape;
}

ModelFamily family_of(const ModelConfig& config) {
  if (config.family == Family::kEncoder) return ModelFamily::kEncoder;
  return config.family == Family::kDecoder ? ModelFamily::kDecoder : ModelFamily::kEncoderDecoder;
}

void check(const Workload& w) {
  check_size("length", w.length, kLargestLength);
  check_size("batch", w.batch, kLargestBatch);
  if (w.has_both()) {
    check_size("target length", w.target_length, kLargestLength);
    check_size("decoder layers", w.model.decoder_layers, kMostLayers);
  } else {
    require(w.target_length == 0 || w.target_length == w.length,
            "[cost] {} tokens of target, {} of source and one stack; need an encoder and a decoder",
            w.target_length, w.length);
  }
  check_size("layers", w.model.layers, kMostLayers);
  check_size("d_model", w.model.d_model, kLargestWidth);
  check_size("d_ff", w.d_ff(), kLargestWidth);
  check_size("vocab", w.model.vocab, kLargestWidth);
  check(w.model);
  require(w.lengths.empty() || w.lengths.size() == w.batch,
          "[cost] {} lengths for a batch of {}; need one each", w.lengths.size(), w.batch);
  for (const std::int32_t n : w.lengths) {
    require(n >= 0 && static_cast<std::size_t>(n) <= w.length,
            "[cost] a sequence of {} real tokens; need 0 to {}", n, w.length);
  }
  check_attention(w);
  const Integer flops = step_flops(w);
  require(flops < kMostFlops,
          "[cost] one step takes {} FLOPs, more than the engine's counters hold; need a smaller "
          "batch, length or model",
          to_decimal(flops));
}

bool fits_counters(const Workload& w) { return step_flops(w) < kMostFlops; }

SymbolValues symbol_values(const Workload& w) {
  const auto value = [](std::size_t x) { return static_cast<Integer>(x); };
  return {{N, value(w.length)},
          {M, value(w.has_both() ? w.target_length : w.length)},
          {L, value(w.model.layers)},
          {n_enc, value(w.model.layers)},
          {n_dec, value(w.model.decoder_layers)},
          {d, value(w.model.d_model)},
          {h, value(w.model.heads)},
          {f, value(w.d_ff())},
          {v, value(w.model.vocab)},
          {c, value(w.model.classes)}};
}

ModelFormula formula_of(const Workload& w, CostView view) {
  ModelFormula model = model_formula({.view = view, .family = family_of(w.model)});
  if (w.model.head == HeadKind::kClassifier || w.model.head == HeadKind::kPairs) {
    end_in_classes(model, view);
  }
  if (!w.output_layer) {
    std::erase_if(model.layers, [](const ModelLayer& layer) {
      return layer.formula.kind == LayerKind::kSoftmax;
    });
  }
  return model;
}

bool is_full(const Workload& w) {
  return std::ranges::all_of(split_list(w.model.attention, '|'), [](const std::string& name) {
    return find_branch(name) == nullptr && abilities_of(name).exact;
  });
}

std::vector<std::string> beyond_the_paper(const Workload& w) {
  const ModelConfig& m = w.model;
  std::vector<std::string> list;
  const auto add = [&](bool has, const char* what) {
    if (has) list.emplace_back(what);
  };
  add(!is_full(w), "another attention than the full one");
  add(m.gated, "a gate in the FFN");
  add(w.kv_heads() != m.heads, "grouped key-value heads");
  add(m.bias && m.attention_bias, "biases in attention");
  add(!m.bias, "an FFN without biases");
  add(m.norm != NormKind::kLayer, "RMSNorm");
  add(m.activation != Activation::kGeluTanh, "another activation than GELU by tanh");
  add(m.wiring == Wiring::kPreNorm, "pre-norm wiring, with a norm at the end");
  add(m.wiring == Wiring::kReversible, "reversible wiring, which computes every block twice");
  add(m.positions == PositionKind::kLearned, "a learned table of positions");
  add(m.positions == PositionKind::kRotary, "rotary positions");
  add(m.token_types > 0, "token types");
  add(!m.stages.empty(), "stages, between which sequences become shorter");
  add(m.embedding_norm, "a norm after the embedding");
  add(m.head_transform, "a transform before the output layer");
  add(m.head == HeadKind::kPairs, "one output of two sequences, behind layers of their own");
  add(m.tied && w.output_layer && m.head == HeadKind::kLanguage, "tied vocabulary matrices");
  add(m.dropout > 0.0F, "dropout");
  add(m.checkpointing, "checkpointing, which computes every block twice");
  add(m.frozen_layers > 0, "frozen layers");
  add(m.lora_rank > 0, "adapters of low rank");
  add(!w.lengths.empty(), "padding that is skipped");
  return list;
}

bool Workload::in_paper() const {
  const auto mixes = [](const std::string& specification) {
    return find_branch(specification) != nullptr;
  };
  const ModelConfig& m = model;
  const bool plain = m.head_width == 0 && m.decoder_heads == 0 && m.decoder_d_ff == 0 &&
                     !m.shared_layers && m.head != HeadKind::kStates && m.logit_cap == 0.0F &&
                     m.logit_scale == 1.0F && m.norm_bias && m.norm_weight && m.output_width == 0;
  return plain && std::ranges::none_of(split_list(m.attention, '|'), mixes) && comparable();
}

bool Workload::comparable() const {
  const auto are = [](const std::string& branches) {
    return std::ranges::all_of(split_list(branches, '|'), [](const std::string& name) {
      const BranchKind* kind = find_branch(name);
      return kind == nullptr || kind->comparable;
    });
  };
  const ModelConfig& m = model;
  const bool wired = m.wiring == Wiring::kPostNorm || m.wiring == Wiring::kPreNorm ||
                     m.wiring == Wiring::kReversible;
  const bool plain = m.first_norm && m.query_norm == QueryNorm::kNone && !m.embedding_projection &&
                     m.embedding_width == 0 && !m.decoder_norm_first &&
                     m.stem == StemKind::kTokens && m.stages.empty();
  return wired && plain && are(m.attention) && are(m.feed_forward) && m.head != HeadKind::kPairs &&
         m.head != HeadKind::kStates && m.pair_classes == 0 &&
         make_loss(m.loss)->without_backward();
}

}  // namespace longspan
