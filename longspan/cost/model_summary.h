// What a model is at a glance: what its layers see, what a token uses, what decoding keeps.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "longspan/cost/integer.h"
#include "longspan/models/model.h"

namespace longspan {

struct ModelSummary {
  // Tokens that each layer of self-attention sees up to its own, in order; 0: all of them.
  std::vector<std::size_t> windows;
  std::size_t expert_layers = 0;
  std::size_t experts = 0;  // of a layer that has them
  std::size_t chosen = 0;   // by a token
  // Parameters that a token uses: all but those of experts that it does not choose.
  Integer active = 0;
  // Numbers that decoding keeps, of every token and however many there are.
  Integer cache_per_token = 0;
  Integer cache_fixed = 0;
};

ModelSummary summarize(const Model& model);

// "dense (1 layer), experts:… (59 layers)" of what the layers take in turn.
std::string turns_in_words(const std::string& turns, std::size_t layers);

// "windows of 4096 in 21 of 42 layers, 8 experts of which 2 are chosen, …"; empty where there is
// nothing to say.
std::string in_words(const ModelSummary& summary);

}  // namespace longspan
