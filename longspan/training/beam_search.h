// The likeliest text that a search of limited width finds.
//
//   log P(Y) = Σ_t log p(y_t | y_1 … y_{t−1})         the boundary that ends Y included
//   score(Y) = log P(Y) / lp(|Y|)                     what ended texts are compared by
//   lp(n)    = ((5 + n)/6)^α                          Wu et al., 2016, arXiv:1609.08144, (14)
//
// K texts go on side by side. Of all their continuations the likeliest stay, as many as there are
// places; one that ends keeps its place, so that a search of width 1 is greedy generation. At the
// limit the texts that did not end are compared with those that did. The search stops before where
// none that goes on can score more: log P never grows, and lp(limit) is the most it is divided by.
//
// Of equal log P the continuation of the likelier text comes first, then the lower token. A wider
// search mostly finds likelier texts, but nothing ensures it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "longspan/base/number.h"
#include "longspan/training/writer.h"

namespace longspan {

struct BeamConfig {
  std::size_t beams = 4;        // K
  double length_penalty = 0.6;  // α; 0: log P itself

  bool operator==(const BeamConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("beams", beams, from_to(1, 1000));
    see("length_penalty", length_penalty, from_to(0, 10));
  }
};

struct FoundText {
  std::vector<std::int32_t> tokens;  // without the boundary
  bool ended = false;                // by the boundary
  double log_probability = 0.0;
  double score = 0.0;
};

class BeamSearch {
 public:
  BeamSearch(Model& model, const BeamConfig& config);

  // At most `limit` tokens behind the prompt; `boundary` ends a text, none does where it is −1.
  FoundText find(std::vector<std::int32_t> prompt, std::int32_t boundary, std::size_t limit);

 private:
  // A text that goes on, and its place in the writer; the likelier come first.
  struct Open {
    std::size_t place = 0;
    double log_probability = 0.0;
  };
  struct Continuation {
    double log_probability = 0.0;
    std::size_t parent = 0;  // in open_
    float logit = 0.0F;
    std::int32_t token = 0;
  };
  double score(double log_probability, std::size_t length) const;
  // Sets next_, the likeliest `count` continuations.
  void rank(ConstMatrix scores, std::size_t count);
  // Takes those that end out of next_.
  void close(const Writer& writer, std::int32_t boundary);
  // The others become the open texts.
  void go_on(Writer& writer);
  void offer(FoundText text);
  bool decided(std::size_t limit) const;

  Model& model_;
  BeamConfig config_;
  std::size_t ended_ = 0;
  std::optional<FoundText> best_;
  std::vector<Open> open_;
  std::vector<Open> after_;
  std::vector<Continuation> next_;
  std::vector<Continuation> own_;     // of one text
  std::vector<bool> held_;            // places of texts that go on
  std::vector<std::int32_t> tokens_;  // one for each place
};

}  // namespace longspan
