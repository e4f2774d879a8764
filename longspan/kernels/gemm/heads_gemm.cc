#include "longspan/kernels/gemm/heads_gemm.h"

#include <algorithm>

#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/base/integers.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/gemm/gemm.h"

namespace longspan {

void gemm_heads(ConstHeads x, ConstHeads w, bool transpose_w, Heads y) {
  const std::size_t inner = transpose_w ? w.d : w.n;
  const std::size_t outer = transpose_w ? w.n : w.d;
  require(x.batch == 1 && w.batch == 1 && y.batch == 1 && x.heads == w.heads &&
              x.heads == y.heads && x.n == y.n && x.d == inner && y.d == outer,
          "[gemm] heads [{}, {}, {}] by [{}, {}, {}]{} give [{}, {}, {}]; need m×k, k×n, m×n",
          x.heads, x.n, x.d, w.heads, w.n, w.d, transpose_w ? " (transposed)" : "", y.heads, y.n,
          y.d);
  const Called called([&] {
    Call call = product_call(transpose_w ? "forward" : "backward", x.n, x.heads * outer, inner);
    call.work.bytes_of(Kind::kMatmul) += 4 * (x.heads - 1) * x.n * inner;
    return call;
  });
  if (called.dry()) return;
  constexpr std::size_t kRows = 256;  // of a task
  const std::size_t pieces = divide_up(x.n, kRows);
  parallel_for(x.heads * pieces, [&](std::size_t task, std::size_t /*worker*/) {
    const std::size_t h = task / pieces;
    const std::size_t first = task % pieces * kRows;
    const std::size_t count = std::min(kRows, x.n - first);
    gemm_serial(x.head(0, h).slice_rows(first, count), w.head(0, h),
                y.head(0, h).slice_rows(first, count), {.transpose_b = transpose_w});
  });
}

}  // namespace longspan
