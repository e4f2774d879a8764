#include "longspan/testing/executed_stages.h"

#include <algorithm>

namespace longspan::testing {

ExecutedStages::ExecutedStages(const ModelConfig& config, const Batch& batch, const Site& stack)
    : c_(config), batch_(batch), whole_(stack) {
  if (c_.stages.empty() || stack.part != ModelPart::kEncoder) return;
  std::size_t end = 0;
  for (std::size_t from = 0; from <= c_.stages.size();) {
    const std::size_t to = std::min(c_.stages.find('|', from), c_.stages.size());
    end += static_cast<std::size_t>(std::stoi(c_.stages.substr(from, to - from)));
    ends_.push_back(end);
    from = to + 1;
  }
}

Site ExecutedStages::enter(std::size_t layer, Site& site, CostTable& table) {
  Site reads = site;
  if (const auto stage = std::ranges::find(ends_, layer); stage != ends_.end()) {
    const bool last = stage + 1 == ends_.end();
    table["stages"] += last ? repeat(site) : pool(site);
    if (last || !c_.unpooled_keys) {
      reads = site;
    } else {
      reads.cross = true;
      reads.m = site.m;
    }
  }
  site.layer = reads.layer = layer;
  return reads;
}

// Pairs of the first 2p of u rows become p, with a first row that stands apart beside them.
Cost ExecutedStages::pool(Site& site) {
  const Site longer = site;
  const std::size_t alone = c_.stage_cls ? 1 : 0;
  const std::size_t used = site.m - (c_.stage_cls && c_.stage_truncate ? 1 : 0);
  const std::size_t pairs = (used - alone) / 2;
  site.m = site.n = alone + (used - alone + 1) / 2;
  std::vector<std::int32_t> real;
  for (const std::int32_t length : longer.key_lengths) {
    const auto rows = static_cast<std::size_t>(length);
    const std::size_t whole = rows < alone ? 0 : alone + (rows - alone) / 2;
    real.push_back(static_cast<std::int32_t>(rows >= used ? site.m : whole));
  }
  const bool first = lengths_.empty();
  lengths_.push_back(real);
  site.key_lengths = lengths_.back();
  const bool mean = c_.stage_pool == StagePool::kMean;
  const Count skipped = first ? longer.m : 0;
  return {.forward = flops(Kind::kAdd, elements() * pairs * (mean ? 2 : 1)),
          .backward =
              flops(Kind::kAdd, elements() * (pairs * (mean ? 3 : 2) + site.m - pairs + skipped))};
}

Cost ExecutedStages::repeat(Site& site) const {
  const std::size_t times = std::size_t{1} << (ends_.size() - 1);
  std::size_t repeated = 0;
  std::size_t sums = 0;
  for (std::size_t i = 0; i < site.m; ++i) {
    const std::size_t copies = std::min(c_.stage_cls && i == 0 ? 1 : times, whole_.m - repeated);
    repeated += copies;
    sums += copies > 0 ? 1 : 0;
  }
  site = whole_;
  return {.forward = flops(Kind::kAdd, elements() * repeated),
          .backward = flops(Kind::kAdd, elements() * (repeated - sums))};
}

}  // namespace longspan::testing
