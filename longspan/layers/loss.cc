#include "longspan/layers/loss.h"

#include <array>
#include <vector>

#include "longspan/base/config.h"
#include "longspan/layers/cross_entropy.h"
#include "longspan/layers/event_loss.h"
#include "longspan/layers/published_event_loss.h"
#include "longspan/layers/squared_error.h"

namespace longspan {

namespace {

template <class Kind>
std::unique_ptr<Loss> make() {
  return std::make_unique<Kind>();
}

struct LossEntry {
  std::string_view name;
  std::unique_ptr<Loss> (*make)();
};

template <class Kind>
constexpr LossEntry entry() {
  return {Kind::kName, &make<Kind>};
}

constexpr std::array kLosses = {
    entry<CrossEntropyLoss>(),
    entry<SquaredError>(),
    entry<EventLoss<Decay::kAffine, Integration::kExact>>(),
    entry<EventLoss<Decay::kAffine, Integration::kQuadrature>>(),
    entry<EventLoss<Decay::kAffine, Integration::kMonteCarlo>>(),
    entry<EventLoss<Decay::kExponential, Integration::kExact>>(),
    entry<EventLoss<Decay::kExponential, Integration::kQuadrature>>(),
    entry<EventLoss<Decay::kExponential, Integration::kMonteCarlo>>(),
    entry<PublishedEventLoss>(),
};

}  // namespace

std::unique_ptr<Loss> make_loss(std::string_view name) {
  std::vector<std::string_view> known;
  for (const LossEntry& loss : kLosses) {
    if (loss.name == name) return loss.make();
    known.push_back(loss.name);
  }
  throw_unknown("model", "loss", name, known);
}

}  // namespace longspan
