// The stages of an encoder for the formula of what it executes: where they end among its layers, and
// what happens there. One column of a sequence:
//
//   pool      2 a pair forward (maximum 1), 3 backward (2), 1 for a row alone
//   repeat    1 an element forward, 1 a sum backward; the skip 1 backward
#pragma once

#include <deque>
#include <vector>

#include "longspan/base/cost.h"
#include "longspan/testing/executed_site.h"

namespace longspan::testing {

class ExecutedStages {
 public:
  ExecutedStages(const ModelConfig& config, const Batch& batch, const Site& stack);

  // Where the attention of a layer reads; at the end of a stage `site` becomes what follows it and
  // the table has its cost.
  Site enter(std::size_t layer, Site& site, CostTable& table);

 private:
  Cost pool(Site& site);
  Cost repeat(Site& site) const;
  Count elements() const { return Count{batch_.batch} * c_.d_model; }  // of a row

  const ModelConfig& c_;
  const Batch& batch_;
  Site whole_;
  std::vector<std::size_t> ends_;
  std::deque<std::vector<std::int32_t>> lengths_;  // of the pooled sequences
};

}  // namespace longspan::testing
