#include "longspan/cost/conventions.h"

#include <array>

#include "longspan/attention/registry.h"
#include "longspan/base/config.h"
#include "longspan/cost/layer_names.h"
#include "longspan/layers/branches.h"

namespace longspan {
namespace {

// Which passes a tool prices, and how.
enum class Passes : std::uint8_t { kForward, kForwardThrice, kAll };

struct Tool {
  Convention convention;
  int per_macc = 2;
  int softmax = 0;  // per element; 3: 3n − 1 a row, as thop's
  int norm = 0;
  int activation = 0;
  Passes passes = Passes::kForward;
  bool sees_attention = true;
  int per_parameter = 0;  // and token, instead of all of the above
  bool adds_attention = false;
};

constexpr std::string_view kForwardMaccs = "MACCs of a forward pass, 5 per element of a norm";
constexpr std::string_view kThop = "MACCs of linear modules in a forward pass, norms, nn.Softmax";
constexpr std::string_view kThrice = "FLOPs of a forward pass, three times for training";
constexpr std::array<Tool, 9> kTools = {{
    {.convention = {"fvcore", kForwardMaccs}, .per_macc = 1, .norm = 5},
    {.convention = {"thop", kThop},
     .per_macc = 1,
     .softmax = 3,
     .norm = 4,
     .sees_attention = false},
    {.convention = {"ptflops", "MACCs of the products of a forward pass"}, .per_macc = 1},
    {.convention = {"llm-viewer", "FLOPs of a forward pass"},
     .softmax = 5,
     .norm = 7,
     .activation = 2},
    {.convention = {"torch", "FLOPs of every product of a training step"}, .passes = Passes::kAll},
    {.convention = {"deepspeed", kThrice},
     .softmax = 1,
     .norm = 5,
     .activation = 1,
     .passes = Passes::kForwardThrice},
    {.convention = {"calflops", kThrice},
     .softmax = 1,
     .norm = 5,
     .activation = 1,
     .passes = Passes::kForwardThrice},
    {.convention = {"palm", "6·P + 12·L·d·n FLOPs per token"},
     .passes = Passes::kAll,
     .per_parameter = 6,
     .adds_attention = true},
    {.convention = {"6nd", "6·P FLOPs per token"}, .passes = Passes::kAll, .per_parameter = 6},
}};

// Work of one or all passes, by the kind of layer.
struct Passed {
  Work attention;  // self and cross, with their projections
  Work output;
  Work rest;
  Integer projections = 0;  // MACCs of `attention` that are products with weights

  Integer attention_maccs() const { return static_cast<Integer>(attention.maccs) - projections; }
  Integer weight_maccs() const { return static_cast<Integer>(rest.maccs) + projections; }
  Integer of_kind(Kind kind) const { return Integer{attention[kind]} + output[kind] + rest[kind]; }
  Integer flops() const { return Integer{attention.flops()} + output.flops() + rest.flops(); }
};

// MACCs of Q, K, V and output projections in one pass.
Integer projections(const Workload& w) {
  const auto d = static_cast<Integer>(w.model.d_model);
  const auto kv = static_cast<Integer>(w.kv_width());
  const auto self = [&](std::size_t rows, std::size_t blocks) {
    return static_cast<Integer>(rows) * static_cast<Integer>(blocks) * (2 * d * d + 2 * d * kv);
  };
  Integer sum = self(w.rows(), w.model.layers);
  if (!w.has_both()) return sum;
  const auto blocks = static_cast<Integer>(w.model.decoder_layers);
  sum += self(w.decoder_rows(), w.model.decoder_layers);
  return sum + blocks * (static_cast<Integer>(w.decoder_rows()) * 2 * d * d +
                         static_cast<Integer>(w.rows()) * 2 * d * kv);
}

Passed pass_through(const Workload& w, const Model& model, bool all) {
  ModelCost parts = model.cost_by_part(w.shape(), /*training=*/true);
  if (!w.output_layer) parts.head.erase(std::string(Head::kMeter));
  Passed passed;
  for (const CostTable& part : {parts.encoder, parts.decoder, parts.head}) {
    for (const auto& [layer, cost] : part) {
      const ReportKind kind = layer_name(layer).kind;
      const bool attends = kind == ReportKind::kAttention || kind == ReportKind::kCross;
      Work& to = attends                       ? passed.attention
                 : kind == ReportKind::kOutput ? passed.output
                                               : passed.rest;
      to += all ? cost.forward + cost.backward + cost.update : cost.forward;
    }
  }
  // Forward, backward and update cost the same; reversible wiring has a second forward.
  const int times = !all ? 1 : w.model.wiring == Wiring::kReversible ? 4 : 3;
  passed.projections = times * projections(w);
  return passed;
}

// Σ over attention layers of M·N, per head and sequence.
Integer pairs(const Workload& w) {
  const auto n = static_cast<Integer>(w.length);
  const auto m = static_cast<Integer>(w.target_length);
  const auto layers = static_cast<Integer>(w.model.layers);
  const auto decoder_layers = static_cast<Integer>(w.model.decoder_layers);
  Integer sum = layers * n * n;
  if (w.has_both()) sum += decoder_layers * (m * m + m * n);
  return static_cast<Integer>(w.batch) * sum;
}

Integer query_rows(const Workload& w) {
  Integer rows = static_cast<Integer>(w.rows()) * static_cast<Integer>(w.model.layers);
  if (w.has_both()) {
    rows +=
        2 * static_cast<Integer>(w.decoder_rows()) * static_cast<Integer>(w.model.decoder_layers);
  }
  return rows;
}

// MACCs of Q·Kᵀ and P·V as a tool sees them: all pairs of exact attention. Backward has four such
// products, and a fifth where the scores are computed again.
Integer attention_seen(const Workload& w, const Tool& tool, const Passed& executed) {
  if (!tool.sees_attention) return 0;
  if (find_branch(w.model.attention) != nullptr || !abilities_of(w.model.attention).exact)
    return executed.attention_maccs();
  Integer products = 2;
  if (tool.passes == Passes::kAll) {
    products += find_mechanism(w.model.attention).name == "flash" ? 5 : 4;
    if (w.model.wiring == Wiring::kReversible) products += 2;
  }
  return products * pairs(w) * static_cast<Integer>(w.model.d_model);
}

Integer softmax_seen(const Workload& w, const Tool& tool) {
  const auto heads = static_cast<Integer>(w.model.heads);
  const Integer all = tool.softmax * pairs(w) * heads;
  return tool.softmax == 3 ? all - query_rows(w) * heads : all;
}

Integer norm_elements(const Workload& w) {
  const ModelConfig& c = w.model;
  const Integer ends = (c.embedding_norm ? 1 : 0) + (c.wiring == Wiring::kPostNorm ? 0 : 1);
  Integer rows = static_cast<Integer>(w.rows()) * (2 * static_cast<Integer>(c.layers) + ends);
  if (w.has_both()) {
    rows += static_cast<Integer>(w.decoder_rows()) *
            (3 * static_cast<Integer>(c.decoder_layers) + ends);
  }
  if (c.head_transform && c.head_norm) rows += static_cast<Integer>(w.output_rows());
  return rows * static_cast<Integer>(c.d_model);
}

Integer activation_elements(const Workload& w) {
  const auto f = static_cast<Integer>(w.d_ff());
  Integer sum = static_cast<Integer>(w.rows()) * static_cast<Integer>(w.model.layers) * f;
  if (w.has_both()) {
    sum +=
        static_cast<Integer>(w.decoder_rows()) * static_cast<Integer>(w.model.decoder_layers) * f;
  }
  if (w.model.head_transform) {
    sum += static_cast<Integer>(w.output_rows()) * static_cast<Integer>(w.model.d_model);
  }
  return sum;
}

// What a tool says of each executed term; anything it leaves out is 0.
struct Seen {
  Integer weights = 0;  // FLOPs at 2 per MACC
  Integer output = 0;
  Integer attention = 0;
  Integer softmax = 0;
  Integer norm = 0;
  Integer activation = 0;
};

void add_terms(const Passed& executed, const Seen& seen, std::vector<ConventionLine>& lines) {
  const auto output_softmax = static_cast<Integer>(executed.output[Kind::kSoftmax]);
  const Integer softmax = executed.of_kind(Kind::kSoftmax) - output_softmax;
  lines.push_back({"products with weights", seen.weights, 2 * executed.weight_maccs()});
  lines.push_back({"product with the output layer", seen.output,
                   2 * static_cast<Integer>(executed.output.maccs)});
  lines.push_back({"products of attention", seen.attention, 2 * executed.attention_maccs()});
  lines.push_back({"softmax of attention", seen.softmax, softmax});
  lines.push_back({"softmax of the output", 0, output_softmax});
  lines.push_back({"norms", seen.norm, executed.of_kind(Kind::kNorm)});
  lines.push_back({"activations", seen.activation, executed.of_kind(Kind::kActivation)});
  for (std::size_t k = 0; k < kKinds; ++k) {
    const Kind kind = static_cast<Kind>(k);
    if (kind == Kind::kSoftmax || kind == Kind::kNorm || kind == Kind::kActivation) continue;
    const Integer flops = executed.of_kind(kind);
    if (flops == 0) continue;
    const std::string_view name = kind == Kind::kMatmul ? "biases and scaling" : name_of(kind);
    lines.push_back({std::string(name), 0, flops});
  }
}

void add_counted(const Tool& tool, const Workload& w, const Model& model, ConventionReport& out) {
  const bool all = tool.passes == Passes::kAll;
  const Passed executed = pass_through(w, model, all);
  Seen seen;
  seen.weights = 2 * executed.weight_maccs();
  seen.output = 2 * static_cast<Integer>(executed.output.maccs);
  seen.attention = 2 * attention_seen(w, tool, executed);
  seen.softmax = softmax_seen(w, tool);
  seen.norm = tool.norm * norm_elements(w);
  seen.activation = tool.activation * activation_elements(w);
  add_terms(executed, seen, out.lines);
  if (tool.per_macc == 1) {
    const Integer products = seen.weights + seen.output + seen.attention;
    out.lines.push_back({"a MACC is 1, not 2", -products / 2, 0});
  }
  if (tool.passes != Passes::kForwardThrice) return;
  const Integer step = pass_through(w, model, /*all=*/true).flops();
  out.lines.push_back(
      {"backward and update as 2 × forward", 2 * out.reported(), step - executed.flops()});
}

void add_parameters(const Tool& tool, const Workload& w, const Model& model,
                    ConventionReport& out) {
  const auto tokens = static_cast<Integer>(w.tokens());
  Integer weights = 0;
  Integer output = 0;
  Integer tables = 0;
  Integer vectors = 0;
  for (const Parameter& p : model.parameters().all()) {
    // A tied table is both.
    const bool is_output = p.role == Role::kLastLayer || &p == &model.head().output().weight();
    if (p.constant || (is_output && !w.output_layer)) continue;
    const bool is_table = p.role == Role::kEmbedding;
    Integer& to = p.is_vector ? vectors : is_output ? output : is_table ? tables : weights;
    to += static_cast<Integer>(p.size());
  }
  const auto priced = [&](Integer count) { return tool.per_parameter * tokens * count; };
  Seen seen{.weights = priced(weights), .output = priced(output)};
  if (tool.adds_attention) {
    const Integer layers = Integer{w.model.layers} + w.model.decoder_layers;
    seen.attention = 12 * layers * static_cast<Integer>(w.model.d_model) *
                     static_cast<Integer>(w.length) * tokens;
  }
  add_terms(pass_through(w, model, /*all=*/true), seen, out.lines);
  out.lines.push_back({"tables looked up, as if multiplied", priced(tables), 0});
  out.lines.push_back({"biases and gains, as if multiplied", priced(vectors), 0});
}

}  // namespace

std::span<const Convention> conventions() {
  static const auto kNames = [] {
    std::array<Convention, kTools.size()> names;
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = kTools[i].convention;
    return names;
  }();
  return kNames;
}

Integer ConventionReport::reported() const {
  Integer sum = 0;
  for (const ConventionLine& line : lines) sum += line.tool;
  return sum;
}

Integer ConventionReport::executed() const {
  Integer sum = 0;
  for (const ConventionLine& line : lines) sum += line.executed;
  return sum;
}

ConventionReport report_as(std::string_view tool, const Workload& workload, const Model& model) {
  require(workload.model.stages.empty(),
          "[cost] what {} would count of a model with stages is not known; need one length", tool);
  std::vector<std::string_view> known;
  for (const Tool& t : kTools) {
    known.push_back(t.convention.name);
    if (t.convention.name != tool) continue;
    ConventionReport out{.convention = t.convention, .training = t.passes != Passes::kForward};
    if (t.per_parameter > 0) {
      add_parameters(t, workload, model, out);
    } else {
      add_counted(t, workload, model, out);
    }
    return out;
  }
  throw_unknown("cost", "tool", tool, known);
}

}  // namespace longspan
