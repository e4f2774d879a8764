#include "longspan/layers/loss.h"

#include <array>
#include <vector>

#include "longspan/base/config.h"
#include "longspan/layers/cross_entropy.h"
#include "longspan/layers/event_loss.h"
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

constexpr std::array kLosses = {
    LossEntry{CrossEntropyLoss::kName, &make<CrossEntropyLoss>},
    LossEntry{SquaredError::kName, &make<SquaredError>},
    LossEntry{EventLoss<Decay::kAffine>::kName, &make<EventLoss<Decay::kAffine>>},
    LossEntry{EventLoss<Decay::kExponential>::kName, &make<EventLoss<Decay::kExponential>>},
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
