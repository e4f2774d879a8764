#include "longspan/models/config_fields.h"

#include <algorithm>
#include <array>
#include <utility>

#include "longspan/base/config.h"
#include "longspan/models/config.h"

namespace longspan {

namespace {

using Json = nlohmann::json;

std::size_t whole_number(std::string_view key, const Json& value) {
  require(value.is_number_integer() && value >= 0 && value <= ModelLimits::kWidth,
          "[{}] {} is {}; need a whole number from 0 to {}", ConfigFields::kWho, key, value.dump(),
          ModelLimits::kWidth);
  return value.get<std::size_t>();
}

}  // namespace

ConfigFields::ConfigFields(const Json& object) : object_(object) {
  require(object.is_object(), "[{}] the config is {}; need an object", kWho, object.type_name());
}

const Json& ConfigFields::at(const char* key) const {
  require(has(key), "[{}] the config has no {}", kWho, key);
  return object_[key];
}

std::size_t ConfigFields::size(const char* key) const { return whole_number(key, at(key)); }

std::vector<std::size_t> ConfigFields::sizes(const char* key) const {
  const Json& value = at(key);
  std::vector<std::size_t> all;
  for (const Json& one : value.is_array() ? value : Json::array({value})) {
    all.push_back(whole_number(key, one));
  }
  return all;
}

std::size_t ConfigFields::layers(const char* key) const {
  const std::size_t count = size(key);
  require(count <= ModelLimits::kLayers, "[{}] {} is {}; need at most {}", kWho, key, count,
          ModelLimits::kLayers);
  return count;
}

float ConfigFields::number(const char* key, double otherwise) const {
  if (!has(key)) return static_cast<float>(otherwise);
  require(at(key).is_number(), "[{}] {} is {}; need a number", kWho, key, at(key).dump());
  return at(key).get<float>();
}

bool ConfigFields::flag(const char* key, bool otherwise) const {
  if (!has(key)) return otherwise;
  require(at(key).is_boolean(), "[{}] {} is {}; need true or false", kWho, key, at(key).dump());
  return at(key).get<bool>();
}

std::string ConfigFields::text(const char* key, std::string_view otherwise) const {
  if (!has(key)) return std::string(otherwise);
  require(at(key).is_string(), "[{}] {} is {}; need a string", kWho, key, at(key).dump());
  return at(key).get<std::string>();
}

std::int64_t ConfigFields::token(const char* key) const {
  if (!has(key)) return -1;
  require(at(key).is_number_integer(), "[{}] {} is {}; need a token", kWho, key, at(key).dump());
  return std::max<std::int64_t>(-1, at(key).get<std::int64_t>());
}

Activation ConfigFields::activation(const char* key, std::string_view otherwise) const {
  static constexpr std::array<std::pair<std::string_view, Activation>, 9> kKnown = {
      {{"gelu", Activation::kGelu},
       {"gelu_new", Activation::kGeluTanh},
       {"gelu_pytorch_tanh", Activation::kGeluTanh},
       {"quick_gelu", Activation::kQuickGelu},
       {"relu", Activation::kRelu},
       {"relu2", Activation::kRelu2},
       {"silu", Activation::kSilu},
       {"swish", Activation::kSilu},
       {"tanh", Activation::kTanh}}};
  const std::string name = text(key, otherwise);
  std::vector<std::string_view> names;
  for (const auto& [theirs, ours] : kKnown) {
    if (theirs == name) return ours;
    names.push_back(theirs);
  }
  throw_unknown(kWho, key, name, names);
}

std::size_t ConfigFields::classes() const {
  if (!has("id2label")) return size("num_labels", 2);
  require(at("id2label").is_object(), "[{}] id2label is {}; need an object", kWho,
          at("id2label").type_name());
  return at("id2label").size();
}

}  // namespace longspan
