#include "tests/vectors/golden_reformer.h"

#include <algorithm>
#include <cstring>

#include "longspan/attention/cluster/reformer.h"
#include "longspan/base/error.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/testing/attention_problem.h"

namespace longspan::golden {

namespace {

// A declared mechanism whose rotations are those of the case.
struct Reformer {
  Reformer(const Case& golden, const ReformerConfig& config, const AttentionInputs& in)
      : alone(config, {.d_model = in.q.heads * in.q.d,
                       .heads = in.q.heads,
                       .kv_heads = in.q.heads,
                       .d_head = in.q.d,
                       .max_length = in.q.n}),
        attention(*alone) {
    Parameters& parameters = alone.parameters();
    parameters.allocate();
    const std::vector<float> rotations = golden.file().floats("rotations");
    const std::span<float> ours = parameters.all().front().value;
    require(rotations.size() == ours.size(), "[golden] {} rotations; ours are {}", rotations.size(),
            ours.size());
    std::ranges::copy(rotations, ours.begin());
  }
  testing::Alone<ReformerAttention> alone;
  const ReformerAttention& attention;
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
  reformer.attention.forward({in, to.y, saved, arena});
  const bool extra = config.padding == "bucket" && !s.key_lengths.empty();
  check_buckets(golden, saved, s, config.rounds,
                reformer.attention.code(s.n).buckets() + (extra ? 1 : 0));
  reformer.attention.backward({in, to.y, upstream, saved, {.q = to.dq, .v = to.dv}, {}, arena});
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

// The projections around a mechanism, without bias and without one behind it.
struct ReformerLayer {
  ReformerLayer(const Case& golden, const std::vector<std::string>& names)
      : weight_names(names),
        x(golden.file().floats("x")),
        upstream(golden.file().floats("upstream")),
        lengths(lengths_of(golden)) {
    const Shape shape = golden.file().at("x").shape;
    require(shape.size() == 3, "[golden] x is {}; need [batch, n, width]", to_string(shape));
    batch = shape[0];
    rows = shape[0] * shape[1];
    count = golden.config().at("heads").get<std::size_t>();
    for (const std::string& name : names) {
      weights.push_back(golden.file().floats("w." + name + ".weight"));
      const std::size_t width = weights.back().size() / shape[2];
      projected.emplace_back(rows * width);
      gradients.emplace_back(rows * width);
      gemm(matrix(x, rows), matrix(weights.back(), width), matrix(projected.back(), rows),
           {.transpose_b = true});
    }
    y.resize(projected.back().size());
    in.q = heads(projected[0]);
    in.k = heads(projected[projected.size() - 2]);
    in.v = heads(projected.back());
    in.mask.causal = golden.config().at("causal").get<bool>();
    in.mask.key_lengths = lengths;
  }

  static Matrix matrix(std::vector<float>& data, std::size_t height) {
    return {data.data(), height, data.size() / height};
  }
  Heads heads(std::vector<float>& data) const {
    return Heads::from_columns(matrix(data, rows), batch, count);
  }
  ConstHeads upstream_heads() { return heads(upstream); }

  // dx = Σ dp·W and dW = dpᵀ·x over the projections p.
  void compare(Comparison& comparison) {
    comparison.output("out64", y);
    std::vector<float> dx(x.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::size_t width = gradients[i].size() / rows;
      std::vector<float> dw(weights[i].size());
      gemm(matrix(gradients[i], rows), matrix(weights[i], width), matrix(dx, rows), {.add = true});
      gemm(matrix(gradients[i], rows), matrix(x, rows), matrix(dw, width), {.transpose_a = true});
      comparison.gradient("grad.w." + weight_names[i] + ".weight", dw);
    }
    comparison.gradient("grad.x", dx);
    comparison.finish();
  }

  std::vector<std::string> weight_names;
  std::vector<float> x, upstream, y;
  std::vector<std::int32_t> lengths;
  std::size_t batch = 0, rows = 0, count = 0;
  std::vector<std::vector<float>> weights, projected, gradients;
  AttentionInputs in;
};

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
  ReformerLayer layer(golden, {"query_key", "value"});
  comparison.begin("reformer");
  layer.in.k = layer.in.q;
  run(golden, layer_config(golden.config()), layer.in, layer.upstream_heads(),
      {layer.heads(layer.y), layer.heads(layer.gradients[0]), layer.heads(layer.gradients[1])});
  layer.compare(comparison);
}

}  // namespace longspan::golden
