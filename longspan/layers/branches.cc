#include "longspan/layers/branches.h"

#include <algorithm>
#include <array>

#include "longspan/base/config.h"
#include "longspan/layers/experts.h"
#include "longspan/layers/fourier_mixer.h"
#include "longspan/layers/latent_attention.h"
#include "longspan/layers/short_convolution.h"

namespace longspan {

namespace {

std::unique_ptr<Branch> make_attention_branch(std::string_view mechanism, const BranchSite& site,
                                              bool cross, bool pooled = false) {
  MultiHeadAttentionConfig config = site.block.attention;
  config.attention = mechanism;
  config.stack = site.stack;
  config.layer = site.layer;
  config.step = site.step;
  config.cross = cross;
  config.pooled = pooled;
  if (cross) {
    config.causal = false;
    config.rotary = nullptr;
  }
  return std::make_unique<MultiHeadAttention>(site.parameters, site.name, config);
}

std::unique_ptr<Branch> make_self(std::string_view options, const BranchSite& site) {
  return make_attention_branch(options, site, /*cross=*/false);
}

std::unique_ptr<Branch> make_cross(std::string_view options, const BranchSite& site) {
  return make_attention_branch(options, site, /*cross=*/true);
}

std::unique_ptr<Branch> make_pooled(std::string_view options, const BranchSite& site) {
  return make_attention_branch(options, site, /*cross=*/true, /*pooled=*/true);
}

std::unique_ptr<Branch> make_dense(std::string_view options, const BranchSite& site) {
  require(options.empty(), "[feed-forward] '{}'; it has no options", options);
  return std::make_unique<FeedForward>(site.parameters, site.name, site.block.feed_forward);
}

std::unique_ptr<Branch> make_experts(std::string_view options, const BranchSite& site) {
  ExpertsConfig config;
  parse_options("experts", options, config);
  return std::make_unique<Experts>(site.parameters, site.name, config, site.block.feed_forward);
}

std::unique_ptr<Branch> make_fourier(std::string_view options, const BranchSite& site) {
  require(options.empty(), "[fnet] '{}'; it has no options", options);
  return std::make_unique<FourierMixer>(
      FourierMixerConfig{.causal = site.block.attention.causal, .cross = false});
}

std::unique_ptr<Branch> make_convolution(std::string_view options, const BranchSite& site) {
  ShortConvolutionConfig config;
  parse_options("conv", options, config);
  const MultiHeadAttentionConfig& block = site.block.attention;
  return std::make_unique<ShortConvolution>(site.parameters, site.name, config,
                                            Channels{block.d_model, block.bias, block.deviation});
}

std::unique_ptr<Branch> make_latent(std::string_view options, const BranchSite& site) {
  LatentAttentionConfig config;
  parse_options(LatentAttention::kName, options, config);
  return std::make_unique<LatentAttention>(site.parameters, site.name, config,
                                           site.block.attention);
}

constexpr std::array kBranches = {
    BranchKind{"attention", BranchRole::kMixer, "attention", MultiHeadAttention::kMeter,
               "self-attention by a mechanism", &make_self},
    BranchKind{"cross", BranchRole::kReader, "cross", MultiHeadAttention::kCrossMeter,
               "attention to another sequence", &make_cross},
    BranchKind{"pooled", BranchRole::kReader, "attention", MultiHeadAttention::kMeter,
               "attention of a pooled sequence to what it was pooled from", &make_pooled},
    BranchKind{"fnet", BranchRole::kMixer, "mixer", FourierMixer::kMeter,
               "the Fourier transform over positions and features", &make_fourier,
               "docs/mixing/fnet.md"},
    BranchKind{"conv", BranchRole::kMixer, "convolution", ShortConvolution::kMeter,
               "a short causal convolution of every channel", &make_convolution,
               "docs/mixing/conv.md", &option_texts<ShortConvolutionConfig>},
    BranchKind{LatentAttention::kName, BranchRole::kMixer, "attention", MultiHeadAttention::kMeter,
               "attention whose keys and values come from a narrow latent", &make_latent,
               "docs/mixing/latent.md", &option_texts<LatentAttentionConfig>, /*heads=*/true,
               /*comparable=*/false},
    BranchKind{"dense", BranchRole::kFeedForward, "feed_forward", FeedForward::kMeter,
               "two matrices and an activation, gated if asked", &make_dense},
    BranchKind{"experts", BranchRole::kFeedForward, "feed_forward", FeedForward::kMeter,
               "feed-forwards among which a router chooses", &make_experts,
               "docs/layers/experts.md", &option_texts<ExpertsConfig>, /*heads=*/false,
               /*comparable=*/false},
};

std::string_view name_part(std::string_view specification) {
  return specification.substr(0, specification.find(':'));
}

}  // namespace

std::span<const BranchKind> branch_kinds() { return kBranches; }

const BranchKind* find_branch(std::string_view specification) {
  for (const BranchKind& kind : kBranches) {
    if (kind.name == name_part(specification)) return &kind;
  }
  return nullptr;
}

std::string_view meter_at(std::string_view place) {
  const auto* const at = std::ranges::find(kBranches, place, &BranchKind::place);
  return at != kBranches.end() ? at->meter : place;
}

std::unique_ptr<Branch> make_branch(std::string_view specification, const BranchSite& site) {
  const BranchKind* kind = find_branch(specification);
  if (kind == nullptr) {
    std::vector<std::string_view> known;
    for (const BranchKind& k : kBranches) known.push_back(k.name);
    throw_unknown("block", "branch", name_part(specification), known);
  }
  const std::size_t name = kind->name.size();
  return kind->make(specification.size() > name ? specification.substr(name + 1) : "", site);
}

std::string mixer_of(std::string_view specification) {
  const BranchKind* kind = find_branch(specification);
  if (kind == nullptr) return "attention:" + std::string(specification);
  require(kind->role == BranchRole::kMixer,
          "[block] '{}' does not mix tokens; need a mechanism or a mixer", kind->name);
  return std::string(specification);
}

std::string feed_forward_of(std::string_view specification) {
  const BranchKind* kind = find_branch(specification);
  if (kind == nullptr || kind->role != BranchRole::kFeedForward) {
    std::vector<std::string_view> known;
    for (const BranchKind& k : kBranches) {
      if (k.role == BranchRole::kFeedForward) known.push_back(k.name);
    }
    throw_unknown("block", "feed-forward", name_part(specification), known);
  }
  return std::string(specification);
}

}  // namespace longspan
