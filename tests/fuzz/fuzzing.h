// What a fuzz target is: a plain function of bytes, for libFuzzer and for fuzz_test alike.
//
//   fuzz_NAME.cc    int fuzz_NAME(bytes)   gives them to a reader, and what it read to whoever
//                                          comes next
//   corpus/NAME/    inputs to begin with, and those that once failed
//
// An input is the file as somebody would send it; or, where it begins with kEdits, what to change in
// the tree of a sound one, which is then written with its syntax and checksum intact.
//
// The only outcomes are success and an Error of one sentence. Anything else leaves the function as
// it came, and the fuzzer notices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/base/error.h"

namespace longspan::fuzz {

using Bytes = std::span<const std::uint8_t>;
inline constexpr std::uint8_t kEdits = 0xFE;  // begins no JSON, no TOML and no specification

// A property that does not hold.
struct Violated : std::logic_error {
  using std::logic_error::logic_error;
};
void demand(bool holds, std::string_view what);

// Throws Violated unless an Error says whose it is: "[who] …".
void check_sentence(std::string_view text);

// Runs what a target does with its input.
template <class Call>
int outcome_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    check_sentence(error.what());
  }
  return 0;
}

// The bytes of an input, taken from its front; zeros when they are used up.
class Steering {
 public:
  explicit Steering(Bytes bytes) : left_(bytes) {}

  bool done() const { return left_.empty(); }
  std::uint64_t take(std::size_t bytes);  // little-endian
  // One byte, two where the bound needs them; `bound` > 0.
  std::size_t below(std::size_t bound);

 private:
  Bytes left_;
};

inline bool edits(Bytes input) { return !input.empty() && input[0] == kEdits; }
inline Steering steering(Bytes input) { return Steering(input.subspan(1)); }
inline std::string_view text_of(Bytes input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};  // NOLINT
}

// The inputs of a target that are sound files: corpus/NAME/sound*, in order of their names.
std::vector<std::string> sound_files(std::string_view target);

// A directory of this process for readers that want files; it is removed at the end.
const std::filesystem::path& scratch();

}  // namespace longspan::fuzz
