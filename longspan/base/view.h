// Views: shapes and strides over memory that somebody else owns.
#pragma once

#include <cassert>
#include <cstddef>
#include <span>
#include <type_traits>

namespace longspan {

// A row-major matrix; rows are `stride` elements apart, a row's elements are contiguous.
template <class T>
struct MatrixView {
  T* data = nullptr;
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::size_t stride = 0;

  MatrixView() = default;
  MatrixView(T* data_, std::size_t rows_, std::size_t cols_)
      : MatrixView(data_, rows_, cols_, cols_) {}
  MatrixView(T* data_, std::size_t rows_, std::size_t cols_, std::size_t stride_)
      : data(data_), rows(rows_), cols(cols_), stride(stride_) {}
  // A view of mutable elements is also a view of constant ones.
  template <class U>
  requires(std::is_same_v<const U, T>)
      MatrixView(const MatrixView<U>& other)  // NOLINT(google-explicit-constructor)
      : MatrixView(other.data, other.rows, other.cols, other.stride) {}

  T* row_data(std::size_t i) const { return data + i * stride; }
  std::span<T> row(std::size_t i) const { return {row_data(i), cols}; }
  std::size_t size() const { return rows * cols; }
  bool contiguous() const { return stride == cols || rows <= 1; }

  MatrixView slice_rows(std::size_t first, std::size_t count) const {
    assert(first + count <= rows);
    return {row_data(first), count, cols, stride};
  }
  MatrixView slice_cols(std::size_t first, std::size_t count) const {
    assert(first + count <= cols);
    return {data + first, rows, count, stride};
  }
};

using Matrix = MatrixView<float>;
using ConstMatrix = MatrixView<const float>;

// A matrix that products read as their right side; `packed` in the layout of the micro-kernels
// (kernels/gemm/packed_weights.h).
struct WeightMatrix {
  ConstMatrix matrix;
  bool packed = false;

  WeightMatrix(ConstMatrix plain, bool is_packed = false)  // NOLINT(google-explicit-constructor)
      : matrix(plain), packed(is_packed) {}
  WeightMatrix(Matrix plain) : matrix(plain) {}  // NOLINT(google-explicit-constructor)
};

// Attention's tensors: [batch, heads, n, d], the last dimension contiguous.
template <class T>
struct HeadsView {
  T* data = nullptr;
  std::size_t batch = 0;
  std::size_t heads = 0;
  std::size_t n = 0;
  std::size_t d = 0;
  std::size_t batch_stride = 0;
  std::size_t head_stride = 0;
  std::size_t row_stride = 0;

  HeadsView() = default;
  // Densely packed [batch, heads, n, d].
  HeadsView(T* data_, std::size_t batch_, std::size_t heads_, std::size_t n_, std::size_t d_)
      : data(data_),
        batch(batch_),
        heads(heads_),
        n(n_),
        d(d_),
        batch_stride(heads_ * n_ * d_),
        head_stride(n_ * d_),
        row_stride(d_) {}
  template <class U>
  requires(std::is_same_v<const U, T>)
      HeadsView(const HeadsView<U>& o)  // NOLINT(google-explicit-constructor)
      : data(o.data),
        batch(o.batch),
        heads(o.heads),
        n(o.n),
        d(o.d),
        batch_stride(o.batch_stride),
        head_stride(o.head_stride),
        row_stride(o.row_stride) {}

  // The heads that lie side by side in the columns of x: [batch·n, heads·d].
  static HeadsView from_columns(MatrixView<T> x, std::size_t batch_, std::size_t heads_) {
    HeadsView v;
    v.data = x.data;
    v.batch = batch_;
    v.heads = heads_;
    v.n = batch_ == 0 ? 0 : x.rows / batch_;
    v.d = heads_ == 0 ? 0 : x.cols / heads_;
    v.batch_stride = v.n * x.stride;
    v.head_stride = v.d;
    v.row_stride = x.stride;
    return v;
  }

  // One head as a matrix [n, d].
  MatrixView<T> head(std::size_t b, std::size_t h) const {
    return {data + b * batch_stride + h * head_stride, n, d, row_stride};
  }
  // `count` positions from `begin` on.
  HeadsView slice(std::size_t begin, std::size_t count) const {
    HeadsView v = *this;
    v.data += begin * row_stride;
    v.n = count;
    return v;
  }
  HeadsView first(std::size_t count) const { return slice(0, count); }
};

using Heads = HeadsView<float>;
using ConstHeads = HeadsView<const float>;

}  // namespace longspan
