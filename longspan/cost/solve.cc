#include "longspan/cost/solve.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "longspan/base/memory.h"

namespace longspan {
namespace {

// Mechanisms that work by blocks may take less for a full block than for one that is nearly full,
// so that many candidates behind a boundary are asked too. No block is longer by default.
constexpr std::size_t kLookBeyond = 256;

// The longest at which mechanisms are compared: patterns are counted block by block.
constexpr std::size_t kLongestCompared = std::size_t{1} << 22U;

// A product of this size stays below 2^60 when its length doubles.
constexpr Integer kLargestBudget = Integer{1} << 58;

Integer scaled(Integer step, const SolveTerms& terms, const Workload& w) {
  if (!terms.tokens) return step;
  return multiply_exactly(*terms.tokens, step) / static_cast<Integer>(w.tokens());
}

// A forward pass alone, or F + B + U, which is what executed_counts() has for backpropagation.
CountValue model_work(const Workload& w, const Model& model, bool training) {
  CountValue sum;
  const auto add = [&](const Work& work) {
    sum += {static_cast<Integer>(work.maccs), static_cast<Integer>(work.flops())};
  };
  for (const auto& [layer, cost] : model.cost(w.shape(), training)) {
    if (layer == Head::kMeter && !w.output_layer) continue;
    add(cost.forward);
    if (!training) continue;
    add(cost.backward);
    add(cost.update);
  }
  return sum;
}

Need need_of(const Workload& w, const SolveTerms& terms, bool counts_work) {
  const Model model(w.model);
  const MemoryUse use =
      memory_use(w, model, count_parameters(w, model), terms.element, terms.optimizer,
                 terms.inference ? LearningRule::kBackprop : terms.rule, terms.rule_terms);
  Need need{.bytes = terms.inference ? use.parameters + use.inference : use.total()};
  if (!counts_work) return need;
  const bool of_model = terms.inference || terms.rule == LearningRule::kBackprop;
  const CountValue step = of_model ? model_work(w, model, !terms.inference)
                          : in_paper(terms.rule)
                              ? executed_counts(w, model, terms.rule_terms).rule(terms.rule).total()
                              : walked_counts(w, terms.rule).total();
  need.work = {scaled(step.maccs, terms, w), scaled(step.flops, terms, w)};
  return need;
}

std::string plural(std::size_t count, SolveFor what) {
  switch (what) {
    case SolveFor::kLength:
      return fmt::format("{} token{}", count, count == 1 ? "" : "s");
    case SolveFor::kBatch:
      return fmt::format("{} sequence{}", count, count == 1 ? "" : "s");
    case SolveFor::kWidth:
      break;
  }
  return fmt::format("a width of {}", count);
}

// The largest k with fits(k), where fits(1): doubling, then halving, then a look at so many beyond.
template <class Fits>
std::size_t largest(Fits fits, std::size_t look) {
  std::size_t low = 1;
  while (true) {
    std::size_t high = 2 * low;
    while (fits(high)) {
      low = high;
      high *= 2;
    }
    while (high - low > 1) {
      const std::size_t middle = low + (high - low) / 2;
      (fits(middle) ? low : high) = middle;
    }
    std::size_t beyond = low + look;
    while (beyond > low && !fits(beyond)) --beyond;
    if (beyond == low) return low;
    low = beyond;
  }
}

Integer measured(const Need& need, Measure measure) {
  switch (measure) {
    case Measure::kFlops:
      return need.work.flops;
    case Measure::kMaccs:
      return need.work.maccs;
    case Measure::kBytes:
      break;
  }
  return need.bytes;
}

// Two mechanisms in one model, at any length; lengths are asked for again by each measure.
class MechanismPair {
 public:
  MechanismPair(const SolveQuestion& question, const std::string& first, const std::string& second)
      : question_{question, question} {
    question_[0].workload.model.attention = first;
    question_[1].workload.model.attention = second;
    for (const SolveQuestion& q : question_) check(q.candidate(1));
  }

  MechanismCrossover::At at(std::size_t length, Measure measure) {
    const auto& needs = needs_at(length);
    return {length, measured(needs[0], measure), measured(needs[1], measure)};
  }
  bool first_is_cheaper(std::size_t length, Measure measure) {
    const MechanismCrossover::At here = at(length, measure);
    return here.first < here.second;
  }
  bool can_be(std::size_t length) const {
    return question_[0].beyond_limits(length, /*counts_work=*/true).empty();
  }

 private:
  const std::array<Need, 2>& needs_at(std::size_t length) {
    const auto found = needs_.find(length);
    if (found != needs_.end()) return found->second;
    std::array<Need, 2> needs;
    for (std::size_t i = 0; i < 2; ++i) {
      needs[i] = need_of(question_[i].candidate(length), question_[i].terms, /*counts_work=*/true);
    }
    return needs_.emplace(length, needs).first->second;
  }

  std::array<SolveQuestion, 2> question_;
  std::map<std::size_t, std::array<Need, 2>> needs_;
};

// 1, 2, 3, …, each about a quarter more than the one before, up to the longest that can be.
std::vector<std::size_t> lengths_to_ask(const MechanismPair& pair) {
  std::vector<std::size_t> lengths;
  for (std::size_t n = 1; pair.can_be(n) && n <= kLongestCompared; n += 1 + n / 4) {
    lengths.push_back(n);
  }
  return lengths;
}

MechanismCrossover crossover_of(MechanismPair& pair, Measure measure,
                                const std::vector<std::size_t>& lengths) {
  const auto cheaper = [&](std::size_t n) { return pair.first_is_cheaper(n, measure); };
  MechanismCrossover found{.measure = measure, .last = pair.at(lengths.back(), measure)};
  std::size_t at = lengths.size();
  while (at > 0 && cheaper(lengths[at - 1])) --at;
  if (at == lengths.size()) return found;
  std::size_t low = at == 0 ? 0 : lengths[at - 1];  // not cheaper, or no length
  std::size_t high = lengths[at];
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    (cheaper(middle) ? high : low) = middle;
  }
  // Blocks again: the last length in sight at which it is not cheaper.
  for (std::size_t n = low + 1; n <= std::min(low + kLookBeyond, lengths.back()); ++n) {
    if (!cheaper(n)) low = n;
  }
  found.from = pair.at(low + 1, measure);
  if (low > 0) found.before = pair.at(low, measure);
  return found;
}

}  // namespace

std::string_view name_of(SolveFor what) {
  constexpr std::array<std::string_view, kSolveFor.size()> kNames = {"length", "batch", "width"};
  return kNames[static_cast<std::size_t>(what)];
}

std::string_view name_of(Measure measure) {
  constexpr std::array<std::string_view, kMeasures.size()> kNames = {"flops", "maccs", "memory"};
  return kNames[static_cast<std::size_t>(measure)];
}

std::size_t SolveQuestion::value(std::size_t k) const {
  if (what != SolveFor::kWidth) return k;
  const bool shared = workload.kv_heads() != workload.model.heads;
  return k * (shared ? workload.kv_width() : head_width_of(workload.model));
}

Workload SolveQuestion::candidate(std::size_t k) const {
  Workload w = workload;
  ModelConfig& m = w.model;
  switch (what) {
    case SolveFor::kLength:
      w.length = k;
      if (w.has_both() && target_follows) w.target_length = k;
      m.max_length = most_positions.value_or(std::max({m.max_length, k, w.target_length}));
      break;
    case SolveFor::kBatch:
      w.batch = k;
      break;
    case SolveFor::kWidth:
      m.d_model = value(k);
      m.heads = m.d_model / (workload.model.d_model / workload.model.heads);
      if (m.kv_heads == workload.model.heads) m.kv_heads = m.heads;
      if (m.d_ff != 0)
        m.d_ff = std::max<std::size_t>(1, m.d_ff * m.d_model / workload.model.d_model);
      break;
  }
  return w;
}

std::string SolveQuestion::beyond_limits(std::size_t k, bool counts_work) const {
  if (what == SolveFor::kLength && most_positions && k > *most_positions) {
    return fmt::format("the model has {} positions", *most_positions);
  }
  const std::size_t most = what == SolveFor::kWidth   ? kLargestWidth
                           : what == SolveFor::kBatch ? kLargestBatch
                                                      : kLargestLength;
  if (value(k) > most) return fmt::format("nothing above {} is counted", most);
  const Workload w = candidate(k);
  if (w.d_ff() > kLargestWidth) return fmt::format("no d_ff above {} is counted", kLargestWidth);
  if (counts_work && !fits_counters(w)) return "it takes more than the engine's counters hold";
  return "";
}

SolveAnswer largest_within(const SolveQuestion& question, const SolveBudget& budget) {
  require(budget.bytes || budget.flops, "[solve] no budget; need bytes or FLOPs");
  require(budget.bytes.value_or(1) >= 1 && budget.flops.value_or(1) >= 1,
          "[solve] a budget of nothing; need at least 1 byte or FLOP");
  const Integer bytes = budget.bytes.value_or(0);
  require(bytes <= kLargestBudget, "[solve] {} bytes; need at most {}", to_decimal(bytes),
          to_decimal(kLargestBudget));
  const bool counts_work = budget.flops.has_value();
  check(question.candidate(1));
  const auto need = [&](std::size_t k) {
    return need_of(question.candidate(k), question.terms, counts_work);
  };
  const auto over = [&](const Need& n) -> std::string {
    if (budget.bytes && n.bytes > *budget.bytes) {
      return fmt::format("{} of memory; the budget is {}",
                         format_bytes(static_cast<std::uint64_t>(n.bytes)),
                         format_bytes(static_cast<std::uint64_t>(*budget.bytes)));
    }
    if (budget.flops && n.work.flops > *budget.flops) {
      return fmt::format("{} FLOPs; the budget is {}", to_decimal(n.work.flops),
                         to_decimal(*budget.flops));
    }
    return "";
  };
  const std::string too_small = over(need(1));
  require(too_small.empty(), "[cost] even {} needs {}", plural(question.value(1), question.what),
          too_small);
  const std::size_t k = largest(
      [&](std::size_t candidate) {
        return question.beyond_limits(candidate, counts_work).empty() &&
               over(need(candidate)).empty();
      },
      question.what == SolveFor::kLength ? kLookBeyond : 0);
  SolveAnswer answer{.value = question.value(k),
                     .workload = question.candidate(k),
                     .need = need(k),
                     .next_value = question.value(k + 1),
                     .limit = question.beyond_limits(k + 1, counts_work)};
  if (answer.limit.empty()) answer.next = need(k + 1);
  return answer;
}

std::array<MechanismCrossover, kMeasures.size()> compare_mechanisms(const SolveQuestion& question,
                                                                    const std::string& first,
                                                                    const std::string& second) {
  require(question.what == SolveFor::kLength,
          "[cost] mechanisms are compared by length; need to solve for it");
  MechanismPair pair(question, first, second);
  const std::vector<std::size_t> lengths = lengths_to_ask(pair);
  std::array<MechanismCrossover, kMeasures.size()> found;
  for (std::size_t i = 0; i < kMeasures.size(); ++i) {
    found[i] = crossover_of(pair, kMeasures[i], lengths);
  }
  return found;
}

}  // namespace longspan
