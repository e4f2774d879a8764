#include "longspan/attention/registry.h"

#include <algorithm>
#include <array>
#include <vector>

#include "longspan/attention/cluster/clustered.h"
#include "longspan/attention/cluster/improved_clustered.h"
#include "longspan/attention/cluster/reformer.h"
#include "longspan/attention/exact/flash.h"
#include "longspan/attention/exact/full.h"
#include "longspan/attention/feature/linear_attention.h"
#include "longspan/attention/feature/performer.h"
#include "longspan/attention/lowrank/linformer.h"
#include "longspan/attention/memory/memory_attention.h"
#include "longspan/attention/memory/memory_compressed.h"
#include "longspan/attention/pattern/bigbird.h"
#include "longspan/attention/pattern/local.h"
#include "longspan/attention/pattern/longformer.h"
#include "longspan/attention/pattern/staggered.h"
#include "longspan/attention/pattern/transient_global.h"
#include "longspan/attention/pattern/window.h"
#include "longspan/attention/position/deberta.h"
#include "longspan/attention/position/funnel.h"
#include "longspan/attention/position/relative_key.h"
#include "longspan/attention/position/transformer_xl.h"
#include "longspan/base/config.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/rows/draw_normal.h"

namespace longspan {

namespace {

template <class Kind, class Config>
Config parse(std::string_view options, Config config = {}) {
  parse_options(Kind::kName, options, config);
  return config;
}

template <class Kind, class Config>
Abilities can(std::string_view options) {
  return Kind::can(parse<Kind, Config>(options));
}

template <class Kind, class Config>
Streams streams(std::string_view options, const AttentionLayout& layout) {
  const Config config = parse<Kind, Config>(options);
  if constexpr (requires { Kind::streams(config, layout); }) return Kind::streams(config, layout);
  return Streams::qkv(layout);
}

template <class Kind, class Config>
std::unique_ptr<Attention> make(std::string_view options, const AttentionSite& site) {
  const Config config = parse<Kind, Config>(options);
  if constexpr (requires { Kind(config, site); }) {
    return std::make_unique<Kind>(config, site);
  } else {
    return std::make_unique<Kind>(config);
  }
}

template <class Kind, class Config>
std::string shown(std::string_view options, std::size_t tokens) {
  Config config;
  config.show_at(tokens);
  return written_options(parse<Kind>(options, config));
}

// Null where nothing depends on the length.
template <class Kind, class Config>
constexpr auto shows() -> std::string (*)(std::string_view, std::size_t) {
  if constexpr (requires(Config config) { config.show_at(1); }) return &shown<Kind, Config>;
  return nullptr;
}

// The line of a mechanism: what its class knows of itself.
template <class Kind, class Config>
constexpr Mechanism entry(MechanismClass kind, std::string_view complexity, std::string_view memory,
                          std::string_view summary, std::string_view gives_up,
                          std::array<std::string_view, 4> settings = {}) {
  return {Kind::kName,
          kind,
          complexity,
          memory,
          summary,
          gives_up,
          &can<Kind, Config>,
          &streams<Kind, Config>,
          &make<Kind, Config>,
          settings,
          Kind::kEquations,
          &option_texts<Config>,
          shows<Kind, Config>()};
}

constexpr std::string_view kOutside =
    "tokens outside the pattern, which are heard of only through the layers above";
constexpr std::string_view kApart = "keys that hashing or clustering does not bring together";
constexpr std::string_view kSingleTokens =
    "single tokens: every slot mixes the whole sequence, by weights that must be learned";
constexpr std::string_view kSharpness =
    "sharp attention to few keys: weights are products of features";

constexpr std::array kMechanisms = {
    entry<FullAttention, FullConfig>(MechanismClass::kExact, "O(n²)", "O(n²)",
                                     "softmax(q·kᵀ/√d)·v with the matrix in memory", ""),
    entry<FlashAttention, FlashConfig>(MechanismClass::kExact, "O(n²)", "O(n)",
                                       "the same by tiles, O(n) memory, recomputed in backward",
                                       ""),
    entry<LinformerAttention, LinformerConfig>(MechanismClass::kLowRank, "O(n·k)", "O(n + k)",
                                               "exact over keys and values projected to k slots",
                                               kSingleTokens, {"k=64", "k=128", "k=512"}),
    entry<LinearAttention, LinearAttentionConfig>(
        MechanismClass::kKernel, "O(n)", "O(n + d²)",
        "φ(q)·Σφ(k)vᵀ with φ = elu + 1, or softmax features", kSharpness),
    entry<PerformerAttention, PerformerConfig>(MechanismClass::kKernel, "O(n)", "O(n + M·d)",
                                               "softmax by M orthogonal random features, FAVOR+",
                                               kSharpness,
                                               {"features=64", "features=128", "features=512"}),
    entry<MemoryAttention, MemoryConfig>(MechanismClass::kMemory, "O(n²)", "O(n)",
                                         "exact over the sequence and learned keys and values", ""),
    entry<MemoryCompressedAttention, MemoryCompressedConfig>(
        MechanismClass::kMemory, "O(n²/s)", "O(n)",
        "exact over keys and values shortened by a convolution",
        "single tokens within a slot of the shortened sequence", {"stride=2", "stride=8"}),
    entry<LocalAttention, LocalConfig>(MechanismClass::kFixedPattern, "O(n·block)", "O(n)",
                                       "exact over the own block of tokens and its neighbours",
                                       kOutside,
                                       {"block=64", "block=256", "block=128,before=1,after=1"}),
    entry<WindowAttention, WindowConfig>(MechanismClass::kFixedPattern, "O(n·w)", "O(n)",
                                         "exact over a sliding window, dilated if asked", kOutside,
                                         {"window=64", "window=128", "window=512", "window=1024"}),
    entry<BigBirdAttention, BigBirdConfig>(MechanismClass::kFixedPattern, "O(n)", "O(n)",
                                           "exact over global, window and random blocks", kOutside,
                                           {"random=1", "block=32", "window=5,random=5"}),
    entry<LongformerAttention, LongformerConfig>(
        MechanismClass::kFixedPattern, "O(n·w)", "O(n)",
        "a sliding window and global tokens with projections of their own", kOutside,
        {"window=128", "window=256"}),
    entry<DebertaAttention, DebertaConfig>(MechanismClass::kContentAndPosition, "O(n²)", "O(n·r)",
                                           "content and distance apart: c→c, c→p, p→c, by tiles",
                                           ""),
    entry<TransformerXlAttention, TransformerXlConfig>(
        MechanismClass::kRecurrence, "O(n²)", "O(n)",
        "relative positions and a history of earlier segments", ""),
    entry<ReformerAttention, ReformerConfig>(
        MechanismClass::kLearnablePattern, "O(n·log n)", "O(n)",
        "exact among tokens whose hashes agree, several rounds", kApart,
        {"rounds=1", "rounds=2", "rounds=8"}),
    entry<ClusteredAttention, ClusteredConfig>(MechanismClass::kLearnablePattern, "O(n·C)",
                                               "O(n + C)",
                                               "one row of attention for each cluster of queries",
                                               kApart, {"clusters=50", "clusters=200"}),
    entry<ImprovedClusteredAttention, ImprovedClusteredConfig>(
        MechanismClass::kLearnablePattern, "O(n·(C + k))", "O(n + C·k)",
        "clustered, and every query looks at its cluster's top keys itself", kApart,
        {"clusters=50", "topk=64"}),
    entry<FunnelAttention, FunnelConfig>(
        MechanismClass::kContentAndPosition, "O(n²)", "O(n)",
        "relative positions and token types, of pooled queries over unpooled keys", ""),
    entry<RelativeKeyAttention, RelativeKeyConfig>(
        MechanismClass::kContentAndPosition, "O(n²)", "O(n)",
        "a learned vector for every distance, which queries and keys meet", "",
        {"positions=512,p2c=true"}),
    entry<TransientGlobalAttention, TransientGlobalConfig>(
        MechanismClass::kFixedPattern, "O(n²/S)", "O(n)",
        "a sliding window and one key for the sum of every block of tokens",
        "single tokens outside the window, which are heard of in sums of their blocks",
        {"radius=63", "block=64"}),
    entry<StaggeredAttention, StaggeredConfig>(
        MechanismClass::kFixedPattern, "O(n·block)", "O(n)",
        "exact over a block of tokens, which odd layers shift by half, and global tokens", kOutside,
        {"block=128", "block=256,globals=32"}),
};

}  // namespace

std::string_view name_of(MechanismClass kind) {
  constexpr std::array<std::string_view, 8> kNames = {"exact",
                                                      "low rank",
                                                      "kernel",
                                                      "memory",
                                                      "fixed pattern",
                                                      "learnable pattern",
                                                      "content + position",
                                                      "recurrence"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view reason_of(MechanismClass kind) {
  switch (kind) {
    case MechanismClass::kLearnablePattern:
      return "chosen";
    case MechanismClass::kFixedPattern:
      return "window";
    case MechanismClass::kLowRank:
    case MechanismClass::kKernel:
      return "approximated";
    default:
      return "full";
  }
}

std::span<const Mechanism> mechanisms() { return kMechanisms; }

thread_local const Mechanism* ExtraMechanism::current_ = nullptr;

const Mechanism& find_mechanism(std::string_view specification) {
  const std::string_view name = specification.substr(0, specification.find(':'));
  std::vector<std::string_view> known;
  if (const Mechanism* extra = ExtraMechanism::current()) {
    if (extra->name == name) return *extra;
    known.push_back(extra->name);
  }
  for (const Mechanism& mechanism : mechanisms()) {
    if (mechanism.name == name) return mechanism;
    known.push_back(mechanism.name);
  }
  throw_unknown("attention", "mechanism", name, known);
}

namespace {
std::string_view options_of(std::string_view specification) {
  const std::size_t colon = std::min(specification.find(':'), specification.size());
  return specification.substr(std::min(colon + 1, specification.size()));
}
}  // namespace

Abilities abilities_of(std::string_view specification) {
  return find_mechanism(specification).abilities(options_of(specification));
}

Streams streams_of(std::string_view specification, const AttentionLayout& layout) {
  return find_mechanism(specification).streams(options_of(specification), layout);
}

std::unique_ptr<Attention> make_attention(std::string_view specification,
                                          const AttentionSite& site) {
  return find_mechanism(specification).make(options_of(specification), site);
}

std::string shown_specification(std::string_view specification, std::size_t tokens) {
  const Mechanism& mechanism = find_mechanism(specification);
  if (mechanism.shown == nullptr) return std::string(specification);
  const std::string options = mechanism.shown(options_of(specification), tokens);
  return std::string(mechanism.name) + (options.empty() ? "" : ":" + options);
}

LoneAttention::LoneAttention(std::string_view specification, const AttentionLayout& layout,
                             bool bias)
    : LoneAttention([&](const AttentionSite& site) { return make_attention(specification, site); },
                    streams_of(specification, layout), layout, /*history=*/false, bias) {}

LoneAttention::LoneAttention(const Make& make, const Streams& streams,
                             const AttentionLayout& layout, bool history, bool bias)
    : streams_(streams),
      parameters_(std::make_unique<Parameters>()),
      projections_(std::make_unique<Projections>(streams, layout, bias)) {
  const auto uses_given = [&](const Stream& s) {
    return (history || s.source != Source::kHistory) &&
           std::ranges::find(streams.given, s.name, &Stream::name) != streams.given.end();
  };
  if (std::ranges::any_of(streams.on_call, uses_given)) {
    projections_->declare_given(*parameters_, Source::kInput);
  }
  attention_ = make({layout, *parameters_, *projections_});
  projections_->declare_on_call(*parameters_);
  attention_->wait_for(*parameters_);
}

void LoneAttention::allocate(RandomKey seed) {
  prepare_products();
  parameters_->allocate();
  parameters_->initialize(seed, draw_normal);
}

}  // namespace longspan
