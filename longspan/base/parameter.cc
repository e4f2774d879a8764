#include "longspan/base/parameter.h"

#include <algorithm>
#include <utility>

#include "longspan/base/error.h"
#include "longspan/base/memory.h"
#include "longspan/base/sizes.h"

namespace longspan {

Parameter& Parameters::declare(std::string name, std::size_t rows, std::size_t cols,
                               Initializer initializer, Role role) {
  if (Parameter* shared = sharing_ ? find(name) : nullptr; shared != nullptr) {
    require(shared->rows == rows && shared->cols == cols,
            "[parameters] '{}' is {} × {} and is shared as {} × {}; need the same", name,
            shared->rows, shared->cols, rows, cols);
    return *shared;
  }
  require(find(name) == nullptr, "[parameters] '{}' is declared twice; names must differ", name);
  require(size_product(rows, cols) <= kMostWeights - total() && all_.size() < kMostNames,
          "[parameters] '{}' of {} × {} beside {} weights of {} names; need at most {} of {}", name,
          rows, cols, total(), all_.size(), kMostWeights, kMostNames);
  Parameter& p = all_.emplace_back();
  p.name = std::move(name);
  p.role = role;
  p.place = Place::now();
  by_name_.emplace(p.name, &p);
  p.rows = rows;
  p.cols = cols;
  p.initializer = initializer;
  p.value = Dry::memory<float>(p.size(), sizeof(float) * total());
  p.gradient = p.value;
  count_ += rows * cols;
  matrix_count_ += rows * cols;
  return p;
}

Parameter& Parameters::declare(std::string name, std::size_t size, Initializer initializer,
                               Role role) {
  Parameter& p = declare(std::move(name), 1, size, initializer, role);
  if (p.is_vector) return p;  // shared
  p.is_vector = true;
  matrix_count_ -= size;
  return p;
}

Parameter& Parameters::declare_constant(std::string name, std::size_t rows, std::size_t cols,
                                        std::function<void(Matrix)> fill) {
  Parameter& p = declare(std::move(name), rows, cols, Initializer::zeros());
  if (p.constant) return p;  // shared
  p.fill = std::move(fill);
  make_constant(p);
  return p;
}

void Parameters::make_constant(Parameter& p) {
  p.constant = true;
  p.gradient = {};
  count_ -= p.size();
  if (!p.is_vector) matrix_count_ -= p.size();
  constant_count_ += p.size();
}

void Parameters::freeze(const std::function<bool(const Parameter&)>& such) {
  for (Parameter& p : all_) {
    if (!p.constant && such(p)) make_constant(p);
  }
}

Parameter* Parameters::find(std::string_view name) {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

void Parameters::allocate(Purpose purpose) {
  const bool trains = purpose == Purpose::kTraining;
  const std::string_view what = trains ? "weights and their gradients" : "weights";
  const std::size_t gradients = trains ? count_ : 0;
  require_memory("parameters", what, sizeof(float) * (total() + gradients));
  try {
    values_.assign(count_, 0.0F);
    gradients_.assign(gradients, 0.0F);
    constants_.assign(constant_count_, 0.0F);
  } catch (const std::bad_alloc&) {
    throw SystemError(
        fmt::format("[parameters] the machine refused {} bytes for {} {}; use a smaller model",
                    sizeof(float) * (count_ + gradients), count_, what));
  }
  allocated_ = true;
  purpose_ = purpose;
  std::size_t matrix = 0;
  std::size_t vector = matrix_count_;
  std::size_t constant = 0;
  for (Parameter& p : all_) {
    p.packed = false;
    if (p.constant) {
      p.value = std::span(constants_).subspan(constant, p.size());
      constant += p.size();
      continue;
    }
    std::size_t& at = p.is_vector ? vector : matrix;
    p.value = std::span(values_).subspan(at, p.size());
    p.gradient = trains ? std::span(gradients_).subspan(at, p.size()) : std::span<float>();
    at += p.size();
  }
}

void Parameters::require_allocated(std::string_view who) const {
  require(allocated_ || all_.empty(), "[{}] the weights have no memory; allocate first", who);
}

void Parameters::require_trainable(std::string_view who) const {
  require(!allocated_ || purpose_ == Purpose::kTraining,
          "[{}] the weights have no gradients; allocate them for training", who);
  require(std::ranges::none_of(all_, &Parameter::packed),
          "[{}] the weights are packed for inference; unpack them first", who);
}

void Parameters::initialize(RandomKey seed, DrawNormal draw) {
  require_allocated("parameters");
  for (Parameter& p : all_) {
    if (p.fill) {
      p.fill(Matrix(p.value.data(), p.rows, p.cols));
      continue;
    }
    switch (p.initializer.kind) {
      case Initializer::Kind::kZeros:
        std::ranges::fill(p.value, 0.0F);
        break;
      case Initializer::Kind::kOnes:
        std::ranges::fill(p.value, 1.0F);
        break;
      case Initializer::Kind::kNormal:
        draw(derive(seed, p.name), p.initializer.deviation, p.value);
        break;
    }
  }
}

}  // namespace longspan
