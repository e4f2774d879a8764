// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/rows/routing.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include "longspan/kernels/rows/routing.h"

#include <hwy/highway.h>

#include <numeric>

#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/kernels/loops-inl.h"
#include "longspan/kernels/pieces.h"
#include "longspan/kernels/rows/softmax.h"
#include "longspan/kernels/rows/vector.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

void combine_rows(const Routes& routes, ConstMatrix outputs, Matrix y, size_t begin, size_t end) {
  const size_t top = routes.gates.cols;
  for (size_t r = begin; r < end; ++r) {
    float* to = y.row_data(r);
    for_lanes(y.cols, [&](auto io, size_t c) HWY_ATTR { io.store(hn::Zero(D()), to + c); });
    for (size_t j = 0; j < top; ++j) {
      const int32_t slot = routes.slots[r * top + j];
      if (slot < 0) continue;
      const float* o = outputs.row_data(static_cast<size_t>(slot));
      const V gate = hn::Set(D(), routes.gates.row_data(r)[j]);
      for_lanes(y.cols, [&](auto io, size_t c) HWY_ATTR {
        io.store(hn::MulAdd(gate, io.load(o + c), io.load(to + c)), to + c);
      });
    }
  }
}

// Sets to = gate·dy and returns dy·o.
float combine_choice_backward(float gate, const float* o, const float* dy, float* to, size_t n) {
  const V g = hn::Set(D(), gate);
  return reduce_sum(n, [&](auto io, size_t c, V acc) HWY_ATTR {
    const V signal = io.load(dy + c);
    io.store(hn::Mul(g, signal), to + c);
    return hn::MulAdd(signal, io.load(o + c), acc);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {
namespace {

HWY_EXPORT(combine_rows);
HWY_EXPORT(combine_choice_backward);

bool is_real(const Sequences& s, std::size_t r) { return r % s.length < s.real(r / s.length); }

void require_fit(const RouteOptions& o, const Routes& routes) {
  const std::size_t choices = routes.probabilities.rows * o.top;
  require(o.top >= 1 && o.top <= o.experts && routes.probabilities.cols == o.experts,
          "[routing] {} choices among {} experts with {} probabilities; need 1 to all experts, and "
          "a probability each",
          o.top, o.experts, routes.probabilities.cols);
  require(routes.gates.rows * routes.gates.cols == choices && routes.chosen.size() == choices &&
              routes.slots.size() == choices && routes.sources.size() >= o.slots() &&
              routes.loads.size() == o.experts && routes.firsts.size() == o.experts,
          "[routing] memory for {} choices and {} slots; need {} and {}", routes.chosen.size(),
          routes.sources.size(), choices, o.slots());
}

void require_fit(const Routes& routes, ConstMatrix outputs, ConstMatrix y) {
  require(y.rows == routes.gates.rows && y.cols == outputs.cols,
          "[routing] {}x{} rows and slots {} wide for {} routes; need a row each, of equal width",
          y.rows, y.cols, outputs.cols, routes.gates.rows);
}

// Whatever p holds, NaN included, the choices are experts and differ.
void choose(std::span<const float> p, std::span<std::int32_t> chosen) {
  for (std::size_t j = 0; j < chosen.size(); ++j) {
    const std::span<std::int32_t> before = chosen.first(j);
    std::int32_t best = -1;
    for (std::int32_t e = 0; e < static_cast<std::int32_t>(p.size()); ++e) {
      if (best >= 0 && !(p[static_cast<std::size_t>(e)] > p[static_cast<std::size_t>(best)]))
        continue;
      if (std::ranges::find(before, e) == before.end()) best = e;
    }
    chosen[j] = best;
  }
}

void route_row(const RouteOptions& o, const Routes& routes, std::size_t r) {
  const std::span<float> p = routes.probabilities.row(r);
  const std::span<float> gates = routes.gates.row(r);
  const std::span<std::int32_t> chosen = routes.chosen.subspan(r * o.top, o.top);
  if (!is_real(o.sequences, r)) {
    std::ranges::fill(p, 0.0F);
    std::ranges::fill(gates, 0.0F);
    std::ranges::fill(chosen, -1);
    return;
  }
  softmax_serial(routes.probabilities.slice_rows(r, 1));
  if (!o.decided) choose(p, chosen);
  for (std::size_t j = 0; j < o.top; ++j) gates[j] = p[static_cast<std::size_t>(chosen[j])];
  if (!o.divides()) return;
  const float sum = std::accumulate(gates.begin(), gates.end(), 0.0F);
  for (float& gate : gates) gate /= sum;
}

// In order, so on one thread: some integers per row, beside the thousands of operations of an
// expert.
void assign_slots(const RouteOptions& o, const Routes& routes) {
  const std::size_t rows = routes.gates.rows;
  std::ranges::fill(routes.loads, 0);
  std::ranges::fill(routes.firsts, 0);
  for (std::size_t j = 0; j < o.top; ++j) {
    for (std::size_t i = j; i < rows * o.top; i += o.top) {
      routes.slots[i] = -1;
      if (routes.chosen[i] < 0) continue;
      const auto e = static_cast<std::size_t>(routes.chosen[i]);
      if (j == 0) ++routes.firsts[e];
      if (static_cast<std::size_t>(routes.loads[e]) < o.capacity)
        routes.slots[i] = routes.loads[e]++;
    }
  }
  // The expert's place among the slots is known when all loads are.
  for (std::size_t e = 1; e < o.experts; ++e) routes.loads[e] += routes.loads[e - 1];
  for (std::size_t i = 0; i < rows * o.top; ++i) {
    if (routes.slots[i] < 0) continue;
    const auto e = static_cast<std::size_t>(routes.chosen[i]);
    if (e > 0) routes.slots[i] += routes.loads[e - 1];
    routes.sources[static_cast<std::size_t>(routes.slots[i])] =
        static_cast<std::int32_t>(i / o.top);
  }
  for (std::size_t e = o.experts; e-- > 1;) routes.loads[e] -= routes.loads[e - 1];
}

// dp of one real row.
void gates_backward(const RouteOptions& o, const Routes& routes, std::size_t r,
                    std::span<const float> dgates, float balance, std::span<float> dp) {
  for (std::size_t e = 0; e < o.experts; ++e) {
    dp[e] = balance * static_cast<float>(routes.firsts[e]);
  }
  const std::span<const float> p = routes.probabilities.row(r);
  const std::span<const float> gates = routes.gates.row(r);
  const std::span<const std::int32_t> chosen = routes.chosen.subspan(r * o.top, o.top);
  float mean = 0.0F;
  float sum = 1.0F;
  if (o.divides()) {
    sum = 0.0F;
    for (std::size_t j = 0; j < o.top; ++j) {
      mean += gates[j] * dgates[j];
      sum += p[static_cast<std::size_t>(chosen[j])];
    }
  }
  for (std::size_t j = 0; j < o.top; ++j) {
    dp[static_cast<std::size_t>(chosen[j])] += (dgates[j] - mean) / sum;
  }
}

Call route_call(const RouteOptions& o, std::uint64_t each, std::uint64_t bytes_each) {
  return {.op = Op::kSoftmax,
          .rows = o.tokens,
          .cols = o.experts,
          .work = flops(Kind::kSoftmax, o.tokens * each, o.tokens * bytes_each)};
}

}  // namespace

void route_rows(const RouteOptions& o, const Routes& routes) {
  require_fit(o, routes);
  const Called called([&] {
    Call call =
        route_call(o, 5 * o.experts + (o.divides() ? 2 * o.top - 1 : 0), 8 * o.experts + 4 * o.top);
    call.work += flops(Kind::kSort, o.tokens * o.top * (o.decided ? 1 : o.experts + 1),
                       12 * o.tokens * o.top);
    return call;
  });
  if (called.dry()) return;
  detail::in_pieces(routes.gates.rows, detail::rows_per_piece(o.experts),
                    [&](std::size_t begin, std::size_t end) {
                      for (std::size_t r = begin; r < end; ++r) route_row(o, routes, r);
                    });
  assign_slots(o, routes);
}

void route_backward(const RouteOptions& o, const Routes& routes, ConstMatrix dgates, float balance,
                    Matrix dr) {
  require_fit(o, routes);
  require(dr.rows == dgates.rows && dr.rows == routes.gates.rows && dr.cols == o.experts &&
              dgates.cols == o.top,
          "[routing] gradients of {}x{} gates and {}x{} scores for {} rows; need a row each",
          dgates.rows, dgates.cols, dr.rows, dr.cols, routes.gates.rows);
  const Called called([&] {
    return route_call(o, 5 * o.experts + o.top + (o.divides() ? 4 * o.top : 0),
                      8 * o.experts + 12 * o.top);
  });
  if (called.dry()) return;
  detail::in_pieces(dr.rows, detail::rows_per_piece(o.experts),
                    [&](std::size_t begin, std::size_t end) {
                      for (std::size_t r = begin; r < end; ++r) {
                        std::ranges::fill(dr.row(r), 0.0F);
                        if (!is_real(o.sequences, r)) continue;
                        gates_backward(o, routes, r, dgates.row(r), balance, dr.row(r));
                        const Matrix row = dr.slice_rows(r, 1);
                        softmax_backward_serial(routes.probabilities.slice_rows(r, 1), row, row);
                      }
                    });
}

double balance_sum(const Routes& routes, Matrix sums) {
  const ConstMatrix p = routes.probabilities;
  require(sums.rows == 1 && sums.cols == p.cols, "[routing] {}x{} sums; need 1x{}", sums.rows,
          sums.cols, p.cols);
  const Called called([&] {
    Call call = row_call(Op::kColumnSums, {}, p.rows, p.cols, Kind::kAdd, 1, 4);
    call.work += flops(Kind::kAdd, 2 * p.cols, 8 * p.cols);
    return call;
  });
  if (called.dry()) return 0.0;
  const Listener::Mute mute;
  fill(sums, 0.0F);
  add_column_sums(p, sums.data);
  double sum = 0.0;
  for (std::size_t e = 0; e < p.cols; ++e) {
    sum += static_cast<double>(routes.firsts[e]) * static_cast<double>(sums.data[e]);
  }
  return sum;
}

void combine_slots(const Routes& routes, ConstMatrix outputs, Matrix y) {
  require_fit(routes, outputs, y);
  const Called called([&] {
    Call call = row_call(Op::kScatter, {}, outputs.rows, outputs.cols, Kind::kGather, 2, 8);
    call.work.bytes_of(Kind::kGather) += 4 * y.size() + 8 * routes.slots.size();
    return call;
  });
  if (called.dry()) return;
  detail::in_pieces(y.rows, detail::rows_per_piece(y.cols),
                    [&](std::size_t begin, std::size_t end) {
                      HWY_DYNAMIC_DISPATCH(combine_rows)(routes, outputs, y, begin, end);
                    });
}

void combine_slots_backward(const Routes& routes, ConstMatrix outputs, ConstMatrix dy,
                            Matrix dgates, Matrix doutputs) {
  require_fit(routes, outputs, dy);
  require(doutputs.rows == outputs.rows && doutputs.cols == outputs.cols &&
              dgates.rows == routes.gates.rows && dgates.cols == routes.gates.cols,
          "[routing] gradients of {}x{} outputs and {}x{} gates; need {}x{} and {}x{}",
          doutputs.rows, doutputs.cols, dgates.rows, dgates.cols, outputs.rows, outputs.cols,
          routes.gates.rows, routes.gates.cols);
  const Called called([&] {
    Call call = row_call(Op::kScatter, {}, outputs.rows, outputs.cols, Kind::kGather, 1, 12);
    call.work.maccs = std::uint64_t{outputs.rows} * outputs.cols;
    call.work.bytes_of(Kind::kGather) += 12 * routes.slots.size();
    return call;
  });
  if (called.dry()) return;
  const std::size_t top = routes.gates.cols;
  const auto choice = [&](std::size_t r, std::size_t j) {
    if (routes.slots[r * top + j] < 0) return 0.0F;
    const auto slot = static_cast<std::size_t>(routes.slots[r * top + j]);
    return HWY_DYNAMIC_DISPATCH(combine_choice_backward)(routes.gates.row_data(r)[j],
                                                         outputs.row_data(slot), dy.row_data(r),
                                                         doutputs.row_data(slot), dy.cols);
  };
  detail::in_pieces(dy.rows, detail::rows_per_piece(dy.cols),
                    [&](std::size_t begin, std::size_t end) {
                      for (std::size_t r = begin; r < end; ++r) {
                        for (std::size_t j = 0; j < top; ++j) {
                          dgates.row_data(r)[j] = choice(r, j);
                        }
                      }
                    });
}

}  // namespace longspan
#endif  // HWY_ONCE
