// Kernels on whole batches of sequences: what would else be a loop over tokens or sequences.
//
// Every function says in its last line what it reports.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "longspan/base/view.h"

namespace longspan {

// Row r of a matrix belongs to row ((first + r mod period)/divide) mod modulo of a table.
struct RowMap {
  std::size_t period = std::numeric_limits<std::size_t>::max();  // rows of a sequence
  std::size_t first = 0;
  std::size_t divide = 1;
  std::size_t modulo = std::numeric_limits<std::size_t>::max();

  std::size_t row(std::size_t r) const { return (first + r % period) / divide % modulo; }
};
// x[r] += table[row(r)].                                          kAdd, 1 per element of x
void add_mapped_rows(ConstMatrix table, const RowMap& map, Matrix x);
// table[row(r)] += x[r], in the order of r for each row of the table.    kAdd, 1 per element of x
void sum_mapped_rows(ConstMatrix x, const RowMap& map, Matrix table);

// x[r, 2i] += sin(t_r·10000^(−2i/d)), x[r, 2i+1] += cos(…).         kAdd, 1 per element of x
void add_time_waves(std::span<const float> times, Matrix x);

// Sequences of `length` rows, of which the first lengths[b] are real; all of them where there are
// no lengths.
struct Sequences {
  std::size_t length = 0;
  std::span<const std::int32_t> lengths;

  std::size_t real(std::size_t b) const {
    return lengths.empty() ? length : static_cast<std::size_t>(lengths[b]);
  }
};
// The rows of x that are not real become zeros.                   nothing
void zero_padding(const Sequences& sequences, Matrix x);
// mean[b] = the mean of the real rows of sequence b; one without any has its first row's.
//                                                kAdd, 1 per real element and 1 per mean element
void mean_rows(ConstMatrix x, const Sequences& sequences, Matrix mean);
// Its gradient: dx is dmean[b]/count at real rows and 0 elsewhere. Spoils dmean.
//                                                                 kAdd, 1 per element of dmean
void spread_mean(Matrix dmean, const Sequences& sequences, Matrix dx);

// Rows whose id is `id` become zeros.                             nothing
void zero_rows_of(std::int32_t id, std::span<const std::int32_t> ids, Matrix x);

// y_b = softmax(factor·q_b·e_bᵀ)·e_b for every sequence b of n queries and m rows e, n×m being the
// shape of `scores`, which holds those of one sequence. Rows e whose target is ignored carry
// nothing and are not attended to; without targets all are.
//                          MACCs; kSoftmax 5 and kAdd 1 per score; of one-hot queries no first
//                          product
void attend_sequences(ConstMatrix q, ConstMatrix e, std::span<const std::int32_t> targets,
                      float factor, Matrix scores, Matrix y);
// The same with queries that are one-hot: a column of e each.
void attend_one_hot(std::span<const std::int32_t> ids, ConstMatrix e,
                    std::span<const std::int32_t> targets, float factor, Matrix scores, Matrix y);

// y = x, head by head.                                            nothing
void copy(ConstHeads x, Heads y);
// y = Σ_h x_h, in the order of the heads; y has one head.          kAdd, heads − 1 per element of y
void sum_heads(ConstHeads x, Heads y);

}  // namespace longspan
