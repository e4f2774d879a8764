// A loss: what is made of the head's scores, and what training makes smaller.
//
//   predict   o = f(scores), Σ L(o, target)
//   error     ∂ Σ L / ∂ scores, from o
//   states    what a loss that also reads the last hidden states adds
//
// A model, a rule and a trainer know losses by this alone; one stem per loss, one line in loss.cc.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "longspan/base/batch.h"
#include "longspan/base/view.h"

namespace longspan {

struct LossSum {
  double loss = 0.0;        // over the counted targets
  std::size_t counted = 0;  // targets that are not ignored
  std::size_t correct = 0;  // of those, where a loss can tell
};

// What a loss compares the rows of the scores with: targets, values, times, whatever it needs of the
// batch. How many targets count is known beforehand: a dry step has no others.
struct Goal {
  Batch batch;
  std::size_t counted = 0;
};

class Loss {
 public:
  virtual ~Loss() = default;
  virtual std::string_view name() const = 0;
  // Whether a rule without a backward pass may feed its error back.
  virtual bool without_backward() const = 0;
  // Whether the scores of a row are those of classes, one of which is its target.
  virtual bool classifies() const { return false; }
  // Whether it also judges the scores of padding.
  virtual bool reads_padding() const { return false; }
  // Whether it also compares the last hidden states, of which every row of scores has one.
  virtual bool reads_states() const { return false; }

  // Whether every output has a target for each sequence, one of its rows.
  virtual bool places() const { return false; }
  // Outputs that a row must have; 0: any number.
  virtual std::size_t outputs() const { return 0; }

  // The number of targets of the batch that count.
  virtual std::size_t count(const Batch& batch) const = 0;
  // Throws Error unless the batch has targets for that many rows of scores.
  virtual void check(const Batch& batch, std::size_t rows, std::size_t outputs) const = 0;
  // The batch; where it has no targets, with addresses that stand for some which all count.
  virtual Goal goal(const Batch& batch, std::size_t rows, std::size_t outputs) const = 0;

  // What a model is judged by: the sum alone; the scores are kept.
  virtual LossSum measure(ConstMatrix scores, const Goal& goal) const = 0;
  // In place: scores become scale·o.
  virtual LossSum predict(Matrix scores, const Goal& goal, float scale) const = 0;
  // In place: scale·o becomes the gradient of scale·Σ L in the scores.
  virtual void error(Matrix outputs, const Goal& goal, float scale) const = 0;
  // Of losses that read the last hidden states h: what these add to the sum, and dh += the gradient
  // of scale times that.
  virtual double states(ConstMatrix /*h*/, const Goal& /*goal*/) const { return 0.0; }
  virtual void states_error(ConstMatrix /*h*/, const Goal& /*goal*/, float /*scale*/,
                            Matrix /*dh*/) const {}
};

// Of "name" or, where a loss has options, "name:key=value,…". Throws Error with the nearest name
// when there is none.
std::unique_ptr<Loss> make_loss(std::string_view spec);

}  // namespace longspan
