#include "longspan/cost/discrepancies.h"

#include <array>

#include "longspan/base/error.h"

namespace longspan {
namespace {

using enum Severity;

// number, id, severity, paper, meant, in_corrected, in_executed
constexpr std::array<Discrepancy, 20> kDiscrepancies = {{
    {1, "D1", kHigh, "The attention's backward FLOPs leave out the Jacobian of softmax, (28).",
     "Its own parts sum to N²·M·h more; the engine needs no Jacobian.", true, true},
    {2, "D2", kHigh, "(29) prices the product with the Jacobian at M·N·M·h MACCs.",
     "A row of N times an N×N matrix is M·N·N·h in all, which differs when M ≠ N.", true, true},
    {3, "D3", kLow, "The skip connection's derivative is given twice as MACCs, 0 and M·d.",
     "The second is FLOPs, as the box has it, so that no total changes.", true, false},
    {4, "D4", kHigh, "Embedding is a dense one-hot product forward, but free backward under BP.",
     "A lookup and a scatter-add have no MACCs; in the paper's model the product is a quarter to a "
     "third of F.",
     false, true},
    {5, "D5", kMedium, "The text projects an M×d error to N×d, formula (48) an M×v error to N×v.",
     "The formula costs 2·N·M·v MACCs, the text would cost 2·N·M·d.", false, false},
    {6, "D6", kMedium, "The FFN's backward pass has 13·M·f FLOPs for GELU's derivative.",
     "Its product with the incoming gradient is missing: 14·M·f.", false, true},
    {7, "D7", kMedium, "The FFN's update has no gradients of the biases.",
     "They are sums over tokens, as LayerNorm's ∂β is: M·f + M·d FLOPs.", false, true},
    {8, "D8", kMedium, "The weight update ends at the gradient.",
     "The step itself costs 2 FLOPs per parameter for SGD, about 12 for Adam: a line of its own.",
     false, false},
    {9, "D9", kMedium, "PEPITA costs two forward passes and an update.",
     "The output error, its addition and the differences a − a_err are missing: 7·M·d + M·f FLOPs "
     "for an encoder block.",
     false, true},
    {10, "D10", kMedium,
     "Algorithm 1 updates the last layer by a − a_err, the text by the output error.",
     "With the standard pass's error, further passes can end before the last layer: M·d·v MACCs "
     "less each.",
     false, false},
    {11, "D11", kLow, "Table 2 gives PEPITA one error projection always.",
     "It is 0 without an encoder and a decoder, as the paper's example has it.", false, false},
    {12, "D12", kLow, "∂L/∂Z is target − s and free.",
     "It is s − target and costs M FLOPs when the target is an index, M·v when it is dense.", false,
     true},
    {13, "D13", kLow, "A sequence of N tokens gives a matrix T of M rows.", "M tokens are meant.",
     false, false},
    {14, "D14", kLow, "The mask sets entries of the softmax's output to −∞, and saves nothing.",
     "It belongs on the input; skipping masked pairs leaves (N+1)/(2N) of them.", false, false},
    {15, "D15", kLow, "The sums over heads in (26), (32) and (36) are free.",
     "They are, where all heads are one matrix product; head by head they cost (h−1)·(M+2N)·d "
     "additions.",
     false, false},
    {16, "D16", kLow, "Adding positions, and adding ∂X_Q, ∂X_K and ∂X_V, is marginal.",
     "Positions cost M·d FLOPs; the gradients nothing where products add in place.", false, true},
    {17, "D17", kLow, "LayerNorm costs 8 FLOPs an element, and 9·d² a token for its Jacobian.",
     "x − mean is needed once: 7·d + 5 a token, and 8·d + 2 backward without a Jacobian.", false,
     true},
    {18, "D18", kLow, "γ_ij in (43), ∂L/Concat in (8) and (22), x − Fe in 3.3.1.",
     "γ_j, ∂L/∂Concat and, as in Algorithm 1, x + Fe.", false, false},
    {19, "D19", kHigh,
     "That backward and update cost twice the forward pass holds only for fully "
     "connected and convolutional layers.",
     "For attention its own parts give B + U − 2F = M·N·M·h: exactly twice, but for the Jacobian.",
     false, false},
    {20, "D20", kHigh, "Training GPT-3 took about 3640 PF-days.",
     "The printed formulas give 5118 for that run, corrected 5253, executed 3739.", false, false},
}};

}  // namespace

std::string_view name_of(Severity severity) {
  static constexpr std::array<std::string_view, 3> kNames = {"high", "medium", "low"};
  return kNames[static_cast<std::size_t>(severity)];
}

std::span<const Discrepancy> discrepancies() { return kDiscrepancies; }

const Discrepancy& discrepancy(int number) {
  require(number >= 1 && number <= static_cast<int>(kDiscrepancies.size()),
          "[discrepancy] there is no D{}; need 1 to {}", number, kDiscrepancies.size());
  return kDiscrepancies[static_cast<std::size_t>(number - 1)];
}

}  // namespace longspan
