// Errors: one sentence that says what is wrong, where, and what would be right.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace longspan {

// The caller's input is wrong: a bad shape, name, file or option.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The input is fine but the machine failed: a full disk, memory that cannot be had.
class SystemError : public Error {
 public:
  using Error::Error;
};

// Throws Error("[who] got; need") unless `condition` holds.
template <class... Args>
void require(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) throw Error(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace longspan
