// Which mechanism, with which settings, for a length: ranked by predicted time under constraints.
//
// People have one of two questions. In a model that exists, what replaces exact attention must come
// close to its outputs: the error on the same q, k and v decides. For a model that is yet to be
// trained that says nothing: how good others became that were trained with it decides.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/compare/compare_case.h"

namespace longspan {

// Every mechanism with the settings that are worth trying, the defaults among them.
std::vector<std::string> advised_settings();

// A mechanism that models were trained with.
struct JudgedMechanism {
  std::string attention;
  std::string worse;  // why it is not taken for as good as the best; empty: it is
};

struct AdviceQuestion {
  CompareSettings settings;
  std::uint64_t length = 0;
  std::optional<double> memory;  // bytes at most
  // Of the output against exact attention, at most; nothing: kReplaces.
  std::optional<double> error;
  // The best first: what a new model may be trained with. None: a model exists.
  std::vector<JudgedMechanism> judged;

  bool replaces() const { return judged.empty(); }
};

struct AdviceCandidate {
  std::string attention;
  bool exact = false;
  CasePrediction prediction;
  std::optional<double> error;     // measured where something is to be replaced
  std::uint64_t error_length = 0;  // tokens it was measured on
  bool trained_only = false;       // it replaces nothing: a model must be trained with it
  std::string refused;             // why it does not answer the question; empty: it does
  bool tied = false;               // its interval and that of the fastest overlap
};

struct Advice {
  // The pick, the others that answer by rising predicted time, those that do not.
  std::vector<AdviceCandidate> candidates;

  // Null where nothing answers.
  const AdviceCandidate* pick() const;
  const AdviceCandidate* find(std::string_view attention) const;
};

// Errors are measured on random tensors of at most this many tokens.
inline constexpr std::uint64_t kLongestError = 4096;
// Unless a limit is asked for, of at most this many: they need not be known as well.
inline constexpr std::uint64_t kLongestGlance = 1024;

// Throws Error for a length that nobody can answer for.
void check_question(const AdviceQuestion& question);

// Is told of each candidate before it is looked at, and of how many there are.
using AdviceProgress =
    std::function<void(std::size_t index, std::size_t count, const std::string& attention)>;

// By the rule of verdict.h; what is given up is the error on random tensors, or the place among
// those that were judged.
Advice advise(const Calibration& calibration, const AdviceQuestion& question,
              const AdviceProgress& progress = {});

inline constexpr int kDoublings = 4;  // and halvings: how far other lengths are looked at

// The nearest of the doublings or halvings at which the answer is another: the pick is clearly
// slower than the fastest there, or an exact one is not. Errors and qualities are taken to be those
// at the length of the question.
struct AdviceChange {
  std::uint64_t length = 0;
  std::string attention;  // empty: nothing answers there
};
std::optional<AdviceChange> advice_changes(const Calibration& calibration,
                                           const AdviceQuestion& question, const Advice& advice,
                                           bool longer);

// What a class of the survey gives up, as the end of "it gives up …".
std::string_view given_up(std::string_view attention);

}  // namespace longspan
