#include "tests/golden_reformer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "longspan/attention/reformer.h"
#include "longspan/base/error.h"
#include "longspan/kernels/gemm.h"

namespace longspan::golden {

namespace {

// A declared mechanism whose rotations are those of the case.
struct Reformer {
  Reformer(const Case& golden, const ReformerConfig& config, const AttentionInputs& in)
      : attention(config) {
    attention.declare(
        {.parameters = parameters, .heads = in.q.heads, .d_head = in.q.d, .max_length = in.q.n});
    parameters.allocate();
    const std::vector<float> rotations = golden.file().floats("rotations");
    const std::span<float> ours = parameters.all().front().value;
    require(rotations.size() == ours.size(), "[golden] {} rotations; ours are {}", rotations.size(),
            ours.size());
    std::ranges::copy(rotations, ours.begin());
  }
  Parameters parameters;
  ReformerAttention attention;
};

// Forward and backward; y, dq and dv have the strides of q and v.
struct Results {
  Heads y, dq, dv;
};

void check_buckets(const Case& golden, std::span<const float> saved, const AttentionShape& s,
                   std::size_t rounds, std::size_t per_round) {
  const std::vector<std::int32_t> want = golden.integers("buckets");
  const std::span<const float> kept = ReformerAttention::saved_buckets(saved, s);
  require(want.size() == kept.size(), "[golden] {} buckets; ours are {}", want.size(), kept.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    std::int32_t bucket = 0;
    std::memcpy(&bucket, &kept[i], sizeof bucket);
    const std::size_t round = i / s.n % rounds;
    require(
        static_cast<std::size_t>(want[i]) == static_cast<std::size_t>(bucket) + round * per_round,
        "[golden] token {} of round {} is in bucket {}; the reference has {}", i % s.n, round,
        bucket, want[i]);
  }
}

void run(const Case& golden, const ReformerConfig& config, const AttentionInputs& in,
         ConstHeads upstream, const Results& to) {
  const Reformer reformer(golden, config, in);
  const AttentionShape s = shape_of(in);
  const AttentionCost cost = reformer.attention.cost(s);
  Arena arena(std::max(cost.forward_scratch, cost.backward_scratch));
  std::vector<float> saved(cost.saved);
  reformer.attention.forward(in, to.y, saved, arena);
  const bool extra = config.padding == "bucket" && !s.key_lengths.empty();
  check_buckets(golden, saved, s, config.rounds,
                reformer.attention.code(s.n).buckets() + (extra ? 1 : 0));
  reformer.attention.backward(in, to.y, upstream, saved, {.q = to.dq, .v = to.dv}, {}, arena);
}

std::vector<std::int32_t> lengths_of(const Case& golden) {
  const nlohmann::json& lengths = golden.config().value("lengths", nlohmann::json());
  return lengths.is_array() ? lengths.get<std::vector<std::int32_t>>()
                            : std::vector<std::int32_t>();
}

// A number or a list of factors.
std::string buckets_of(const nlohmann::json& buckets) {
  if (!buckets.is_array()) return std::to_string(buckets.get<std::size_t>());
  std::string text;
  for (const nlohmann::json& factor : buckets) {
    text += (text.empty() ? "" : "x") + std::to_string(factor.get<std::size_t>());
  }
  return text;
}

ReformerConfig kernel_config(const nlohmann::json& c) {
  ReformerConfig config;
  config.chunk = c.at("bucket_size").get<std::size_t>();
  config.rounds = c.at("n_hashes").get<std::size_t>();
  config.buckets = buckets_of(c.at("n_buckets"));
  config.same_bucket = !c.at("attend_across_buckets").get<bool>();
  config.deduplicate = !c.at("allow_duplicate_attention").get<bool>();
  config.wrap = "all";
  config.strict = false;
  config.padding = "hash";
  return config;
}

ReformerConfig layer_config(const nlohmann::json& c) {
  ReformerConfig config;
  config.chunk = c.at("chunk_length").get<std::size_t>();
  config.rounds = c.at("num_hashes").get<std::size_t>();
  config.buckets = buckets_of(c.at("num_buckets"));
  config.before = c.at("chunks_before").get<std::size_t>();
  config.after = c.at("chunks_after").get<std::size_t>();
  config.scaling = "trax";
  config.same_bucket = false;
  config.deduplicate = false;
  config.wrap = "all";
  config.strict = false;
  config.padding = "bucket";
  return config;
}

}  // namespace

void run_reformer(const Case& golden, Comparison& comparison) {
  const Shape shape = golden.file().at("qk").shape;
  require(shape.size() == 3, "[golden] qk is {}; need [batch·heads, n, d]", to_string(shape));
  std::vector<float> q = golden.file().floats("qk");
  std::vector<float> v = golden.file().floats("v");
  const std::vector<float> upstream = golden.file().floats("upstream");
  std::vector<float> y(v.size());
  std::vector<float> dq(q.size());
  std::vector<float> dv(v.size());
  const auto heads = [&](auto& data) {
    return HeadsView(data.data(), shape[0], 1, shape[1], data.size() / (shape[0] * shape[1]));
  };
  const std::vector<std::int32_t> lengths = lengths_of(golden);
  AttentionInputs in;
  in.q = in.k = heads(q);
  in.v = heads(v);
  in.mask.causal = golden.config().at("causal").get<bool>();
  in.mask.key_lengths = lengths;
  comparison.begin("reformer");
  run(golden, kernel_config(golden.config()), in, heads(upstream),
      {heads(y), heads(dq), heads(dv)});
  comparison.output("out64", y);
  comparison.gradient("grad.qk", dq);
  comparison.gradient("grad.v", dv);
  comparison.finish();
}

void run_reformer_layer(const Case& golden, Comparison& comparison) {
  const Shape shape = golden.file().at("x").shape;
  require(shape.size() == 3, "[golden] x is {}; need [batch, n, width]", to_string(shape));
  const std::size_t rows = shape[0] * shape[1];
  const std::size_t heads = golden.config().at("heads").get<std::size_t>();
  std::vector<float> x = golden.file().floats("x");
  std::vector<float> wq = golden.file().floats("w.query_key.weight");
  std::vector<float> wv = golden.file().floats("w.value.weight");
  const std::vector<float> upstream = golden.file().floats("upstream");
  const auto matrix = [](auto& data, std::size_t height) {
    return MatrixView(data.data(), height, data.size() / height);
  };
  const std::size_t width = wq.size() / shape[2];
  const auto columns = [&](auto& data) {
    return HeadsView<std::remove_pointer_t<decltype(data.data())>>::from_columns(matrix(data, rows),
                                                                                 shape[0], heads);
  };
  std::vector<float> q(rows * width), v(q), y(q), dq(q), dv(q);
  gemm(matrix(x, rows), matrix(wq, width), matrix(q, rows), {.transpose_b = true});
  gemm(matrix(x, rows), matrix(wv, width), matrix(v, rows), {.transpose_b = true});
  const std::vector<std::int32_t> lengths = lengths_of(golden);
  AttentionInputs in;
  in.q = in.k = columns(q);
  in.v = columns(v);
  in.mask.causal = golden.config().at("causal").get<bool>();
  in.mask.key_lengths = lengths;
  comparison.begin("reformer");
  run(golden, layer_config(golden.config()), in, columns(upstream),
      {columns(y), columns(dq), columns(dv)});
  comparison.output("out64", y);

  std::vector<float> dx(x.size()), dwq(wq.size()), dwv(wv.size());
  gemm(matrix(dq, rows), matrix(wq, width), matrix(dx, rows));
  gemm(matrix(dv, rows), matrix(wv, width), matrix(dx, rows), {.accumulate = true});
  gemm(matrix(dq, rows), matrix(x, rows), matrix(dwq, width), {.transpose_a = true});
  gemm(matrix(dv, rows), matrix(x, rows), matrix(dwv, width), {.transpose_a = true});
  comparison.gradient("grad.x", dx);
  comparison.gradient("grad.w.query_key.weight", dwq);
  comparison.gradient("grad.w.value.weight", dwv);
  comparison.finish();
}

}  // namespace longspan::golden
