#include "longspan/models/families/rope.h"

#include <fmt/format.h>

#include <cmath>

#include "longspan/base/config.h"

namespace longspan {

namespace {

std::string kind_of(const ConfigFields& scaling) {
  if (scaling.has("rope_type")) {
    scaling.pass_over({"type"});
    return scaling.text("rope_type", "default");
  }
  return scaling.text("type", "default");
}

std::string list_of(const ConfigFields& scaling, const char* key) {
  return fmt::format("{}", fmt::join(scaling.numbers(key), ";"));
}

// 0.1·x·ln s + 1
double yarn_magnitude(double factor, double x) {
  return factor <= 1.0 ? 1.0 : 0.1 * x * std::log(factor) + 1.0;
}

// What cosines and sines are multiplied by, where the config says; else 0.
double yarn_attention(const ConfigFields& s, double factor) {
  const double given = s.exact_number("attention_factor", 0.0);
  const double mscale = s.exact_number("mscale", 0.0);
  const double all = s.exact_number("mscale_all_dim", 0.0);
  if (given > 0.0) return given;
  if (mscale > 0.0 && all > 0.0)
    return yarn_magnitude(factor, mscale) / yarn_magnitude(factor, all);
  return 0.0;
}

std::string yarn(const ConfigFields& s, std::size_t before) {
  const double factor = s.exact_number("factor", 1.0);
  std::string options =
      fmt::format("scaling=yarn,factor={},original={},fast={},slow={}", factor,
                  s.size("original_max_position_embeddings", before),
                  s.exact_number("beta_fast", 32.0), s.exact_number("beta_slow", 1.0));
  if (!s.flag("truncate", true)) options += ",truncate=false";
  const double attention = yarn_attention(s, factor);
  if (attention > 0.0) options += fmt::format(",attention={}", attention);
  s.pass_over({"finetuned"});
  return options;
}

}  // namespace

std::string with_option(const std::string& options, const std::string& option) {
  if (options.empty() || option.empty()) return options + option;
  return options + "," + option;
}

std::string rotary_scaling(const ConfigFields& s, std::size_t length, std::size_t before) {
  const std::string kind = kind_of(s);
  if (kind == "default") return "";
  if (kind == "linear") {
    return fmt::format("scaling=linear,factor={}", s.exact_number("factor", 1.0));
  }
  if (kind == "dynamic") {
    s.pass_over({"original_max_position_embeddings"});  // what the model takes decides
    return fmt::format("scaling=dynamic,factor={},original={}", s.exact_number("factor", 1.0),
                       length);
  }
  if (kind == "yarn") return yarn(s, before);
  if (kind == "llama3") {
    return fmt::format("scaling=llama3,factor={},original={},low={},high={}",
                       s.exact_number("factor", 1.0), s.size("original_max_position_embeddings"),
                       s.exact_number("low_freq_factor", 1.0),
                       s.exact_number("high_freq_factor", 4.0));
  }
  if (kind == "longrope" || kind == "su") {
    const std::size_t original = s.size("original_max_position_embeddings", before);
    const double ratio = static_cast<double>(length) / static_cast<double>(original);
    const double factor = original != length ? ratio : s.exact_number("factor", 1.0);
    s.pass_over({"factor"});
    std::string options =
        fmt::format("scaling=longrope,factor={},original={},short={},long={}", factor, original,
                    list_of(s, "short_factor"), list_of(s, "long_factor"));
    const double attention = s.exact_number("attention_factor", 0.0);
    return attention > 0.0 ? options + fmt::format(",attention={}", attention) : options;
  }
  throw_unknown(ConfigFields::kWho, "rope_scaling", kind,
                {"default", "linear", "dynamic", "yarn", "llama3", "longrope"});
}

std::string rotary_width(const ModelConfig& c, std::size_t channels) {
  return channels == head_width_of(c) ? "" : fmt::format("width={}", channels);
}

void set_rotary(const ConfigFields& f, const RopeDefaults& defaults, ModelConfig& c) {
  c.positions = PositionKind::kRotary;
  c.rotary_interleaved = defaults.interleaved;
  double base = f.exact_number("rope_theta", defaults.base);
  double share = f.exact_number("partial_rotary_factor", defaults.share);
  std::string scaling;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!f.has(key)) continue;
    const ConfigFields s = f.inside(key);
    base = s.exact_number("rope_theta", base);
    share = s.exact_number("partial_rotary_factor", share);
    scaling =
        rotary_scaling(s, c.max_length, defaults.original == 0 ? c.max_length : defaults.original);
  }
  c.rotary_base = static_cast<float>(base);
  const auto channels = static_cast<std::size_t>(static_cast<double>(head_width_of(c)) * share);
  c.rotary = with_option(rotary_width(c, channels), scaling);
}

}  // namespace longspan
