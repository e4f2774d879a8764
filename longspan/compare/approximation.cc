#include "longspan/compare/approximation.h"

#include <cmath>
#include <optional>
#include <span>

#include "longspan/base/error.h"

namespace longspan {

namespace {

constexpr std::size_t kLongestFull = 2048;

struct Distance {
  double difference = 0.0;  // sums of squares
  double size = 0.0;

  void add(std::span<const float> a, std::span<const float> exact) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double e = static_cast<double>(exact[i]);
      const double d = static_cast<double>(a[i]) - e;
      difference += d * d;
      size += e * e;
    }
  }
  double relative() const {
    require(std::isfinite(difference) && std::isfinite(size),
            "[compare] attention gives {} here; need a model and inputs that are finite",
            std::isfinite(size) ? "no numbers" : "no numbers even where it is exact");
    return size > 0.0 ? std::sqrt(difference / size) : 0.0;
  }
};

double norm(std::span<const float> x) {
  double sum = 0.0;
  for (const float v : x) sum += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(std::max(sum, 1e-30));
}

// Calls body(first element) for every head of every token.
template <class Body>
void for_each_vector(const AttentionCase& c, Body body) {
  for (std::size_t i = 0; i < c.rows() * c.heads; ++i) body(i * c.d_head);
}

std::vector<float> unit_vectors(const AttentionCase& c, const std::vector<float>& q) {
  std::vector<float> k(q);
  for_each_vector(c, [&](std::size_t first) {
    const std::span<float> row(k.data() + first, c.d_head);
    const auto scale = static_cast<float>(1.0 / norm(row));
    for (float& v : row) v *= scale;
  });
  return k;
}

// ∂q += (∂k − k·(k·∂k))/‖q‖, the way of ∂k through k = q/‖q‖.
std::vector<float> through_keys(const AttentionCase& c, const AttentionTensors& t,
                                const AttentionRun& exact) {
  std::vector<float> dq(exact.dq());
  for_each_vector(c, [&](std::size_t first) {
    const float* k = t.k.data() + first;
    const float* dk = exact.dk().data() + first;
    const double length = norm({t.q.data() + first, c.d_head});
    double along = 0.0;
    for (std::size_t i = 0; i < c.d_head; ++i) {
      along += static_cast<double>(k[i]) * static_cast<double>(dk[i]);
    }
    for (std::size_t i = 0; i < c.d_head; ++i) {
      const double part = static_cast<double>(dk[i]) - along * static_cast<double>(k[i]);
      dq[first + i] += static_cast<float>(part / length);
    }
  });
  return dq;
}

// What two vectors exchanged is theirs again in the end.
class Exchanged {
 public:
  Exchanged(std::vector<float>& a, std::vector<float>& b) : a_(a), b_(b) { a_.swap(b_); }
  ~Exchanged() { a_.swap(b_); }
  Exchanged(const Exchanged&) = delete;
  Exchanged& operator=(const Exchanged&) = delete;

 private:
  std::vector<float>& a_;
  std::vector<float>& b_;
};

// flash, or what is exact without tiles where flash itself is asked about.
std::string reference_of(const AttentionCase& c) {
  return c.attention.starts_with("flash") && c.length <= kLongestFull ? "full" : "flash";
}

}  // namespace

CompareError approximation_error(const AttentionCase& c, AttentionTensors& tensors) {
  AttentionRun run(c, tensors);
  run.run();
  const bool shared = run.shared_qk();
  std::vector<float> keys;
  std::optional<Exchanged> exchanged;
  if (shared) {
    keys = unit_vectors(c, tensors.q);
    exchanged.emplace(keys, tensors.k);
  }
  AttentionCase reference = c;
  reference.attention = reference_of(c);
  AttentionRun exact(reference, tensors);
  exact.run();
  CompareError error;
  Distance output;
  output.add(run.output(), exact.output());
  error.output = output.relative();
  if (c.backward) {
    Distance gradient;
    gradient.add(run.dq(), shared ? through_keys(c, tensors, exact) : exact.dq());
    if (!shared) gradient.add(run.dk(), exact.dk());
    gradient.add(run.dv(), exact.dv());
    error.gradient = gradient.relative();
  }
  return error;
}

}  // namespace longspan
