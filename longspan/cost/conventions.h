// What other tools would report for the same model, and where the difference to `executed` lies.
//
//              1 MACC  softmax  norm  activation  training
//   fvcore        1       0       5       0       forward only
//   thop          1     3 − 1/n   4       0       forward only; products of two activations unseen
//   ptflops       1       0       0       0       forward only
//   llm-viewer    2       5       7       2       forward only
//   torch         2       0       0       0       the products of all passes
//   deepspeed     2       1       5       1       forward × 3
//   calflops      2       1       5       1       forward × 3
//   palm          6 per parameter and token, 12·L·d·n per token for attention
//   6nd           6 per parameter and token
//
// Per element, but for MACCs. Every tool sees exact attention as all M·N pairs, masked or not.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/cost/workload.h"

namespace longspan {

struct Convention {
  std::string_view name;
  std::string_view summary;
};
std::span<const Convention> conventions();

struct ConventionLine {
  std::string term;
  Integer tool = 0;
  Integer executed = 0;  // FLOPs
};

struct ConventionReport {
  Convention convention;
  bool training = false;  // forward, backward and update; or forward alone
  // The columns' sums are what each side reports.
  std::vector<ConventionLine> lines;

  Integer reported() const;
  Integer executed() const;
};
// Throws Error with the nearest name when there is no such tool.
ConventionReport report_as(std::string_view tool, const Workload& workload, const Model& model);

}  // namespace longspan
