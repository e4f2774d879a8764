#include "longspan/predict/operation.h"

#include <fmt/core.h>

#include "longspan/kernels/rows/vector.h"
#include "longspan/predict/quantities.h"

namespace longspan {

namespace {

std::string rate_of(std::string_view op, std::string_view variant) {
  return variant.empty() ? std::string(op) : fmt::format("{} {}", op, variant);
}

// What a mechanism updates is timed with its backward, of which it is a part; its call and its
// queries are counted there.
std::vector<double> mechanism_quantities(const Call& call) {
  const bool update = call.op == Op::kAttentionUpdate;
  std::vector<double> x =
      attention_quantities(update ? 0.0 : static_cast<double>(call.rows), call.work);
  if (update) x.back() = 0.0;
  return x;
}

void add_operations(const RecordedCall& recorded, std::vector<Operation>& operations) {
  const Call& call = recorded.call;
  const auto add = [&](std::string rate, std::vector<double> x, std::uint64_t maccs = 0) {
    operations.push_back({std::move(rate), std::string(recorded.layer), recorded.phase,
                          std::move(x), recorded.times, recorded.times * maccs});
  };
  switch (call.op) {
    case Op::kProduct:
      add(rate_of(name_of(call.op), call.variant),
          call.variant == kPackedProduct ? packed_quantities(call.rows, call.cols, call.inner)
                                         : product_quantities(call.rows, call.cols, call.inner),
          call.work.maccs);
      if (!call.fused.empty()) {
        add(rate_of(name_of(Op::kActivation), call.fused),
            row_quantities(call.rows, call.cols, /*calls=*/0.0));
      }
      break;
    case Op::kAttention:
    case Op::kAttentionBackward:
    case Op::kAttentionUpdate: {
      const Phase phase = call.op == Op::kAttention ? Phase::kForward : Phase::kBackward;
      add(attention_rate(call.variant, phase), mechanism_quantities(call), call.work.maccs);
      if (const std::uint64_t dropped = call.work[Kind::kDropout]; dropped > 0) {
        add(rate_of(name_of(Op::kDropout), {}), row_quantities(1, dropped));
      }
      break;
    }
    case Op::kFourier:
      add(rate_of(name_of(call.op), call.variant),
          transform_quantities(call.rows * call.cols, call.work));
      break;
    default:
      add(rate_of(name_of(call.op), call.variant), row_quantities(call.rows, call.cols),
          call.work.maccs);
  }
}

}  // namespace

std::string attention_rate(std::string_view mechanism, Phase phase) {
  return rate_of(name_of(phase == Phase::kForward ? Op::kAttention : Op::kAttentionBackward),
                 mechanism.substr(0, mechanism.find(':')));
}

std::vector<Operation> operations_of(const Recorder& recorder) {
  std::vector<Operation> operations;
  for (const RecordedCall& call : recorder.calls()) add_operations(call, operations);
  return operations;
}

std::vector<Operation> forward_operations(const Model& model, const Batch& shape) {
  Recorder recorder;
  const Recorder::Use use(recorder);
  model.walk_inference(shape);
  return operations_of(recorder);
}

std::vector<Operation> step_operations(const Model& model, const Batch& shape,
                                       const OptimizerConfig& optimizer) {
  Recorder recorder;
  const Recorder::Use use(recorder);
  model.walk_training(shape);
  Optimizer::walk(optimizer, model.parameters());
  return operations_of(recorder);
}

std::vector<Operation> step_operations(const Model& model, const Rule& rule, const Batch& shape,
                                       const OptimizerConfig& optimizer) {
  Recorder recorder;
  const Recorder::Use use(recorder);
  rule.walk(shape);
  Optimizer::walk(optimizer, model.parameters());
  return operations_of(recorder);
}

}  // namespace longspan
