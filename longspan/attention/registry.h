// The mechanisms, one line each. Tests, benchmarks, the command line and the documentation walk
// this list; none of them has a list of its own.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "longspan/attention/attention.h"

namespace longspan {

// The survey's classes.
enum class MechanismClass : std::uint8_t {
  kExact,
  kLowRank,
  kKernel,
  kMemory,
  kFixedPattern,
  kLearnablePattern,
  kContentAndPosition,
  kRecurrence,
};
std::string_view name_of(MechanismClass kind);
// What its mechanisms do with a pair of query and key that they look at: "full", "window", …
std::string_view reason_of(MechanismClass kind);

struct Mechanism {
  std::string_view name;
  MechanismClass kind;
  std::string_view complexity;  // of its time, "O(n²)"
  std::string_view memory;      // what it holds at a time in training, beside inputs and output
  std::string_view summary;     // one line
  std::string_view gives_up;    // to be cheaper than exact attention; empty: nothing
  // `options` is "key=value,…".
  std::unique_ptr<Attention> (*make)(std::string_view options);
  // Options worth trying beside the defaults; "" ends them.
  std::array<std::string_view, 4> settings = {};
};

std::span<const Mechanism> mechanisms();

// Of "name" or "name:key=value,…"; throws Error with the nearest name when there is none.
const Mechanism& find_mechanism(std::string_view specification);

// From "name" or "name:key=value,…"; throws Error with the nearest name when there is none.
std::unique_ptr<Attention> make_attention(std::string_view specification);

}  // namespace longspan
