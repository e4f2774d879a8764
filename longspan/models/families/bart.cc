// BART (Lewis et al., 2020, arXiv:1910.13461) and what is built as it is: mBART, Pegasus, Marian,
// BlenderBot. They differ in where norms stand and what positions are.
#include "longspan/models/families/bart_like.h"

namespace longspan {

namespace bart_family {

namespace {

constexpr std::size_t kOffset = 2;  // of learned positions, by history

ModelConfig bart(const ConfigFields& f) {
  ModelConfig c = bart_sizes(f);
  c.wiring = Wiring::kPostNorm;
  c.embedding_norm = true;
  c.position_offset = kOffset;
  return c;
}

ModelConfig mbart(const ConfigFields& f) {
  ModelConfig c = bart(f);
  c.wiring = Wiring::kPreNorm;
  return c;
}

// Sinusoids, which the library keeps as a table of each stack.
void fix_positions(ModelConfig& c) {
  c.positions = PositionKind::kSinusoidalHalves;
  c.stored_numbers = 2 * c.max_length * c.d_model;
}

ModelConfig pegasus(const ConfigFields& f) {
  ModelConfig c = bart_sizes(f);
  fix_positions(c);
  return c;
}

ModelConfig marian(const ConfigFields& f) {
  ModelConfig c = bart_sizes(f);
  c.wiring = Wiring::kPostNorm;
  fix_positions(c);
  f.refuse(!f.flag("share_encoder_decoder_embeddings", true), "a table for each stack");
  f.refuse(f.size("decoder_vocab_size", c.vocab) != c.vocab, "another vocabulary of the decoder");
  return c;
}

ModelConfig blenderbot(const ConfigFields& f) {
  ModelConfig c = bart_sizes(f);
  if (!f.has("max_position_embeddings")) c.max_length = 128;
  return c;
}

// Its decoder norms the tokens' vectors before it adds positions.
ModelConfig blenderbot_small(const ConfigFields& f) {
  ModelConfig c = bart_sizes(f);
  if (!f.has("max_position_embeddings")) c.max_length = 512;
  c.wiring = Wiring::kPostNorm;
  c.embedding_norm = true;
  c.decoder_norm_first = true;
  return c;
}

constexpr CheckpointHead kBartHeads[] = {
    {"BartForConditionalGeneration", &generation, &place_generation},
    {"BartModel", &heads::bare, &heads::nothing},
};
constexpr CheckpointHead kMbartHeads[] = {
    {"MBartForConditionalGeneration", &generation, &place_generation},
    {"MBartModel", &heads::bare, &heads::nothing},
};
constexpr CheckpointHead kPegasusHeads[] = {
    {"PegasusForConditionalGeneration", &generation, &place_generation},
    {"PegasusModel", &heads::bare, &heads::nothing},
};
constexpr CheckpointHead kMarianHeads[] = {
    {"MarianMTModel", &generation, &place_generation},
    {"MarianModel", &heads::bare, &heads::nothing},
};
constexpr CheckpointHead kBlenderbotHeads[] = {
    {"BlenderbotForConditionalGeneration", &generation, &place_generation},
    {"BlenderbotModel", &heads::bare, &heads::nothing},
};
constexpr CheckpointHead kBlenderbotSmallHeads[] = {
    {"BlenderbotSmallForConditionalGeneration", &generation, &place_generation},
    {"BlenderbotSmallModel", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace bart_family

extern const CheckpointFamily kBart{"bart", "model", &bart_family::bart, &place_bart,
                                    bart_family::kBartHeads};
extern const CheckpointFamily kMbart{"mbart", "model", &bart_family::mbart, &place_bart,
                                     bart_family::kMbartHeads};
extern const CheckpointFamily kPegasus{"pegasus", "model", &bart_family::pegasus, &place_bart,
                                       bart_family::kPegasusHeads};
extern const CheckpointFamily kMarian{"marian", "model", &bart_family::marian, &place_bart,
                                      bart_family::kMarianHeads};
extern const CheckpointFamily kBlenderbot{"blenderbot", "model", &bart_family::blenderbot,
                                          &place_bart, bart_family::kBlenderbotHeads};
extern const CheckpointFamily kBlenderbotSmall{"blenderbot-small", "model",
                                               &bart_family::blenderbot_small, &place_bart,
                                               bart_family::kBlenderbotSmallHeads};

}  // namespace longspan
