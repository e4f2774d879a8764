// The families of released checkpoints, a line each, in the order of the documentation.
#include <array>

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

}  // namespace

std::span<const CheckpointFamily* const> checkpoint_families() { return kFamilies; }

}  // namespace longspan
