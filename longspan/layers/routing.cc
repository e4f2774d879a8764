#include "longspan/layers/routing.h"

#include <algorithm>
#include <cmath>

#include "longspan/base/dry.h"
#include "longspan/base/error.h"

namespace longspan {

std::size_t expert_capacity(double factor, std::size_t top, std::size_t tokens,
                            std::size_t experts) {
  const double rows = factor * static_cast<double>(top * tokens) / static_cast<double>(experts);
  // What rounding adds to a whole number is not another row: 1.1·200/4 is 55.
  const double whole = std::ceil(rows * (1.0 - 1e-12));
  return whole < static_cast<double>(tokens) ? static_cast<std::size_t>(whole) : tokens;
}

namespace {

bool recorded(const Routing* routing) { return routing != nullptr && !routing->loads.empty(); }

std::size_t even_rows(const RouteOptions& o, std::size_t e) {
  const std::size_t choices = o.tokens * o.top;
  return std::min(o.capacity, choices / o.experts + (e < choices % o.experts ? 1 : 0));
}

}  // namespace

std::size_t rows_of_expert(const RouteOptions& o, const Routes& routes, const Routing* routing,
                           std::size_t e) {
  if (!Dry::on()) return static_cast<std::size_t>(routes.loads[e]);
  return recorded(routing) ? static_cast<std::size_t>(routing->loads[e]) : even_rows(o, e);
}

void note_routes(const RouteOptions& o, const Routes& routes, Routing* routing) {
  if (routing == nullptr) return;
  if (!Dry::on()) {
    routing->loads.assign(routes.loads.begin(), routes.loads.end());
    routing->chosen.assign(routes.chosen.begin(), routes.chosen.end());
    return;
  }
  if (!recorded(routing)) return;
  std::size_t sum = 0;
  bool fit = routing->loads.size() == o.experts;
  for (const std::int32_t rows : routing->loads) {
    fit = fit && static_cast<std::size_t>(rows) <= o.capacity;
    sum += static_cast<std::size_t>(std::max(rows, 0));
  }
  require(fit && sum <= o.rows(),
          "[experts] loads of {} experts with {} rows in all; need {} of up to {} rows and {} in "
          "all, recorded from a batch of this shape",
          routing->loads.size(), sum, o.experts, o.capacity, o.rows());
}

void recall_choices(const Routes& routes, const Routing* routing) {
  if (Dry::on()) return;
  require(routing != nullptr && routing->chosen.size() == routes.chosen.size(),
          "[experts] {} choices of the first pass for {}; need its Routing to compute again",
          routing == nullptr ? 0 : routing->chosen.size(), routes.chosen.size());
  std::ranges::copy(routing->chosen, routes.chosen.begin());
}

double expected_rows(std::size_t tokens, std::size_t experts, std::size_t top,
                     std::size_t capacity) {
  const auto n = static_cast<double>(tokens);
  const double q = static_cast<double>(top) / static_cast<double>(experts);
  if (capacity >= tokens) return n * q;
  const auto most = static_cast<double>(capacity);
  if (top == experts) return most;
  // E[min(X, C)] = C − Σ_{i<C} (C − i)·P(X = i); logarithms, because P(X = 0) may be too small.
  double log_probability = n * std::log1p(-q);
  double missing = 0.0;
  for (std::size_t i = 0; i < capacity; ++i) {
    const auto x = static_cast<double>(i);
    missing += (most - x) * std::exp(log_probability);
    log_probability += std::log((n - x) / (x + 1.0) * (q / (1.0 - q)));
  }
  return most - missing;
}

}  // namespace longspan
