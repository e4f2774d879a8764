#include "longspan/kernels/rows/chosen_rows.h"

#include <algorithm>

#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/kernels/rows/vector.h"

namespace longspan {

namespace {

void require_fit(const ChosenRows& chosen, ConstMatrix all, ConstMatrix one) {
  require(all.rows == one.rows * chosen.sequences.length && all.cols == one.cols,
          "[chosen rows] {}x{} of {}x{} in sequences of {}; need one of each", one.rows, one.cols,
          all.rows, all.cols, chosen.sequences.length);
  require(chosen.ids.empty() || chosen.ids.size() == all.rows,
          "[chosen rows] {} ids of {} rows; need as many", chosen.ids.size(), all.rows);
}

}  // namespace

std::size_t ChosenRows::row(std::size_t b) const {
  const std::size_t first = b * sequences.length;
  const std::size_t real = sequences.real(b);
  if (real == 0) return first;
  if (ids.empty()) return first + real - 1;
  const auto own = ids.subspan(first, real);
  return first + static_cast<std::size_t>(std::ranges::max_element(own) - own.begin());
}

void take_rows(const ChosenRows& chosen, ConstMatrix x, Matrix y) {
  require_fit(chosen, x, y);
  const Called called([&] { return move_call(y.rows, y.cols); });
  if (called.dry()) return;
  for (std::size_t b = 0; b < y.rows; ++b) std::ranges::copy(x.row(chosen.row(b)), y.row_data(b));
}

void put_rows(const ChosenRows& chosen, ConstMatrix y, Matrix x) {
  require_fit(chosen, x, y);
  const Called called([&] { return move_call(x.rows, x.cols); });
  if (called.dry()) return;
  const Listener::Mute mute;
  fill(x, 0.0F);
  for (std::size_t b = 0; b < y.rows; ++b) std::ranges::copy(y.row(b), x.row_data(chosen.row(b)));
}

}  // namespace longspan
