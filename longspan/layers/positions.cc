#include "longspan/layers/positions.h"

#include <cmath>

#include "longspan/base/dry.h"
#include "longspan/base/integers.h"
#include "longspan/base/memory.h"
#include "longspan/base/sizes.h"

namespace longspan {

namespace {

// The elements of a table [positions, width] that the machine can hold.
std::size_t table_size(std::size_t positions, std::size_t width) {
  const std::size_t size = size_product(positions, width);
  require_memory("positions", "the tables of positions", size_product(size, sizeof(float)));
  return size;
}

}  // namespace

std::vector<float> sinusoidal_table(PositionKind kind, std::size_t length, std::size_t d) {
  std::vector<float> table(table_size(length, d));
  const std::size_t sines = divide_up(d, 2);
  for (std::size_t p = 0; p < length; ++p) {
    for (std::size_t c = 0; c < d; ++c) {  // a sine and its cosine in turn
      const double exponent = static_cast<double>(c - c % 2) / static_cast<double>(d);
      const double angle = static_cast<double>(p) * std::pow(10000.0, -exponent);
      const std::size_t at = kind == PositionKind::kSinusoidalHalves ? c / 2 + (c % 2) * sines : c;
      table[p * d + at] = static_cast<float>(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

RotaryTable::RotaryTable(const RotaryConfig& config, std::size_t positions, std::size_t d_head)
    : config_(config), positions_(positions), d_head_(d_head) {
  require(
      width() % 2 == 0 && width() <= d_head,
      "[rotary] {} channels of heads that are {} wide; need an even width of at most the head's",
      width(), d_head);
}

void RotaryTable::allocate() {
  const auto fill = [&](Waves& waves, bool extended) {
    waves.cosines.resize(table_size(positions_, width()) / 2);  // half of it for each of the two
    waves.sines.resize(waves.cosines.size());
    const RotaryAngles angles = rotary_angles(config_, d_head_, positions_, extended);
    rotary_table(angles.frequencies, angles.amplitude, positions_, waves.cosines.data(),
                 waves.sines.data());
  };
  fill(waves_, false);
  if (extends(positions_)) fill(extended_, true);
  for (const std::shared_ptr<RotaryTable>& other : others_) other->allocate();
}

std::shared_ptr<const RotaryTable> RotaryTable::of_heads(std::size_t d_head) const {
  if (d_head == d_head_) return shared_from_this();
  for (const std::shared_ptr<RotaryTable>& other : others_) {
    if (other->d_head_ == d_head) return other;
  }
  return others_.emplace_back(std::make_shared<RotaryTable>(config_, positions_, d_head));
}

void RotaryTable::apply(Heads x, std::size_t first, bool inverse) const {
  require(x.d == d_head_, "[rotary] heads are {} wide; the table is made for {}", x.d, d_head_);
  require(first <= positions_ && x.n <= positions_ - first,
          "[rotary] position {} is asked for; the table has {}", first + x.n, positions_);
  const std::size_t half = width() / 2;
  const Waves& waves = extends(first + x.n) ? extended_ : waves_;
  require(Dry::on() || !waves.cosines.empty(), "[rotary] the table has no memory; allocate first");
  x.d = width();  // the others stay
  rotate({.interleaved = config_.interleaved}, {waves.cosines.data(), positions_, half},
         {waves.sines.data(), positions_, half}, first, x, inverse);
}

}  // namespace longspan
