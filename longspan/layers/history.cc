#include "longspan/layers/history.h"

#include <algorithm>
#include <utility>

#include "longspan/base/dry.h"
#include "longspan/base/error.h"
#include "longspan/base/sizes.h"

namespace longspan {

History::History(std::size_t batch, std::size_t capacity, std::size_t d_model)
    : batch_(batch),
      capacity_(capacity),
      d_model_(d_model),
      now_(size_product(batch, capacity, d_model)),
      next_(now_.size()) {}

void History::record(ConstMatrix x) {
  require(x.cols == d_model_ && x.rows % batch_ == 0,
          "[history] inputs are {} x {}; need {} sequences of width {}", x.rows, x.cols, batch_,
          d_model_);
  if (Dry::on()) return;
  const std::size_t fresh = std::min(x.rows / batch_, capacity_);
  const std::size_t old = std::min(length_, capacity_ - fresh);
  next_length_ = old + fresh;
  float* to = next_.data();
  for (std::size_t b = 0; b < batch_; ++b) {
    const ConstMatrix past = rows().slice_rows(b * length_ + length_ - old, old);
    const ConstMatrix present = x.slice_rows((b + 1) * (x.rows / batch_) - fresh, fresh);
    for (const ConstMatrix& part : {past, present}) {
      for (std::size_t i = 0; i < part.rows; ++i) to = std::ranges::copy(part.row(i), to).out;
    }
  }
}

void History::advance() {
  std::swap(now_, next_);
  length_ = next_length_;
}

}  // namespace longspan
