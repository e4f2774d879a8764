// The mechanisms, one line each. Tests, benchmarks, the command line and the documentation walk
// this list; none of them has a list of its own.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "longspan/attention/attention.h"
#include "longspan/base/option_text.h"

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
  Abilities (*abilities)(std::string_view options);
  Streams (*streams)(std::string_view options, const AttentionLayout& layout);
  // The projections are those of streams(); they may be declared afterwards.
  std::unique_ptr<Attention> (*make)(std::string_view options, const AttentionSite& site);
  // Options worth trying beside the defaults; "" ends them.
  std::array<std::string_view, 4> settings = {};
  std::string_view equations = {};  // lines
  std::vector<OptionText> (*options)() = nullptr;
  // `options`, and sizes that let a picture of so many tokens show its shape where they say
  // nothing; null: nothing depends on the length.
  std::string (*shown)(std::string_view options, std::size_t tokens) = nullptr;
};

std::span<const Mechanism> mechanisms();

// Of "name" or "name:key=value,…"; throws Error with the nearest name when there is none.
const Mechanism& find_mechanism(std::string_view specification);

// While it lives, this thread finds one mechanism more by its name: a program's own, or a test's.
// mechanisms() does not have it.
class ExtraMechanism {
 public:
  explicit ExtraMechanism(const Mechanism& mechanism)
      : before_(std::exchange(current_, &mechanism)) {}
  ~ExtraMechanism() { current_ = before_; }
  ExtraMechanism(const ExtraMechanism&) = delete;
  ExtraMechanism& operator=(const ExtraMechanism&) = delete;

  static const Mechanism* current() { return current_; }

 private:
  const Mechanism* before_;
  static thread_local const Mechanism* current_;
};

// The same of "name" or "name:key=value,…"; throw Error with the nearest name when there is none.
Abilities abilities_of(std::string_view specification);
Streams streams_of(std::string_view specification, const AttentionLayout& layout);
std::unique_ptr<Attention> make_attention(std::string_view specification,
                                          const AttentionSite& site);

// The specification with which a picture of so many tokens shows a mechanism: what it does not say
// scales with them.
std::string shown_specification(std::string_view specification, std::size_t tokens);

// A mechanism without a layer, and what a layer would give it: parameters and the projections of
// its streams on call.
class LoneAttention {
 public:
  using Make = std::function<std::unique_ptr<Attention>(const AttentionSite&)>;

  // Its projections have biases where their stream does not say.
  LoneAttention(std::string_view specification, const AttentionLayout& layout, bool bias = true);
  // Any mechanism with these streams. Where it calls upon given ones, those of a `history` only if
  // there will be one, these have projections too.
  LoneAttention(const Make& make, const Streams& streams, const AttentionLayout& layout,
                bool history = false, bool bias = true);
  // Draws the parameters.
  void allocate(RandomKey seed = 1);

  const Attention& operator*() const { return *attention_; }
  const Attention* operator->() const { return attention_.get(); }
  Attention& mechanism() { return *attention_; }
  Parameters& parameters() { return *parameters_; }
  const Parameters& parameters() const { return *parameters_; }
  const Streams& streams() const { return streams_; }

 private:
  Streams streams_;
  std::unique_ptr<Parameters> parameters_;
  std::unique_ptr<Projections> projections_;
  std::unique_ptr<Attention> attention_;
};

}  // namespace longspan
