// The Linformer with its products in the other order, for short sequences:
//
//   P = softmax((q·Kᵀ/√d)·Eᵀ),   y = (P·F)·V
//
// n·m·(d + e + 2k) MACCs per head instead of (n + m)·k·(d + e), which is less for n = m < 2k·d/(d +
// k) (d = e). Internal to the Linformer.
//
// Counts, for N = Σ_b m·keys_b pairs and h heads:
//
//   forward   MACCs h·N·(d + e + 2k); softmax 5·h·M·k; dropout h·M·k      M = batch·m
//   backward  MACCs h·N·(3d + 2e + 5k); softmax 4·h·M·k; dropout 2·h·M·k
//   update    add 2·g·k·(keys)                                            g key heads
#pragma once

#include "longspan/attention/attention.h"

namespace longspan {

struct LinformerTables {
  ConstMatrix e;  // [k or heads·k, n_max]
  ConstMatrix f;
  std::size_t k = 0;
  bool per_head = false;

  ConstMatrix of(ConstMatrix table, std::size_t head, std::size_t keys) const {
    return table.slice_rows(per_head ? head * k : 0, k).slice_cols(0, keys);
  }
};

// Whether this order takes fewer MACCs.
bool scores_come_first(const AttentionShape& shape, std::size_t k);

AttentionCost scores_first_cost(const AttentionShape& shape, std::size_t k);
void scores_first_forward(const LinformerTables& tables, const AttentionInputs& in, Heads y,
                          std::span<float> saved, Arena& arena);
// `signals` receives dE and dF of every key head of every sequence, [k, n] each.
void scores_first_backward(const LinformerTables& tables, const AttentionInputs& in, ConstHeads dy,
                           std::span<const float> saved, const AttentionGradients& grad,
                           std::span<float> signals, Arena& arena);
// Adds them to the gradients of the tables, [k or heads·k, n_max]; both may be one.
void scores_first_accumulate(const AttentionInputs& in, std::size_t k, bool per_head,
                             std::span<const float> signals, Matrix de, Matrix df);

}  // namespace longspan
