#include "longspan/kernels/gemm.h"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>
#include <cassert>

#include "longspan/base/error.h"
#include "longspan/base/meter.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/gemm_tiles.h"
#include "longspan/kernels/packed_gemm.h"

namespace longspan {
namespace {

// A copy of B pays from this size on. B by rows is where oneDNN reads in place and, when rows are a
// power of two apart, loses a third of its speed to conflicts in the cache.
constexpr std::size_t kPackedRows = 6;
constexpr std::size_t kPackedCols = 12;

struct Shape {
  std::size_t m;
  std::size_t n;
  std::size_t k;
};

Shape shape_of(ConstMatrix a, ConstMatrix b, const GemmOptions& o) {
  return {o.transpose_a ? a.cols : a.rows, o.transpose_b ? b.rows : b.cols,
          o.transpose_a ? a.rows : a.cols};
}

bool fits(ConstMatrix a, ConstMatrix b, ConstMatrix c, const GemmOptions& o) {
  const Shape s = shape_of(a, b, o);
  return (o.transpose_b ? b.cols : b.rows) == s.k && c.rows == s.m && c.cols == s.n;
}

// While it lives, libraries called from this thread see one OpenMP thread.
class OneThread {
 public:
  OneThread() : threads_(omp_in_parallel() != 0 ? 1 : omp_get_max_threads()) {
    if (threads_ > 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (threads_ > 1) omp_set_num_threads(threads_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int threads_;
};

dnnl_dim_t leading(ConstMatrix x) {  // a view of one row may carry any stride
  return static_cast<dnnl_dim_t>(std::max({x.stride, x.cols, std::size_t{1}}));
}

// Single-threaded; the caller has seen to it that oneDNN finds one thread.
void multiply(ConstMatrix a, ConstMatrix b, Matrix c, const GemmOptions& o) {
  const Shape s = shape_of(a, b, o);
  if (s.m == 0 || s.n == 0) return;
  if (s.k == 0) {
    if (o.accumulate) return;
    for (std::size_t i = 0; i < s.m; ++i) std::ranges::fill(c.row(i), 0.0F);
    return;
  }
  if (!o.transpose_b && s.m >= kPackedRows && s.n >= kPackedCols) {
    return detail::packed_gemm(a, b, c, o);
  }
  [[maybe_unused]] const dnnl_status_t status =
      dnnl_sgemm(o.transpose_a ? 'T' : 'N', o.transpose_b ? 'T' : 'N', static_cast<dnnl_dim_t>(s.m),
                 static_cast<dnnl_dim_t>(s.n), static_cast<dnnl_dim_t>(s.k), o.alpha, a.data,
                 leading(a), b.data, leading(b), o.accumulate ? 1.0F : 0.0F, c.data, leading(c));
  assert(status == dnnl_success);
}

}  // namespace

void gemm_serial(ConstMatrix a, ConstMatrix b, Matrix c, GemmOptions options) {
  assert(fits(a, b, c, options));
  const OneThread one;
  multiply(a, b, c, options);
}

void gemm(ConstMatrix a, ConstMatrix b, Matrix c, GemmOptions options) {
  require(fits(a, b, c, options),
          "[gemm] A is {}x{}{}, B is {}x{}{}, C is {}x{}; need m×k, k×n, m×n", a.rows, a.cols,
          options.transpose_a ? " (transposed)" : "", b.rows, b.cols,
          options.transpose_b ? " (transposed)" : "", c.rows, c.cols);
  const Shape s = shape_of(a, b, options);
  const detail::GemmTiles tiles = detail::gemm_tiles(s.m, s.n, s.k);
  if (tiles.count() <= 1) {
    gemm_serial(a, b, c, options);
    return Meter::matmul(s.m, s.n, s.k);
  }
  parallel_for(tiles.count(), [&](std::size_t index, std::size_t) {
    const auto t = tiles[index];
    gemm_serial(options.transpose_a ? a.slice_cols(t.row, t.rows) : a.slice_rows(t.row, t.rows),
                options.transpose_b ? b.slice_rows(t.col, t.cols) : b.slice_cols(t.col, t.cols),
                c.slice_rows(t.row, t.rows).slice_cols(t.col, t.cols), options);
  });
  Meter::matmul(s.m, s.n, s.k);
}

}  // namespace longspan
