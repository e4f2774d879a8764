// Whole numbers that are rounded up.
#pragma once

#include <type_traits>

namespace longspan {

// ⌈a/b⌉
template <class A, class B>
constexpr std::common_type_t<A, B> divide_up(A a, B b) {
  return (a + b - 1) / b;
}

// The smallest multiple of b that is at least a.
template <class A, class B>
constexpr std::common_type_t<A, B> round_up(A a, B b) {
  return divide_up(a, b) * b;
}

}  // namespace longspan
