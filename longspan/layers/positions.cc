#include "longspan/layers/positions.h"

#include <cmath>

#include "longspan/base/dry.h"
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

std::vector<float> sinusoidal_table(std::size_t length, std::size_t d) {
  std::vector<float> table(table_size(length, d));
  for (std::size_t p = 0; p < length; ++p) {
    for (std::size_t c = 0; c < d; ++c) {
      const double exponent = static_cast<double>(c - c % 2) / static_cast<double>(d);
      const double angle = static_cast<double>(p) * std::pow(10000.0, -exponent);
      table[p * d + c] = static_cast<float>(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

RotaryTable::RotaryTable(const Rotary& rotary, std::size_t positions, std::size_t d_head)
    : rotary_(rotary), positions_(positions), d_head_(d_head) {
  require(d_head % 2 == 0, "[rotary] heads are {} wide; need an even width", d_head);
}

void RotaryTable::allocate() {
  cosines_.resize(table_size(positions_, d_head_) / 2);  // half of it for each of the two
  sines_.resize(cosines_.size());
  rotary_table(rotary_, positions_, d_head_, cosines_.data(), sines_.data());
}

void RotaryTable::apply(Heads x, std::size_t first, bool inverse) const {
  require(x.d == d_head_, "[rotary] heads are {} wide; the table is made for {}", x.d, d_head_);
  require(first <= positions_ && x.n <= positions_ - first,
          "[rotary] position {} is asked for; the table has {}", first + x.n, positions_);
  const std::size_t half = d_head_ / 2;
  require(Dry::on() || !cosines_.empty(), "[rotary] the table has no memory; allocate first");
  rotate(rotary_, {cosines_.data(), positions_, half}, {sines_.data(), positions_, half}, first, x,
         inverse);
}

}  // namespace longspan
