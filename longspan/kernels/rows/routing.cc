// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/rows/routing.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include "longspan/kernels/rows/routing.h"

#include <hwy/highway.h>

#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/kernels/loops-inl.h"
#include "longspan/kernels/math-inl.h"
#include "longspan/kernels/pieces.h"
#include "longspan/kernels/rows/softmax.h"
#include "longspan/kernels/rows/vector.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

void combine_rows(const Routes& routes, ConstMatrix outputs, bool add, Matrix y, size_t begin,
                  size_t end) {
  const size_t top = routes.gates.cols;
  for (size_t r = begin; r < end; ++r) {
    float* to = y.row_data(r);
    if (!add) {
      for_lanes(y.cols, [&](auto io, size_t c) HWY_ATTR { io.store(hn::Zero(D()), to + c); });
    }
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

void sigmoid_row(const float* x, float* y, size_t n) {
  for_lanes(n, [&](auto io, size_t i) HWY_ATTR { io.store(sigmoid_of(io.load(x + i)), y + i); });
}

// x may be y.
void scale_row(float gate, const float* x, float* y, size_t n) {
  const V g = hn::Set(D(), gate);
  for_lanes(n, [&](auto io, size_t i) HWY_ATTR { io.store(hn::Mul(g, io.load(x + i)), y + i); });
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
HWY_EXPORT(sigmoid_row);
HWY_EXPORT(scale_row);

// What keeps a sum of sigmoids from being nothing, as in the published model.
constexpr float kLeastSum = 1e-20F;

bool is_real(const Sequences& s, std::size_t r) { return r % s.length < s.real(r / s.length); }

bool softmax(const RouteOptions& o) { return o.score == RouteScore::kSoftmax; }
bool grouped(const RouteOptions& o) { return o.groups > 1; }
bool scaled(const RouteOptions& o) { return o.scaling != 1.0F; }

void require_fit(const RouteOptions& o, const Routes& routes) {
  const std::size_t choices = routes.scores.rows * o.top;
  require(
      o.top >= 1 && o.top <= o.experts && o.experts <= kMostExperts &&
          routes.scores.cols == o.experts,
      "[routing] {} choices among {} experts with {} scores; need 1 to all experts, at most {}, "
      "and a score each",
      o.top, o.experts, routes.scores.cols, kMostExperts);
  require(o.groups >= 1 && o.experts % o.groups == 0 && o.top_groups >= 1 &&
              o.top_groups <= o.groups &&
              (o.correction.empty() || o.correction.size() == o.experts),
          "[routing] {} of {} groups and {} corrections of {} experts; need equal groups and a "
          "correction each",
          o.top_groups, o.groups, o.correction.size(), o.experts);
  require(routes.gates.rows * routes.gates.cols == choices && routes.chosen.size() == choices &&
              routes.slots.size() == choices && routes.sources.size() >= o.slots() &&
              routes.loads.size() == o.experts && routes.taken.size() == o.experts,
          "[routing] memory for {} choices and {} slots; need {} and {}", routes.chosen.size(),
          routes.sources.size(), choices, o.slots());
  require(!o.squares || routes.log_sums.rows == routes.scores.rows,
          "[routing] {} logarithms of sums for {} rows; need one each", routes.log_sums.rows,
          routes.scores.rows);
}

void require_fit(const Routes& routes, ConstMatrix outputs, ConstMatrix y) {
  require(y.rows == routes.gates.rows && y.cols == outputs.cols,
          "[routing] {}x{} rows and slots {} wide for {} routes; need a row each, of equal width",
          y.rows, y.cols, outputs.cols, routes.gates.rows);
}

// Calls body(b, first row, rows) for each sequence, padding included.
template <class Body>
void for_each_sequence(const RouteOptions& o, std::size_t rows, const Body& body) {
  if (o.runs.empty()) {
    const std::size_t n = o.sequences.length;
    for (std::size_t b = 0; b * n < rows; ++b) body(b, b * n, n);
    return;
  }
  std::size_t first = 0;
  for (std::size_t b = 0; b < o.runs.size(); ++b) {
    const auto n = static_cast<std::size_t>(o.runs[b]);
    body(b, first, n);
    first += n;
  }
}

// Whatever v holds, NaN included, the choices are of 0 … v.size() − 1 and differ.
void choose(std::span<const float> v, std::span<std::int32_t> chosen) {
  for (std::size_t j = 0; j < chosen.size(); ++j) {
    const std::span<std::int32_t> before = chosen.first(j);
    std::int32_t best = -1;
    for (std::int32_t e = 0; e < static_cast<std::int32_t>(v.size()); ++e) {
      if (best >= 0 && !(v[static_cast<std::size_t>(e)] > v[static_cast<std::size_t>(best)]))
        continue;
      if (std::ranges::find(before, e) == before.end()) best = e;
    }
    chosen[j] = best;
  }
}

float group_score(std::span<const float> v, GroupScore kind) {
  float best = v[0];
  float second = -std::numeric_limits<float>::infinity();
  for (const float x : v.subspan(1)) {
    second = std::max(second, std::min(best, x));
    best = std::max(best, x);
  }
  return kind == GroupScore::kBest ? best : best + second;
}

// All but the best groups are left with zeros.
void keep_groups(const RouteOptions& o, std::span<float> v) {
  std::array<float, kMostExperts> scores;         // NOLINT(cppcoreguidelines-pro-type-member-init)
  std::array<std::int32_t, kMostExperts> chosen;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const std::size_t width = o.experts / o.groups;
  for (std::size_t g = 0; g < o.groups; ++g) {
    scores[g] = group_score(v.subspan(g * width, width), o.group_score);
  }
  const std::span<std::int32_t> kept = std::span(chosen).first(o.top_groups);
  choose(std::span(scores).first(o.groups), kept);
  for (std::size_t g = 0; g < o.groups; ++g) {
    if (std::ranges::find(kept, static_cast<std::int32_t>(g)) != kept.end()) continue;
    std::ranges::fill(v.subspan(g * width, width), 0.0F);
  }
}

void choose_experts(const RouteOptions& o, std::span<const float> s,
                    std::span<std::int32_t> chosen) {
  if (o.correction.empty() && !grouped(o)) return choose(s, chosen);
  std::array<float, kMostExperts> values;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const std::span<float> v = std::span(values).first(o.experts);
  for (std::size_t e = 0; e < o.experts; ++e) {
    v[e] = o.correction.empty() ? s[e] : s[e] + o.correction[e];
  }
  if (grouped(o)) keep_groups(o, v);
  choose(v, chosen);
}

// r becomes s. Of the largest s, which is at least 1/E, z = r − log s.
void score_row(const RouteOptions& o, const Routes& routes, std::size_t row) {
  const std::span<float> r = routes.scores.row(row);
  if (!softmax(o)) return HWY_DYNAMIC_DISPATCH(sigmoid_row)(r.data(), r.data(), r.size());
  const auto largest = static_cast<std::size_t>(std::ranges::max_element(r) - r.begin());
  const float most = r[largest];
  softmax_serial(routes.scores.slice_rows(row, 1));
  if (o.squares) routes.log_sums.row(row)[0] = most - std::log(r[largest]);
}

void route_row(const RouteOptions& o, const Routes& routes, std::size_t r) {
  const std::span<float> s = routes.scores.row(r);
  const std::span<float> gates = routes.gates.row(r);
  const std::span<std::int32_t> chosen = routes.chosen.subspan(r * o.top, o.top);
  if (!is_real(o.sequences, r)) {
    std::ranges::fill(s, 0.0F);
    std::ranges::fill(gates, 0.0F);
    std::ranges::fill(chosen, -1);
    if (o.squares) routes.log_sums.row(r)[0] = 0.0F;
    return;
  }
  score_row(o, routes, r);
  if (!o.decided) choose_experts(o, s, chosen);
  for (std::size_t j = 0; j < o.top; ++j) gates[j] = s[static_cast<std::size_t>(chosen[j])];
  if (o.divided) {
    const float sum = std::accumulate(gates.begin(), gates.end(), softmax(o) ? 0.0F : kLeastSum);
    for (float& gate : gates) gate /= sum;
  }
  if (!scaled(o)) return;
  for (float& gate : gates) gate *= o.scaling;
}

// The places of some rows with each expert, which takes `limit` of them at most.
void take_rows(const RouteOptions& o, const Routes& routes, std::size_t first, std::size_t rows,
               std::size_t limit) {
  std::ranges::fill(routes.taken, 0);
  for (std::size_t j = 0; j < o.top; ++j) {
    for (std::size_t i = first * o.top + j; i < (first + rows) * o.top; i += o.top) {
      routes.slots[i] = -1;
      if (routes.chosen[i] < 0) continue;
      const auto e = static_cast<std::size_t>(routes.chosen[i]);
      if (static_cast<std::size_t>(routes.taken[e]) >= limit) continue;
      ++routes.taken[e];
      routes.slots[i] = routes.loads[e]++;
    }
  }
}

// In order, so on one thread: some integers per row, beside the thousands of operations of an
// expert.
void assign_slots(const RouteOptions& o, const Routes& routes) {
  const std::size_t rows = routes.gates.rows;
  std::ranges::fill(routes.loads, 0);
  if (o.places == 0) {
    take_rows(o, routes, 0, rows, o.capacity);
  } else {
    for_each_sequence(o, rows, [&](std::size_t /*b*/, std::size_t first, std::size_t n) {
      take_rows(o, routes, first, n, o.places);
    });
  }
  // The expert's place among the slots is known when all loads are.
  for (std::size_t e = 1; e < o.experts; ++e) routes.loads[e] += routes.loads[e - 1];
  std::int32_t behind = routes.loads[o.experts - 1];
  for (std::size_t i = 0; i < rows * o.top; ++i) {
    if (routes.chosen[i] < 0) continue;
    const auto e = static_cast<std::size_t>(routes.chosen[i]);
    if (routes.slots[i] < 0) {
      if (!o.passes) continue;
      routes.slots[i] = behind++;
    } else if (e > 0) {
      routes.slots[i] += routes.loads[e - 1];
    }
    routes.sources[static_cast<std::size_t>(routes.slots[i])] =
        static_cast<std::int32_t>(i / o.top);
  }
  for (std::size_t e = o.experts; e-- > 1;) routes.loads[e] -= routes.loads[e - 1];
}

// What a loss sends to one row.
struct RowLoss {
  std::span<const double> choices;  // c of its group; empty: nothing
  float balance = 0.0F;             // times them
  float squares = 0.0F;             // times z·s
};

RowLoss row_loss(const RouteOptions& o, const RouteLoss& loss, double all_rows, std::size_t b,
                 std::size_t place) {
  if (loss.tally == nullptr || (loss.balance == 0.0 && loss.squares == 0.0)) return {};
  const std::span<const std::int32_t> real = loss.how.real;
  if (!real.empty() && place >= static_cast<std::size_t>(real[b])) return {};
  const RouteTally& tally = *loss.tally;
  const std::size_t group = loss.how.sequences ? b : 0;
  const double n = tally.rows[group];
  const double share = static_cast<double>(o.experts) / static_cast<double>(tally.rows.size());
  return {std::span(tally.choices).subspan(group * o.experts, o.experts),
          static_cast<float>(loss.balance * share / (n * n)),
          static_cast<float>(2.0 * loss.squares / all_rows)};
}

// ds of one routed row.
void gates_backward(const RouteOptions& o, const Routes& routes, std::size_t r,
                    std::span<const float> dgates, const RowLoss& loss, std::span<float> ds) {
  for (std::size_t e = 0; e < o.experts; ++e) {
    ds[e] = loss.choices.empty() ? 0.0F : loss.balance * static_cast<float>(loss.choices[e]);
  }
  const std::span<const float> s = routes.scores.row(r);
  const std::span<const float> gates = routes.gates.row(r);
  const std::span<const std::int32_t> chosen = routes.chosen.subspan(r * o.top, o.top);
  float mean = 0.0F;
  float sum = 1.0F;
  if (o.divided) {
    sum = softmax(o) ? 0.0F : kLeastSum;
    for (std::size_t j = 0; j < o.top; ++j) {
      mean += gates[j] * dgates[j];
      sum += s[static_cast<std::size_t>(chosen[j])];
    }
  }
  for (std::size_t j = 0; j < o.top; ++j) {
    ds[static_cast<std::size_t>(chosen[j])] += (o.scaling * dgates[j] - mean) / sum;
  }
}

void row_backward(const RouteOptions& o, const Routes& routes, std::size_t r,
                  std::span<const float> dgates, const RowLoss& loss, Matrix dr) {
  const std::span<float> to = dr.row(r);
  const std::span<const float> s = routes.scores.row(r);
  gates_backward(o, routes, r, dgates, loss, to);
  if (!softmax(o)) {
    for (std::size_t e = 0; e < o.experts; ++e) to[e] *= s[e] * (1.0F - s[e]);
    return;
  }
  const Matrix row = dr.slice_rows(r, 1);
  softmax_backward_serial(routes.scores.slice_rows(r, 1), row, row);
  if (!o.squares || loss.choices.empty()) return;
  const float factor = loss.squares * routes.log_sums.row(r)[0];
  for (std::size_t e = 0; e < o.experts; ++e) to[e] += factor * s[e];
}

Call route_call(const RouteOptions& o, std::uint64_t each, std::uint64_t bytes_each) {
  return {.op = Op::kSoftmax,
          .rows = o.tokens,
          .cols = o.experts,
          .work = flops(Kind::kSoftmax, o.tokens * each, o.tokens * bytes_each)};
}

// FLOPs of one row.
std::uint64_t forward_flops(const RouteOptions& o) {
  std::uint64_t each = (softmax(o) ? 5 : 4) * o.experts;
  if (o.divided) each += softmax(o) ? 2 * o.top - 1 : 2 * o.top;
  if (scaled(o)) each += o.top;
  if (o.squares) each += o.experts + 2;
  if (o.decided) return each;
  if (!o.correction.empty()) each += o.experts;
  if (grouped(o) && o.group_score == GroupScore::kTwoBest) each += o.groups;
  return each;
}

std::uint64_t comparisons(const RouteOptions& o) {
  if (o.decided) return o.top;
  std::uint64_t each = o.top * (o.experts + 1);
  if (!grouped(o)) return each;
  each += o.experts + o.top_groups * (o.groups + 1);
  return o.group_score == GroupScore::kTwoBest ? each + o.experts : each;
}

std::uint64_t backward_flops(const RouteOptions& o) {
  std::uint64_t each = (softmax(o) ? 5 : 4) * o.experts + o.top;
  if (o.divided) each += 4 * o.top;
  if (scaled(o)) each += o.top;
  if (o.squares) each += 2 * o.experts + 2;
  return each;
}

// Rows of a sequence that count.
std::size_t counted(const TallyOptions& how, std::size_t b, std::size_t rows) {
  return how.real.empty() ? rows : static_cast<std::size_t>(how.real[b]);
}

void count_choices(const RouteOptions& o, const Routes& routes, Tallied which, std::size_t first,
                   std::size_t rows, std::span<double> choices) {
  const auto ends = std::accumulate(routes.loads.begin(), routes.loads.end(), 0);
  for (std::size_t i = first * o.top; i < (first + rows) * o.top; ++i) {
    if (routes.chosen[i] < 0 || (which == Tallied::kFirst && i % o.top != 0)) continue;
    const bool taken = routes.slots[i] >= 0 && routes.slots[i] < ends;
    const bool apart = which == Tallied::kTaken && !taken;
    choices[apart ? 0 : static_cast<std::size_t>(routes.chosen[i])] += 1.0;
  }
}

}  // namespace

void route_rows(const RouteOptions& o, const Routes& routes) {
  require_fit(o, routes);
  const Called called([&] {
    Call call = route_call(o, forward_flops(o), 8 * o.experts + 4 * o.top);
    call.work += flops(Kind::kSort, o.tokens * comparisons(o), 12 * o.tokens * o.top);
    return call;
  });
  if (called.dry()) return;
  detail::in_pieces(routes.gates.rows, detail::rows_per_piece(o.experts),
                    [&](std::size_t begin, std::size_t end) {
                      for (std::size_t r = begin; r < end; ++r) route_row(o, routes, r);
                    });
  assign_slots(o, routes);
}

double RouteTally::all_rows() const { return std::accumulate(rows.begin(), rows.end(), 0.0); }

double RouteTally::balance() const {
  double sum = 0.0;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const double n = rows[i / experts];
    if (n > 0.0) sum += choices[i] * static_cast<double>(sums[i]) / (n * n);
  }
  return rows.empty() ? 0.0 : static_cast<double>(experts) / static_cast<double>(rows.size()) * sum;
}

double RouteTally::mean_square() const {
  const double n = all_rows();
  return n > 0.0 ? squares / n : 0.0;
}

void tally_routes(const RouteOptions& o, const Routes& routes, const TallyOptions& how,
                  RouteTally& tally) {
  require_fit(o, routes);
  const std::size_t rows = routes.gates.rows;
  std::size_t sequences = 0;
  std::size_t all = 0;
  for_each_sequence(o, rows, [&](std::size_t b, std::size_t /*first*/, std::size_t n) {
    ++sequences;
    all += o.runs.empty() ? std::min(counted(how, b, n), o.sequences.real(b)) : n;
  });
  const std::size_t groups = how.sequences ? sequences : 1;
  const Called called([&] {
    Call call = row_call(Op::kColumnSums, {}, all, o.experts, Kind::kAdd, 1, 4);
    call.work += flops(Kind::kAdd, 2 * groups * o.experts + (o.squares ? 2 * all : 0),
                       8 * groups * o.experts);
    return call;
  });
  if (called.dry()) return;
  const Listener::Mute mute;
  if (tally.experts == 0) {
    tally.experts = o.experts;
    tally.rows.assign(groups, 0.0);
    tally.choices.assign(groups * o.experts, 0.0);
    tally.sums.assign(groups * o.experts, 0.0F);
  }
  require(tally.experts == o.experts && tally.rows.size() == groups,
          "[routing] {} groups of {} experts for a tally of {} groups of {}; need the same", groups,
          o.experts, tally.rows.size(), tally.experts);
  for_each_sequence(o, rows, [&](std::size_t b, std::size_t first, std::size_t length) {
    const std::size_t n =
        o.runs.empty() ? std::min(counted(how, b, length), o.sequences.real(b)) : length;
    const std::size_t at = how.sequences ? b : 0;
    tally.rows[at] += static_cast<double>(n);
    count_choices(o, routes, how.choices, first, n,
                  std::span(tally.choices).subspan(at * o.experts, o.experts));
    add_column_sums(routes.scores.slice_rows(first, n), tally.sums.data() + at * o.experts);
    for (std::size_t r = first; o.squares && r < first + n; ++r) {
      const auto z = static_cast<double>(routes.log_sums.row(r)[0]);
      tally.squares += z * z;
    }
  });
}

void route_backward(const RouteOptions& o, const Routes& routes, ConstMatrix dgates,
                    const RouteLoss& loss, Matrix dr) {
  require_fit(o, routes);
  require(dr.rows == dgates.rows && dr.rows == routes.gates.rows && dr.cols == o.experts &&
              dgates.cols == o.top,
          "[routing] gradients of {}x{} gates and {}x{} scores for {} rows; need a row each",
          dgates.rows, dgates.cols, dr.rows, dr.cols, routes.gates.rows);
  const Called called([&] { return route_call(o, backward_flops(o), 8 * o.experts + 12 * o.top); });
  if (called.dry()) return;
  const double all_rows = loss.tally == nullptr ? 0.0 : loss.tally->all_rows();
  const auto row = [&](std::size_t r, std::size_t b, std::size_t place) {
    if (is_real(o.sequences, r)) {
      row_backward(o, routes, r, dgates.row(r), row_loss(o, loss, all_rows, b, place), dr);
    } else {
      std::ranges::fill(dr.row(r), 0.0F);
    }
  };
  const std::size_t grain = detail::rows_per_piece(o.experts);
  if (!o.runs.empty() && loss.how.sequences) {
    for_each_sequence(o, dr.rows, [&](std::size_t b, std::size_t first, std::size_t n) {
      detail::in_pieces(n, grain, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) row(first + i, b, i);
      });
    });
    return;
  }
  detail::in_pieces(dr.rows, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      row(r, r / o.sequences.length, r % o.sequences.length);
    }
  });
}

void combine_slots(const Routes& routes, ConstMatrix outputs, bool add, Matrix y) {
  require_fit(routes, outputs, y);
  const Called called([&] {
    Call call = row_call(Op::kScatter, {}, outputs.rows, outputs.cols, Kind::kGather, 2, 8);
    call.work.bytes_of(Kind::kGather) += (add ? 8 : 4) * y.size() + 8 * routes.slots.size();
    return call;
  });
  if (called.dry()) return;
  detail::in_pieces(y.rows, detail::rows_per_piece(y.cols),
                    [&](std::size_t begin, std::size_t end) {
                      HWY_DYNAMIC_DISPATCH(combine_rows)(routes, outputs, add, y, begin, end);
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

void gate_rows(Matrix g, ConstMatrix o, Matrix y) {
  require(g.rows == o.rows && g.cols == 1 && o.rows == y.rows && o.cols == y.cols,
          "[routing] {}x{} gates of {}x{} rows for {}x{}; need one of each row", g.rows, g.cols,
          o.rows, o.cols, y.rows, y.cols);
  const Called called([&] {
    Call call = row_call(Op::kAdd, {}, o.rows, o.cols, Kind::kActivation, 1, 8);
    call.work += flops(Kind::kActivation, 4 * o.rows, 8 * o.rows);
    return call;
  });
  if (called.dry()) return;
  detail::in_pieces(y.rows, detail::rows_per_piece(y.cols),
                    [&](std::size_t begin, std::size_t end) {
                      for (std::size_t r = begin; r < end; ++r) {
                        float* gate = g.row_data(r);
                        HWY_DYNAMIC_DISPATCH(sigmoid_row)(gate, gate, 1);
                        HWY_DYNAMIC_DISPATCH(scale_row)
                        (*gate, o.row_data(r), y.row_data(r), y.cols);
                      }
                    });
}

void gate_rows_backward(ConstMatrix g, ConstMatrix o, ConstMatrix dy, Matrix dr, Matrix d_o) {
  require(g.rows == dy.rows && g.cols == 1 && dr.rows == dy.rows && dr.cols == 1 &&
              o.rows == dy.rows && o.cols == dy.cols && d_o.rows == dy.rows && d_o.cols == dy.cols,
          "[routing] gradients of {} gates and {}x{} rows; need those of {} gates and {}x{} rows",
          dr.rows, d_o.rows, d_o.cols, g.rows, dy.rows, dy.cols);
  const Called called([&] {
    Call call = row_call(Op::kAdd, {}, dy.rows, dy.cols, Kind::kActivation, 1, 12);
    call.work += flops(Kind::kActivation, 3 * dy.rows, 8 * dy.rows);
    call.work.maccs = std::uint64_t{dy.rows} * dy.cols;
    return call;
  });
  if (called.dry()) return;
  detail::in_pieces(dy.rows, detail::rows_per_piece(dy.cols),
                    [&](std::size_t begin, std::size_t end) {
                      for (std::size_t r = begin; r < end; ++r) {
                        const float gate = *g.row_data(r);
                        const float dot = HWY_DYNAMIC_DISPATCH(combine_choice_backward)(
                            gate, o.row_data(r), dy.row_data(r), d_o.row_data(r), dy.cols);
                        *dr.row_data(r) = dot * gate * (1.0F - gate);
                      }
                    });
}

}  // namespace longspan
#endif  // HWY_ONCE
