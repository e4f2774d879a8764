#include "longspan/models/config.h"

#include <array>
#include <string_view>

#include "longspan/base/config.h"

namespace longspan {

namespace {

void check_choice(std::string_view what, std::string_view value,
                  std::initializer_list<std::string_view> known) {
  for (const auto k : known) {
    if (k == value) return;
  }
  throw_unknown("model", what, value, known);
}

void check_positive(std::string_view what, std::size_t value) {
  require(value > 0, "[model] {} is 0; need at least 1", what);
}

}  // namespace

void check(const ModelConfig& c) {
  check_choice("family", c.family, {"encoder", "decoder", "encoder-decoder"});
  check_choice("head", c.head, {"lm", "classifier"});
  check_choice("norm", c.norm, {"layer", "rms"});
  check_choice("pool", c.pool, {"first", "mean"});
  check_positive("layers", c.layers);
  check_positive("d_model", c.d_model);
  check_positive("heads", c.heads);
  check_positive("vocab", c.vocab);
  check_positive("max_length", c.max_length);
  if (c.family == "encoder-decoder") check_positive("decoder_layers", c.decoder_layers);
  if (c.head == "classifier") check_positive("classes", c.classes);
  require(c.head == "lm" || c.family == "encoder",
          "[model] a classifier head on a {}; need an encoder", c.family);
  require(c.d_model % c.heads == 0,
          "[model] width {} does not divide into {} heads; need a multiple", c.d_model, c.heads);
  require(c.kv_heads == 0 || c.heads % c.kv_heads == 0,
          "[model] {} heads cannot share {} key-value heads; need a divisor", c.heads, c.kv_heads);
  require(c.dropout >= 0.0F && c.dropout < 1.0F, "[model] dropout is {}; need 0 ≤ dropout < 1",
          c.dropout);
  require(c.norm_epsilon > 0.0F, "[model] norm_epsilon is {}; need a positive number",
          c.norm_epsilon);
}

}  // namespace longspan
