#include "longspan/attention/position/relative_table.h"

#include <algorithm>
#include <cmath>

#include "longspan/kernels/tiled/tile_layout.h"

namespace longspan {

// By turning each pair (sin, cos) on by step·θ.
void fill_sinusoids(std::ptrdiff_t first, std::size_t step, Matrix rows) {
  const std::size_t half = (rows.cols + 1) / 2;
  for (std::size_t c = 0; c < half; ++c) {
    const double theta =
        std::pow(10000.0, -2.0 * static_cast<double>(c) / static_cast<double>(rows.cols));
    const double start = theta * static_cast<double>(first);
    const double turn_sin = std::sin(theta * static_cast<double>(step));
    const double turn_cos = std::cos(theta * static_cast<double>(step));
    double sine = std::sin(start);
    double cosine = std::cos(start);
    for (std::size_t i = 0; i < rows.rows; ++i) {
      rows.row_data(i)[c] = static_cast<float>(sine);
      if (half + c < rows.cols) rows.row_data(i)[half + c] = static_cast<float>(cosine);
      const double next = sine * turn_cos + cosine * turn_sin;
      cosine = cosine * turn_cos - sine * turn_sin;
      sine = next;
    }
  }
}

std::size_t packed_floats(std::size_t rows, const AttentionShape& s) {
  return s.heads * rows * tile_pitch(s.d);
}

ConstHeads pack_table(ConstMatrix table, const AttentionShape& s, std::span<float> memory,
                      std::size_t first) {
  const std::size_t pitch = tile_pitch(s.d);
  const std::size_t most = memory.size() / packed_floats(1, s);
  for (std::size_t h = 0; h < s.heads; ++h) {
    for (std::size_t r = 0; r < table.rows; ++r) {
      std::copy_n(table.row_data(r) + h * s.d, s.d, &memory[(h * most + first + r) * pitch]);
    }
  }
  ConstHeads packed(memory.data(), s.batch, s.heads, first + table.rows, s.d);
  packed.batch_stride = 0;  // all sequences share it
  packed.head_stride = most * pitch;
  packed.row_stride = pitch;
  return packed;
}

void sum_table(ConstMatrix blocks, const AttentionShape& s, Matrix to) {
  for (std::size_t plane = 0; plane < s.batch * s.heads; ++plane) {
    const std::size_t h = plane % s.heads;
    for (std::size_t r = 0; r < to.rows; ++r) {
      const float* from = blocks.row_data(plane * to.rows + r);
      float* row = to.row_data(r) + h * s.d;
      for (std::size_t c = 0; c < s.d; ++c) row[c] = plane < s.heads ? from[c] : row[c] + from[c];
    }
  }
  report(sum_table_work(to.rows, s));
}

Work sum_table_work(std::size_t rows, const AttentionShape& s) {
  const std::size_t size = rows * s.heads * s.d;
  return flops(Kind::kAdd, (s.batch - 1) * size, 8 * s.batch * size);
}

}  // namespace longspan
