// How well a masked language model knows every token of a text (Salazar et al. 2020): each token of
// a window is hidden alone, from a model that sees all the others.
//
//   PPPL = exp( −1/n · Σ_i log p(w_i | w_1 … w_{i−1}, w_{i+1} … w_n) )
//
// A window of n tokens is n sequences to the model, each with one target.
#pragma once

#include "longspan/training/evaluate.h"

namespace longspan {

struct PseudoTally {
  double loss = 0.0;
  std::size_t counted = 0;  // tokens
  std::size_t correct = 0;

  double mean_loss() const { return loss / static_cast<double>(counted); }
  // "pseudo_perplexity", as a metric of the task.
  Metric metric() const;
};

// Of the first `windows` of a split, or as many as it has, `rows` sequences at a time.
PseudoTally evaluate_pseudo(Model& model, Task& task, Split split, std::size_t windows,
                            std::size_t rows);

}  // namespace longspan
