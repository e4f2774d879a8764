// The quantities on which the time of a call depends.
//
//   product     MACCs; what is read of A and B and written of C; tiles; calls
//   packed      MACCs of whole blocks of rows; weights, and those that keep arithmetic waiting; what
//               is written; tiles; calls
//   rows        elements; rows; calls           norms, activations, additions, look-ups, steps
//   transform   FLOPs; elements; calls          of Fourier
//   attention   MACCs; FLOPs of softmax, of hashing, of sorting, of features, of additions, others;
//               bytes gathered; queries; calls
//
// They are those of the thread with the most to do: work that is cut into c pieces takes ⌈c/T⌉
// rounds on T threads.
#pragma once

#include <cstddef>
#include <vector>

#include "longspan/base/meter.h"

namespace longspan {

// C m×n, inner k.
std::vector<double> product_quantities(std::size_t m, std::size_t n, std::size_t k);
// The same with packed weights, k×n.
std::vector<double> packed_quantities(std::size_t m, std::size_t n, std::size_t k);
// `calls` is 0 for work that is done inside another call.
std::vector<double> row_quantities(std::size_t rows, std::size_t cols, double calls = 1.0);
std::vector<double> transform_quantities(std::size_t elements, const Work& work);
std::vector<double> attention_quantities(double queries, const Work& work);

}  // namespace longspan
