#include "longspan/layers/loss.h"

#include <array>
#include <vector>

#include "longspan/base/config.h"
#include "longspan/layers/binary_cross_entropy.h"
#include "longspan/layers/cross_entropy.h"
#include "longspan/layers/distillation.h"
#include "longspan/layers/event_loss.h"
#include "longspan/layers/published_event_loss.h"
#include "longspan/layers/span_loss.h"
#include "longspan/layers/squared_error.h"
#include "longspan/layers/weighted_sum.h"

namespace longspan {

namespace {

template <class Kind>
std::unique_ptr<Loss> make(std::string_view options) {
  if constexpr (requires { typename Kind::Config; }) {
    typename Kind::Config config;
    if (!options.empty()) parse_options(Kind::kName, options, config);
    return std::make_unique<Kind>(config);
  } else {
    require(options.empty(), "[model] options {} of the loss {}; it has none", options,
            Kind::kName);
    return std::make_unique<Kind>();
  }
}

struct LossEntry {
  std::string_view name;
  std::unique_ptr<Loss> (*make)(std::string_view options);
};

template <class Kind>
constexpr LossEntry entry() {
  return {Kind::kName, &make<Kind>};
}

constexpr std::array kLosses = {
    entry<CrossEntropyLoss>(),
    entry<DistillationLoss>(),
    entry<BinaryLoss>(),
    entry<SpanLoss>(),
    entry<SquaredError>(),
    entry<WeightedSum>(),
    entry<EventLoss<Decay::kAffine, Integration::kExact>>(),
    entry<EventLoss<Decay::kAffine, Integration::kQuadrature>>(),
    entry<EventLoss<Decay::kAffine, Integration::kMonteCarlo>>(),
    entry<EventLoss<Decay::kExponential, Integration::kExact>>(),
    entry<EventLoss<Decay::kExponential, Integration::kQuadrature>>(),
    entry<EventLoss<Decay::kExponential, Integration::kMonteCarlo>>(),
    entry<PublishedEventLoss>(),
};

}  // namespace

std::unique_ptr<Loss> make_loss(std::string_view spec) {
  const std::size_t colon = spec.find(':');
  const std::string_view name = spec.substr(0, colon);
  std::vector<std::string_view> known;
  for (const LossEntry& loss : kLosses) {
    if (loss.name == name) {
      return loss.make(colon == std::string_view::npos ? "" : spec.substr(colon + 1));
    }
    known.push_back(loss.name);
  }
  throw_unknown("model", "loss", name, known);
}

}  // namespace longspan
