// The families of released checkpoints, a line each, in the order of the documentation.
#include <array>
#include <string_view>
#include <utility>

#include "longspan/models/families/family.h"

namespace longspan {

extern const CheckpointFamily kBert, kRoberta, kXlmRoberta, kCamembert, kAlbert, kElectra, kMpnet,
    kDistilbert, kModernbert, kDeberta, kDebertaV2, kBigBird, kLongformer, kReformer, kFnet,
    kFunnel, kTransfoXl, kRoformer, kT5, kMt5, kBart, kMbart, kPegasus, kMarian, kBlenderbot,
    kBlenderbotSmall, kLed, kBigBirdPegasus, kOpenaiGpt, kGpt2, kGptNeo, kGptj, kCodegen, kGptNeox,
    kOpt, kBloom, kFalcon, kStarcoder2, kStablelm, kPhi, kPhi3, kLlama, kLlama2c, kMistral, kQwen2,
    kQwen3, kGemma, kGemma2, kGemma3, kOlmo, kOlmo2, kMixtral, kQwen2Moe, kQwen3Moe, kDeepseekV2,
    kDeepseekV3, kGptOss, kXlnet, kLongT5, kSwitch, kVit, kClipText, kClipVision, kWhisper;

namespace {

constexpr std::array kFamilies = {
    &kBert,       &kRoberta,
    &kXlmRoberta, &kCamembert,
    &kAlbert,     &kElectra,
    &kMpnet,      &kDistilbert,
    &kModernbert, &kDeberta,
    &kDebertaV2,  &kBigBird,
    &kLongformer, &kReformer,
    &kFnet,       &kFunnel,
    &kTransfoXl,  &kRoformer,
    &kT5,         &kMt5,
    &kBart,       &kMbart,
    &kPegasus,    &kMarian,
    &kBlenderbot, &kBlenderbotSmall,
    &kLed,        &kBigBirdPegasus,
    &kOpenaiGpt,  &kGpt2,
    &kGptNeo,     &kGptj,
    &kCodegen,    &kGptNeox,
    &kOpt,        &kBloom,
    &kFalcon,     &kStarcoder2,
    &kStablelm,   &kPhi,
    &kPhi3,       &kLlama,
    &kLlama2c,    &kMistral,
    &kQwen2,      &kQwen3,
    &kGemma,      &kGemma2,
    &kGemma3,     &kOlmo,
    &kOlmo2,      &kMixtral,
    &kQwen2Moe,   &kQwen3Moe,
    &kDeepseekV2, &kDeepseekV3,
    &kGptOss,     &kXlnet,
    &kLongT5,     &kSwitch,
    &kVit,        &kClipText,
    &kClipVision, &kWhisper,
};

// Known families of what is not here yet, and what they wait for.
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kWaiting = {{
    {"nystromformer", "Nystrom's attention"},
    {"yoso", "YOSO's attention"},
    {"perceiver", "latent queries"},
    {"pegasus_x", "global rows with norms of their own"},
    {"mamba", "selective state spaces"},
    {"mamba2", "selective state spaces"},
    {"falcon_mamba", "selective state spaces"},
    {"rwkv", "RWKV's recurrence"},
    {"qwen3_next", "gated delta rules"},
    {"clip",
     "two towers in one checkpoint; its towers load as clip_text_model and clip_vision_model"},
}};

}  // namespace

std::string_view waits_for(std::string_view model_type) {
  for (const auto& [waiting, what] : kWaiting) {
    if (waiting == model_type) return what;
  }
  return {};
}

std::span<const CheckpointFamily* const> checkpoint_families() { return kFamilies; }

}  // namespace longspan
