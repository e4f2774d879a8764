// Heads that several families have: what they are, and where their tensors go.
#pragma once

#include "longspan/models/families/family.h"

namespace longspan::heads {

// No head: the last hidden states.
void bare(const ConfigFields& f, ModelConfig& c);
void nothing(Placer& p);

// The next token, by the token table or a matrix of its own.
void causal(const ConfigFields& f, ModelConfig& c);
void place_causal(Placer& p);  // lm_head.weight

// What the last token of a text says of all of it.
void last_classifier(const ConfigFields& f, ModelConfig& c);
void place_score(Placer& p);  // score

// Every token of a class.
void tagger(const ConfigFields& f, ModelConfig& c);
void place_tagger(Placer& p);  // classifier

// Where an answer begins and ends.
void answers(const ConfigFields& f, ModelConfig& c);
void place_answers(Placer& p);  // qa_outputs

// BERT's: a transform of each position before the softmax layer.
void masked(const ConfigFields& f, ModelConfig& c);
void place_masked(Placer& p);  // cls.predictions

// That and whether the second part of a text follows the first.
void pretraining(const ConfigFields& f, ModelConfig& c);
void place_pretraining(Placer& p);  // cls, pooler

// BERT's pooler, tanh of the first token, alone and before a classifier.
void pooled(const ConfigFields& f, ModelConfig& c);
void place_pooled(Placer& p);
void pooled_classifier(const ConfigFields& f, ModelConfig& c);
void place_pooled_classifier(Placer& p);  // pooler, classifier

// RoBERTa's: a transform and a norm, then the softmax layer; a classifier with a transform inside.
void gelu_masked(const ConfigFields& f, ModelConfig& c);
void place_lm_head(Placer& p);  // lm_head.dense, .layer_norm, .decoder
void classifier(const ConfigFields& f, ModelConfig& c);
void tanh_classifier(const ConfigFields& f, ModelConfig& c);
void place_dense_classifier(Placer& p);  // classifier.dense, .out_proj

}  // namespace longspan::heads
