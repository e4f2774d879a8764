// The fields of somebody else's config.json: each is what it should be, or an error says so.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/kernels/rows/activation.h"

namespace longspan {

class ConfigFields {
 public:
  static constexpr std::string_view kWho = "pretrained";  // whose errors these are

  explicit ConfigFields(const nlohmann::json& object);

  // Null counts as missing.
  bool has(const char* key) const { return object_.contains(key) && !object_[key].is_null(); }
  const nlohmann::json& at(const char* key) const;

  std::size_t size(const char* key) const;
  std::size_t size(const char* key, std::size_t otherwise) const {
    return has(key) ? size(key) : otherwise;
  }
  // A number, or a list of them.
  std::vector<std::size_t> sizes(const char* key) const;
  std::size_t layers(const char* key) const;
  float number(const char* key, double otherwise) const;
  bool flag(const char* key, bool otherwise) const;
  std::string text(const char* key, std::string_view otherwise) const;
  // Token ids below 0 mean none.
  std::int64_t token(const char* key) const;
  // By our name.
  Activation activation(const char* key, std::string_view otherwise) const;
  std::size_t classes() const;
  // What our model does not have.
  void refuse(bool asked, std::string_view what) const {
    require(!asked, "[{}] the config asks for {}, which this model does not have", kWho, what);
  }

 private:
  const nlohmann::json& object_;
};

}  // namespace longspan
