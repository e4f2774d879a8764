#include "longspan/kernels/gemm/gemm.h"

#include <dnnl.h>
#include <execinfo.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdlib>
#include <vector>

#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/kernels/gemm/gemm_run.h"
#include "longspan/kernels/pieces.h"
#include "longspan/kernels/rows/vector.h"

namespace longspan {
namespace {

using detail::shape_of;

bool fits(ConstMatrix a, ConstMatrix b, ConstMatrix c, const GemmOptions& o) {
  const detail::GemmShape s = shape_of(a, b, o);
  return (o.transpose_b ? b.cols : b.rows) == s.k && c.rows == s.m && c.cols == s.n;
}

// While it lives, this thread and the libraries that it calls see one OpenMP thread.
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

void library_product(ConstMatrix a, ConstMatrix b, Matrix c, const GemmOptions& o) {
  const detail::GemmShape s = shape_of(a, b, o);
  const dnnl_status_t status =
      dnnl_sgemm(o.transpose_a ? 'T' : 'N', o.transpose_b ? 'T' : 'N', static_cast<dnnl_dim_t>(s.m),
                 static_cast<dnnl_dim_t>(s.n), static_cast<dnnl_dim_t>(s.k), o.alpha, a.data,
                 leading(a), b.data, leading(b), o.add ? 1.0F : 0.0F, c.data, leading(c));
  if (status == dnnl_success) return;
  throw SystemError(
      status == dnnl_out_of_memory
          ? fmt::format("[gemm] the machine refused memory for a product of {} × {} × {}", s.m, s.n,
                        s.k)
          : fmt::format("[gemm] oneDNN refused a product of {} × {} × {} with status {}", s.m, s.n,
                        s.k, static_cast<int>(status)));
}

// A product of vectors and products of matrices are compiled apart.
void compile_library() {
  constexpr std::size_t kBytes = std::size_t{16} << 20U;  // 6 MiB of kernels, and what makes them
  void* const memory = std::malloc(kBytes);               // NOLINT: nothing is kept in it
  if (memory == nullptr) {
    throw SystemError(fmt::format(
        "[gemm] the machine refused {} bytes for the kernels of products; free some memory",
        kBytes));
  }
  std::free(memory);  // NOLINT
  // What oneDNN throws all the same passes through pthread_once, where glibc needs the unwinder: it
  // is loaded here, as long as there is memory for it.
  void* frame = nullptr;
  static_cast<void>(::backtrace(&frame, 1));
  constexpr std::size_t kSide = 8;
  const std::vector<float> zeros(kSide * kSide);
  std::vector<float> product(kSide * kSide);
  for (const std::size_t n : {std::size_t{1}, kSide}) {
    for (const bool a : {false, true}) {
      for (const bool b : {false, true}) {
        library_product({zeros.data(), n, n}, {zeros.data(), n, n}, {product.data(), n, n},
                        {.transpose_a = a, .transpose_b = b});
      }
    }
  }
}

constexpr auto kNothing = [](Matrix, std::size_t, std::size_t) {};

// Aᵀ·B of weights' gradients: rows of A and B are tokens, and half of them is what half of the
// threads wrote.
bool halving_pays(const detail::GemmShape& shape, const GemmOptions& options) {
  constexpr std::size_t kRows = 512;
  constexpr std::size_t kOutputs = std::size_t{1} << 20U;  // 4 MiB for the second half's sum
  return options.transpose_a && !options.transpose_b && detail::packing_pays(shape, options) &&
         shape.k >= kRows && shape.m * shape.n <= kOutputs;
}

// C = α·Aᵀ·B, or +=: the halves add up to it.
void run_halves(ConstMatrix a, ConstMatrix b, Matrix c, const GemmOptions& options) {
  const std::size_t half = (a.rows + 1) / 2;
  const std::size_t panels = 2 * detail::panel_floats(detail::gemm_blocks(c.cols, half));
  float* space = detail::thread_space(panels + c.size());
  const Matrix rest(space + panels, c.rows, c.cols);
  const std::array<detail::GemmPart, 2> parts = {
      {{a.slice_rows(0, half), b.slice_rows(0, half), c, options.add},
       {a.slice_rows(half, a.rows - half), b.slice_rows(half, a.rows - half), rest, false}}};
  detail::PackedProducts(std::span<const detail::GemmPart>(parts), options, space, kNothing).run();
  detail::in_pieces(c.rows, detail::rows_per_piece(c.cols),
                    [&](std::size_t begin, std::size_t end) {
                      for (std::size_t i = begin; i < end; ++i) add_row(rest.row(i), c.row_data(i));
                    });
}

void require_fit(ConstMatrix a, ConstMatrix b, ConstMatrix c, const GemmOptions& options) {
  require(fits(a, b, c, options),
          "[gemm] A is {}x{}{}, B is {}x{}{}, C is {}x{}; need m×k, k×n, m×n", a.rows, a.cols,
          options.transpose_a ? " (transposed)" : "", b.rows, b.cols,
          options.transpose_b ? " (transposed)" : "", c.rows, c.cols);
}

Call call_of(const detail::GemmShape& s, const GemmOptions& options) {
  const std::string_view variant = options.transpose_a   ? "update"
                                   : options.transpose_b ? "forward"
                                                         : "backward";
  return product_call(variant, s.m, s.n, s.k);
}

}  // namespace

namespace detail {

bool packing_pays(const GemmShape& shape, const GemmOptions& options) {
  constexpr std::size_t kRows = 6;
  constexpr std::size_t kRowsIfTransposed = 192;
  constexpr std::size_t kCols = 12;
  return shape.k > 0 && shape.n >= kCols &&
         shape.m >= (options.transpose_b ? kRowsIfTransposed : kRows);
}

void library_gemm(ConstMatrix a, ConstMatrix b, Matrix c, const GemmOptions& o) {
  const GemmShape s = shape_of(a, b, o);
  if (s.k == 0) {
    if (o.add) return;
    for (std::size_t i = 0; i < s.m; ++i) std::ranges::fill(c.row(i), 0.0F);
    return;
  }
  prepare_products();
  const OneThread one;
  library_product(a, b, c, o);
}

}  // namespace detail

void prepare_products() {
  static const bool prepared = [] {
    parallel_for(workers(), [](std::size_t, std::size_t) {});  // OpenMP's threads want memory too
    const OneThread one;
    compile_library();
    return true;
  }();
  static_cast<void>(prepared);
}

void gemm_serial(ConstMatrix a, ConstMatrix b, Matrix c, GemmOptions options) {
  assert(fits(a, b, c, options));
  const OneThread one;
  detail::run_gemm(a, b, c, options, kNothing);
}

void gemm(ConstMatrix a, ConstMatrix b, Matrix c, GemmOptions options) {
  require_fit(a, b, c, options);
  const detail::GemmShape s = shape_of(a, b, options);
  const Called called([&] { return call_of(s, options); });
  if (called.dry()) return;
  if (halving_pays(s, options)) {
    run_halves(a, b, c, options);
  } else {
    detail::run_gemm(a, b, c, options, kNothing);
  }
}

void gemm_real_rows(ConstMatrix a, ConstMatrix b, Matrix c, std::span<const std::int32_t> lengths,
                    GemmOptions options) {
  options.transpose_a = true;
  if (lengths.empty()) return gemm(a, b, c, options);
  require_fit(a, b, c, options);
  require(a.rows % lengths.size() == 0, "[gemm] {} rows for {} lengths; need a multiple", a.rows,
          lengths.size());
  const Called called([&] { return call_of(shape_of(a, b, options), options); });
  if (called.dry()) return;
  const std::size_t rows = a.rows / lengths.size();
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const std::size_t real = std::min(rows, static_cast<std::size_t>(lengths[i]));
    detail::run_gemm(a.slice_rows(i * rows, real), b.slice_rows(i * rows, real), c, options,
                     kNothing);
    options.add = true;
  }
}

}  // namespace longspan
