// Runs of a packed pass: neighbouring sequences of equal length, which are a rectangle among
// themselves. What looks at sequences goes from run to run, and knows nothing of packed rows
// otherwise; a pass that is not packed is one run, itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "longspan/base/view.h"
#include "longspan/layers/branch.h"

namespace longspan {

struct Run {
  Pass pass;                 // not packed
  std::size_t sequence = 0;  // the first
  std::size_t row = 0;       // its first
  std::size_t context_row = 0;

  // Its part of a matrix that has a row for every token, one of the context, or a sequence.
  template <class T>
  MatrixView<T> rows(MatrixView<T> x) const {
    return x.slice_rows(row, pass.rows());
  }
  template <class T>
  MatrixView<T> context_rows(MatrixView<T> x) const {
    return x.slice_rows(context_row, pass.context_rows());
  }
  template <class T>
  MatrixView<T> sequences(MatrixView<T> x) const {
    return x.slice_rows(sequence, pass.batch);
  }
};

// The first row of every sequence.
template <class T>
MatrixView<T> first_rows(MatrixView<T> x, std::size_t length) {
  return {x.data, x.rows / length, x.cols, x.stride * length};
}

// The run that begins where `run` says.
inline Run next_run(const Pass& whole, Run run) {
  const auto same = [&](std::span<const std::int32_t> lengths, std::size_t b) {
    return lengths.empty() || lengths[b] == lengths[run.sequence];
  };
  const auto length = [&](std::span<const std::int32_t> lengths) {
    return lengths.empty() ? 0 : static_cast<std::size_t>(lengths[run.sequence]);
  };
  std::size_t end = run.sequence + 1;
  while (end < whole.batch && same(whole.lengths, end) && same(whole.context_lengths, end)) ++end;
  const auto part = [](auto all, std::size_t first, std::size_t count) {
    return all.empty() ? all : all.subspan(first, count);
  };
  Pass& own = run.pass = whole;
  own.packed = false;
  own.batch = end - run.sequence;
  own.length = length(whole.lengths);
  own.context_length = length(whole.context_lengths);
  own.lengths = own.context_lengths = {};
  own.tokens = part(whole.tokens, run.row, own.rows());
  own.token_types = part(whole.token_types, run.row, own.rows());
  own.globals = part(whole.globals, run.row, own.rows());
  own.context_types = part(whole.context_types, run.context_row, own.context_rows());
  if (whole.context.rows > 0) own.context = run.context_rows(whole.context);
  // What is drawn for sequence b of a pass must not be drawn again for the b-th of every run.
  own.key = derive(whole.key, run.sequence);
  return run;
}

template <class Body>
void for_each_run(const Pass& pass, const Body& body) {
  if (!pass.packed) return body(Run{.pass = pass});
  Run run;
  while (run.sequence < pass.batch) {
    run = next_run(pass, run);
    body(run);
    run.sequence += run.pass.batch;
    run.row += run.pass.rows();
    run.context_row += run.pass.context_rows();
  }
}

}  // namespace longspan
