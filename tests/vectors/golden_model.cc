#include "tests/vectors/golden_model.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "longspan/attention/pattern/bigbird.h"
#include "longspan/base/error.h"
#include "longspan/models/pretrained.h"
#include "longspan/models/two_towers.h"

namespace longspan::golden {

namespace {

// Real tokens of each sequence, from a mask of ones that may end before the row does.
std::vector<std::int32_t> lengths_of(const std::vector<std::int32_t>& mask, std::size_t batch,
                                     std::size_t length) {
  std::vector<std::int32_t> lengths;
  if (mask.empty()) return lengths;
  for (std::size_t b = 0; b < batch; ++b) {
    const std::span<const std::int32_t> row(mask.data() + b * length, length);
    const auto end = std::ranges::find(row, 0);
    require(std::all_of(end, row.end(), [](std::int32_t m) { return m == 0; }),
            "[golden] the attention mask of sequence {} has a gap; need padding at the end", b);
    lengths.push_back(static_cast<std::int32_t>(end - row.begin()));
  }
  return lengths;
}

// The reference ignores −100, and a causal model predicts the next token.
std::vector<std::int32_t> targets_of(std::vector<std::int32_t> labels, bool causal,
                                     std::size_t length) {
  constexpr std::int32_t kTheirIgnored = -100;
  std::ranges::replace(labels, kTheirIgnored, kIgnoredTarget);
  if (!causal) return labels;
  for (std::size_t first = 0; first + length <= labels.size(); first += length) {
    const auto row = labels.begin() + static_cast<std::ptrdiff_t>(first);
    std::shift_left(row, row + static_cast<std::ptrdiff_t>(length), 1);
    labels[first + length - 1] = kIgnoredTarget;
  }
  return labels;
}

// Which tokens are global.
std::vector<std::uint8_t> globals_of(const Case& golden) {
  const std::vector<std::int32_t> mask = golden.integers("global_attention_mask");
  return {mask.begin(), mask.end()};
}

// What the reference drew at random.
void take_draws(const Case& golden, Model& model) {
  for (Parameter& p : model.parameters().all()) {
    if (!p.name.ends_with(".rotations")) continue;
    const std::vector<float> rotations = golden.file().floats("rotations");
    require(rotations.size() == p.size(), "[golden] {} rotations; '{}' has {}", rotations.size(),
            p.name, p.size());
    std::ranges::copy(rotations, p.value.begin());
  }
  for (std::size_t layer = 0; layer < model.config().layers; ++layer) {
    const std::string name = "rand_blocks.layer" + std::to_string(layer);
    if (!golden.file().contains(name)) continue;
    auto* bigbird = dynamic_cast<BigBirdAttention*>(&model.mechanism(layer));
    if (bigbird == nullptr) continue;
    bigbird->use({golden.integers(name), golden.file().at(name).shape.at(1)});
  }
}

// A model with the reference's weights, and its batch.
struct Loaded {
  Loaded(const Case& golden, const std::string& mechanism)
      : hf(golden.sidecar().at("hf_config")),
        places(placements(hf)),
        model(config_of(hf, mechanism)),
        tokens(golden.integers("input_ids")),
        decoder_tokens(golden.integers("decoder_input_ids")),
        types(golden.integers("token_type_ids")),
        globals(globals_of(golden)) {
    model.allocate(0);
    load_weights(model, golden.weights(), places);
    take_draws(golden, model);
    if (tokens.empty()) {
      take_features(golden);
    } else {
      const Shape shape = shape_of_tokens(golden, "input_ids");
      lengths = lengths_of(golden.integers("attention_mask"), shape[0], shape[1]);
      batch.batch = shape[0];
      batch.length = shape[1];
      batch.tokens = tokens;
    }
    batch.lengths = lengths;
    batch.token_types = types;
    batch.globals = globals;
    if (translates()) become_source(golden);
    take_goal(golden);
  }

  // What the loss compares with: classes, both ends of an answer, or the weights of a sum.
  void take_goal(const Case& golden) {
    const std::vector<std::int32_t> first = golden.integers("start_positions");
    const std::vector<std::int32_t> last = golden.integers("end_positions");
    for (std::size_t b = 0; b < first.size(); ++b) {
      targets.push_back(first[b]);
      targets.push_back(last[b]);
    }
    if (golden.file().contains("upstream")) values = golden.file().floats("upstream");
    batch.values = values;
    batch.targets = targets;
    if (!first.empty() || !values.empty()) return;
    targets = targets_of(golden.integers("labels"), model.config().family == Family::kDecoder,
                         batch.length);
    ignore_padding();
    batch.targets = targets;
  }

  static ModelConfig config_of(const nlohmann::json& hf, const std::string& mechanism) {
    ModelConfig config = config_from_hugging_face(hf);
    if (!mechanism.empty()) config.attention = mechanism;
    return config;
  }

  static Shape shape_of_tokens(const Case& golden, const std::string& tensor) {
    const Shape shape = golden.file().at(tensor).shape;
    require(shape.size() == 2, "[golden] {} is {}; need [batch, n]", tensor, to_string(shape));
    return shape;
  }

  // Pixels become rows of patches, frames of sound half as many.
  void take_features(const Case& golden) {
    const bool image = golden.file().contains("pixel_values");
    const std::string tensor = image ? "pixel_values" : "input_features";
    const Shape shape = golden.file().at(tensor).shape;
    features = golden.file().floats(tensor);
    batch.batch = shape.at(0);
    batch.length = image ? model.config().max_length : shape.at(2) / 2;
    batch.features = features;
  }

  // Labels of padding do not count.
  void ignore_padding() {
    for (std::size_t b = 0; b < lengths.size() && model.config().loss == "binary"; ++b) {
      for (std::size_t i = static_cast<std::size_t>(lengths[b]); i < batch.length; ++i) {
        targets[b * batch.length + i] = kIgnoredTarget;
      }
    }
  }

  bool translates() const { return model.config().family == Family::kEncoderDecoder; }
  // What was read is the encoder's.
  void become_source(const Case& golden) {
    const Shape shape = shape_of_tokens(golden, "decoder_input_ids");
    batch.source = tokens;
    batch.source_length = batch.length;
    batch.source_lengths = lengths;
    batch.tokens = decoder_tokens;
    batch.length = shape[1];
    decoder_lengths = lengths_of(golden.integers("decoder_attention_mask"), shape[0], shape[1]);
    batch.lengths = decoder_lengths;
  }

  const nlohmann::json& hf;
  std::vector<WeightPlacement> places;
  Model model;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> decoder_tokens;
  std::vector<std::int32_t> types;
  std::vector<std::int32_t> lengths;
  std::vector<std::int32_t> decoder_lengths;
  std::vector<std::int32_t> targets;
  std::vector<std::uint8_t> globals;
  std::vector<float> features;
  std::vector<float> values;
  Batch batch;
  std::vector<History> histories;
};

void train(Loaded& loaded, Comparison& comparison) {
  // The reference's loss is the mean over the targets that count.
  // That of given weights is a sum.
  const bool sum = !loaded.values.empty();
  const auto counted = static_cast<double>(sum ? 1 : loaded.model.loss().count(loaded.batch));
  const auto scale = static_cast<float>(1.0 / counted);
  const LossSum result = loaded.model.forward(loaded.batch, 0, scale, loaded.histories);
  const auto loss = static_cast<float>(result.loss / counted);
  comparison.output("loss64", {&loss, 1});
  loaded.model.backward(loaded.batch, scale);
  std::set<std::string> sources;
  for (const WeightPlacement& place : loaded.places) {
    if (place.second_name || place.source.empty()) continue;
    if (loaded.model.parameters().find(place.parameter)->constant) continue;
    if (!sources.insert(place.source).second) continue;
    comparison.gradient("grad." + place.source,
                        source_gradient(loaded.model, loaded.places, place.source));
  }
}

void run_with(const std::string& mechanism, const Case& golden, Comparison& comparison) {
  Loaded loaded(golden, mechanism);
  const ConstMatrix logits = loaded.model.logits(loaded.batch);
  const bool pools = loaded.model.config().pools();
  comparison.output_rows("logits64", {logits.data, logits.size()}, loaded.batch.length,
                         pools ? std::span<const std::int32_t>{} : loaded.batch.lengths);
  train(loaded, comparison);
}

// The histories that the reference had, [length, batch, width] for each layer.
std::vector<History> histories_of(const Case& golden, const Model& model) {
  const Shape shape = golden.file().at("mems.0").shape;
  std::vector<History> histories = model.make_histories(shape.at(1), shape.at(0));
  for (std::size_t layer = 0; layer < histories.size(); ++layer) {
    const std::vector<float> theirs = golden.file().floats("mems." + std::to_string(layer));
    std::vector<float> ours;
    for (std::size_t b = 0; b < shape[1]; ++b) {
      for (std::size_t i = 0; i < shape[0]; ++i) {
        const auto row =
            theirs.begin() + static_cast<std::ptrdiff_t>((i * shape[1] + b) * shape[2]);
        ours.insert(ours.end(), row, row + static_cast<std::ptrdiff_t>(shape[2]));
      }
    }
    histories[layer].record(ConstMatrix(ours.data(), shape[0] * shape[1], shape[2]));
    histories[layer].advance();
  }
  return histories;
}

// −log p of the next token, for all but the last of each sequence.
std::vector<float> token_losses(ConstMatrix logits, std::span<const std::int32_t> targets) {
  std::vector<float> losses;
  for (std::size_t i = 0; i < logits.rows; ++i) {
    if (targets[i] == kIgnoredTarget) continue;
    double sum = 0.0;
    for (const float x : logits.row(i)) sum += std::exp(static_cast<double>(x));
    losses.push_back(
        static_cast<float>(std::log(sum) - logits.row(i)[static_cast<std::size_t>(targets[i])]));
  }
  return losses;
}

}  // namespace

void run_two_towers(const Case& golden, Comparison& comparison) {
  comparison.begin("own mechanism");
  const nlohmann::json& hf = golden.sidecar().at("hf_config");
  const auto tower = [&](const char* key, const char* architecture) {
    nlohmann::json config = hf.at(key);
    config["projection_dim"] = hf.at("projection_dim");
    config["architectures"] = {architecture};
    return config;
  };
  const nlohmann::json text = tower("text_config", "CLIPTextModelWithProjection");
  const nlohmann::json image = tower("vision_config", "CLIPVisionModelWithProjection");
  TwoTowers towers(
      {.text = config_from_hugging_face(text), .image = config_from_hugging_face(image)});
  towers.allocate(0);
  const SafetensorsFile weights = golden.weights();
  load_weights(towers.text(), weights, placements(text));
  load_weights(towers.image(), weights, placements(image));
  Parameter& log_scale = towers.parameters().all().front();
  log_scale.value[0] = weights.floats("logit_scale").front();

  const std::vector<std::int32_t> tokens = golden.integers("input_ids");
  const std::vector<float> pixels = golden.file().floats("pixel_values");
  const Shape shape = golden.file().at("input_ids").shape;
  const std::vector<std::int32_t> lengths =
      lengths_of(golden.integers("attention_mask"), shape[0], shape[1]);
  Batch texts{.batch = shape[0], .length = shape[1], .tokens = tokens};
  texts.lengths = lengths;
  Batch images{.batch = shape[0], .length = towers.image().config().max_length};
  images.features = pixels;
  const ConstMatrix scores = towers.outputs(texts, images).scores;
  comparison.output("logits64", {scores.data, scores.size()});

  const float scale = 1.0F / static_cast<float>(shape[0]);
  const LossSum result = towers.forward(texts, images, 0, scale);
  const auto loss = static_cast<float>(result.loss / static_cast<double>(result.counted));
  comparison.output("loss64", {&loss, 1});
  towers.backward(texts, images);
  for (const bool of_text : {true, false}) {
    Model& model = of_text ? towers.text() : towers.image();
    const std::vector<WeightPlacement> places = placements(of_text ? text : image);
    for (const WeightPlacement& place : places) {
      comparison.gradient("grad." + place.source, source_gradient(model, places, place.source));
    }
  }
  comparison.gradient("grad.logit_scale", log_scale.gradient);
  comparison.finish();
}

void run_segment_model(const Case& golden, Comparison& comparison) {
  comparison.begin("own mechanism");
  Loaded loaded(golden, "");
  loaded.histories = histories_of(golden, loaded.model);
  comparison.output("logits64", token_losses(loaded.model.logits(loaded.batch, loaded.histories),
                                             loaded.targets));
  train(loaded, comparison);
  comparison.finish();
}

void run_model(const Case& golden, Comparison& comparison) {
  ModelConfig config;
  try {
    config = config_from_hugging_face(golden.sidecar().at("hf_config"));
  } catch (const Error& error) {
    throw Unsupported(error.what());
  }
  if (golden.file().contains("perm_mask")) {
    throw Unsupported("two streams of queries, by which XLNet is trained, are not in this build");
  }
  std::vector<std::string> mechanisms = {""};
  if (config.attention == "flash" && config.decoder_attention.empty())
    mechanisms = {"full", "flash"};
  for (const std::string& mechanism : mechanisms) {
    comparison.begin(mechanism.empty() ? "own mechanism" : mechanism);
    run_with(mechanism, golden, comparison);
    comparison.finish();
  }
}

}  // namespace longspan::golden
