#include "longspan/predict/quantities.h"

#include <algorithm>

#include "longspan/base/integers.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/gemm/gemm_tiles.h"
#include "longspan/kernels/pieces.h"

namespace longspan {

namespace {

// What one thread of all does when c equal pieces are shared out: ⌈c/T⌉/c.
double busiest_share(std::size_t pieces) {
  const std::size_t threads = workers();
  const std::size_t rounds = divide_up(pieces, threads);
  return static_cast<double>(rounds) / static_cast<double>(std::max<std::size_t>(pieces, 1));
}

}  // namespace

std::vector<double> product_quantities(std::size_t m, std::size_t n, std::size_t k) {
  const detail::GemmBlocks blocks = detail::gemm_blocks(n, k);
  const detail::GemmTiles tiles = detail::gemm_tiles(m, blocks.cols, blocks.depth);
  const double share = busiest_share(tiles.count());
  const auto depth = static_cast<double>(k);
  // Rows and columns are computed by whole micro-tiles.
  const auto rows = static_cast<double>(round_up(m, std::size_t{6}));
  const auto cols = static_cast<double>(round_up(n, std::size_t{16}));
  const double across = cols / static_cast<double>(tiles.cols);  // how often A is read
  const double slabs = depth / static_cast<double>(blocks.depth);
  const double count = static_cast<double>(m) / static_cast<double>(tiles.rows) * across * slabs;
  return {share * rows * cols * depth,
          share * rows * depth * across,
          cols * depth / static_cast<double>(workers()),  // packing
          share * rows * cols * slabs,
          share * count,
          1.0};
}

std::vector<double> packed_quantities(std::size_t m, std::size_t n, std::size_t k) {
  const detail::GemmTiles tiles = detail::weight_tiles(m, n, k);
  const double share = busiest_share(tiles.count());
  // A step of a single row takes as long as one of two: sums wait for each other.
  const auto rows = static_cast<double>(std::max<std::size_t>(m, 2));
  const auto weights = static_cast<double>(round_up(n, std::size_t{16}) * k);
  const double waiting = std::max(0.0, static_cast<double>(detail::kRowsOfMemory) - rows);
  const auto passes = static_cast<double>(divide_up(m, tiles.rows));
  return {share * rows * weights,
          share * passes * weights,
          share * waiting * weights,
          share * rows * static_cast<double>(n),
          share * static_cast<double>(tiles.count()),
          1.0};
}

std::vector<double> row_quantities(std::size_t rows, std::size_t cols, double calls) {
  const std::size_t elements = rows * cols;
  const std::size_t pieces = divide_up(elements, detail::kPieceElements);
  const double share = busiest_share(pieces);
  return {share * static_cast<double>(elements), share * static_cast<double>(rows), calls};
}

std::vector<double> transform_quantities(std::size_t elements, const Work& work) {
  const double share = 1.0 / static_cast<double>(thread_count());
  return {share * static_cast<double>(work.flops()), share * static_cast<double>(elements), 1.0};
}

std::vector<double> attention_quantities(double queries, const Work& work) {
  // Heads are shared out, and most mechanisms cut them further.
  const double share = 1.0 / static_cast<double>(thread_count());
  std::vector<double> x = {share * static_cast<double>(work.maccs)};
  std::uint64_t others = work.other_flops() - work[Kind::kDropout];
  for (const Kind kind : {Kind::kSoftmax, Kind::kHash, Kind::kSort, Kind::kFeature, Kind::kAdd}) {
    x.push_back(share * static_cast<double>(work[kind]));
    others -= work[kind];
  }
  const std::uint64_t gathered = work.bytes[static_cast<std::size_t>(Kind::kGather)];
  x.insert(x.end(), {share * static_cast<double>(others), share * static_cast<double>(gathered),
                     share * queries, 1.0});
  return x;
}

}  // namespace longspan
