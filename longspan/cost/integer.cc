#include "longspan/cost/integer.h"

#include <algorithm>

#include "longspan/base/error.h"

namespace longspan {
namespace {

// The digits of |value|, least significant first. Digits are taken from the signed value, so that
// the least Integer, whose negative does not exist, has them too.
std::string reversed_digits(Integer value) {
  std::string digits;
  do {
    const int digit = static_cast<int>(value % 10);
    digits += static_cast<char>('0' + (digit < 0 ? -digit : digit));
    value /= 10;
  } while (value != 0);
  return digits;
}

[[noreturn]] void throw_overflow() {
  throw Error("[polynomial] a value needs more than 128 bits; need smaller dimensions");
}

}  // namespace

std::optional<Integer> checked_add(Integer a, Integer b) {
  Integer sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

std::optional<Integer> checked_multiply(Integer a, Integer b) {
  Integer product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

Integer add_exactly(Integer a, Integer b) {
  const auto sum = checked_add(a, b);
  if (!sum) throw_overflow();
  return *sum;
}

Integer multiply_exactly(Integer a, Integer b) {
  const auto product = checked_multiply(a, b);
  if (!product) throw_overflow();
  return *product;
}

std::string to_decimal(Integer value) {
  std::string text = reversed_digits(value);
  if (value < 0) text += '-';
  std::reverse(text.begin(), text.end());
  return text;
}

std::string to_grouped_decimal(Integer value, char separator) {
  const std::string digits = reversed_digits(value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && i % 3 == 0) text += separator;
    text += digits[i];
  }
  if (value < 0) text += '-';
  std::reverse(text.begin(), text.end());
  return text;
}

}  // namespace longspan
