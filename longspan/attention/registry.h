// The mechanisms, one line each. Tests, benchmarks, the command line and the documentation walk
// this list; none of them has a list of its own.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "longspan/attention/attention.h"

namespace longspan {

struct Mechanism {
  std::string_view name;
  std::string_view kind;        // the survey's class: exact, low rank, kernel, …
  std::string_view complexity;  // of its time, "O(n²)"
  std::string_view memory;      // what it holds at a time in training, beside inputs and output
  std::string_view summary;     // one line
  // `options` is "key=value,…".
  std::unique_ptr<Attention> (*make)(std::string_view options);
};

std::span<const Mechanism> mechanisms();

// From "name" or "name:key=value,…"; throws Error with the nearest name when there is none.
std::unique_ptr<Attention> make_attention(std::string_view specification);

}  // namespace longspan
