// What mechanisms with terms of the distance share: a table of distances by head.
#pragma once

#include "longspan/attention/pattern/block_sparse.h"

namespace longspan {

// Distances run from −(n − 1) to n − 1; lanes that pad a tile read a little farther.
inline std::size_t bucket_count(std::size_t n) { return 2 * n - 1 + kQueryBlock; }

// Row i = [sin(r·θ_0), sin(r·θ_1), …, cos(r·θ_0), cos(r·θ_1), …] of the distance r = first + i·step,
// θ_c = 10000^(−2c/cols).
void fill_sinusoids(std::ptrdiff_t first, std::size_t step, Matrix rows);

// A table [rows, heads·d] by head, in rows that suit the tiles: memory of packed_floats() of all
// rows that it will ever have. The rows go behind `first` that were packed before.
std::size_t packed_floats(std::size_t rows, const AttentionShape& s);
ConstHeads pack_table(ConstMatrix table, const AttentionShape& s, std::span<float> memory,
                      std::size_t first = 0);

// to[·, head h] = Σ_b of the blocks (b, h), each of to.rows rows: the gradient of the table.
void sum_table(ConstMatrix blocks, const AttentionShape& s, Matrix to);
Work sum_table_work(std::size_t rows, const AttentionShape& s);

}  // namespace longspan
