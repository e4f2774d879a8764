// The projections of a layer's streams (streams.h): y = x·Wᵀ + b, W [columns, inputs].
//
//   dx  = dy·W
//   dW += dyᵀ·x,   db += Σ_rows dy
//
// MACCs rows·inputs·columns in each phase; the bias adds rows·columns FLOPs forward and update.
// Frozen parameters have no update.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>

#include "longspan/attention/streams.h"
#include "longspan/base/parameter.h"
#include "longspan/base/view.h"
#include "longspan/base/work.h"

namespace longspan {

class Projections;

// One stream, or several that stand side by side in one matrix: one product.
class Projection {
 public:
  Projection() = default;

  void forward(ConstMatrix x, Matrix y) const;
  // dx = dy·W, or dx += dy·W.
  void backward(ConstMatrix dy, Matrix dx, bool add) const;
  void accumulate(ConstMatrix x, ConstMatrix dy) const;
  // Without the padding of sequences with these lengths.
  void accumulate(ConstMatrix x, ConstMatrix dy, std::span<const std::int32_t> lengths) const;
  // dW += a product dyᵀ·x that was made elsewhere.
  void add_gradient(ConstMatrix dw) const;
  // What each of these is worth.
  Work forward_work(std::size_t rows) const;
  Work backward_work(std::size_t rows) const;
  Work update_work(std::size_t rows) const;

  // Whether a layer has declared its matrix.
  bool declared() const;
  bool frozen() const;
  std::size_t columns() const { return columns_; }
  std::size_t inputs() const;

 private:
  friend class Projections;
  struct Group {
    std::string name;
    std::size_t inputs = 0;
    std::size_t columns = 0;
    Source source = Source::kInput;
    bool on_call = false;
    bool sliced = false;  // a mechanism calls for a part of it
    bool bias = false;
    Parameter* weight = nullptr;
    Parameter* offset = nullptr;
  };
  Projection(const Group& group, std::size_t first, std::size_t columns)
      : group_(&group), first_(first), columns_(columns) {}
  bool whole() const { return columns_ == group_->columns; }

  const Group* group_ = nullptr;
  std::size_t first_ = 0;  // row of the group's matrix
  std::size_t columns_ = 0;
};

class Projections {
 public:
  Projections(const Streams& streams, const AttentionLayout& layout, bool bias);
  // Projection points into it.
  Projections(const Projections&) = delete;
  Projections& operator=(const Projections&) = delete;

  // The matrices of given streams from this source; of those on call.
  void declare_given(Parameters& parameters, Source source);
  void declare_on_call(Parameters& parameters);

  // One stream by its name, or those from `first` to `last` of one group.
  Projection of(std::string_view first, std::string_view last = {}) const;

  // Where a given stream begins among the columns of what its source's products give.
  std::size_t column(std::string_view stream) const;
  // All given streams from a source: a product for each group, side by side.
  void forward(Source source, ConstMatrix x, Matrix y) const;
  void backward(Source source, ConstMatrix dy, Matrix dx, bool add) const;
  void accumulate(Source source, ConstMatrix x, ConstMatrix dy) const;
  bool frozen(Source source) const;

 private:
  struct Row {
    std::string stream;
    Projection::Group* group;
    std::size_t first;
    std::size_t columns;
  };
  void place(const Stream& stream, bool on_call, std::size_t d_model, bool bias);
  void declare(Parameters& parameters, Projection::Group& group) const;
  template <class Do>
  void for_each_given(Source source, Do act) const;

  std::string name_;
  float deviation_;
  std::deque<Projection::Group> groups_;
  std::deque<Row> rows_;
};

}  // namespace longspan
