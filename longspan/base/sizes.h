// Sizes of what configs, files and batches ask for: products that do not wrap.
#pragma once

#include <concepts>
#include <cstddef>

namespace longspan {

// More bytes than a machine can address (57 bits), and so few that a sum of a dozen does not wrap
// either: what asks for as many is refused wherever memory is laid out, dry or not.
inline constexpr std::size_t kTooMany = std::size_t{1} << 60U;

// a·b·…, or kTooMany where that is more.
template <std::same_as<std::size_t>... More>
constexpr std::size_t size_product(std::size_t a, More... more) {
  std::size_t product = a;
  const auto times = [&](std::size_t b) {
    if (__builtin_mul_overflow(product, b, &product) || product > kTooMany) product = kTooMany;
  };
  times(1);
  (times(more), ...);
  return product;
}

}  // namespace longspan
