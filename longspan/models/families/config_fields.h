// The fields of somebody else's config.json: each is what it should be, or an error says so.
//
// What nobody reads is not passed over: a field that is not known to change nothing may change the
// model, and the config is refused by its name.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
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
  bool has(const char* key) const {
    read_->insert(path_ + key);
    return object_->contains(key) && !(*object_)[key].is_null();
  }
  // Not even as null.
  bool absent(const char* key) const {
    has(key);
    return !object_->contains(key);
  }
  const nlohmann::json& at(const char* key) const;
  // The fields of an object among them.
  ConfigFields inside(const char* key) const;

  std::size_t size(const char* key) const;
  std::size_t size(const char* key, std::size_t otherwise) const {
    return has(key) ? size(key) : otherwise;
  }
  // 1 or more.
  std::size_t positive(const char* key) const;
  std::size_t positive(const char* key, std::size_t otherwise) const {
    return has(key) ? positive(key) : otherwise;
  }
  // Null means 0, and no field at all something else.
  std::size_t size_or_none(const char* key, std::size_t absent_means) const {
    return absent(key) ? absent_means : size(key, 0);
  }
  // By either of two names, the first of which is preferred.
  std::size_t size_of(const char* one, const char* other) const {
    pass_over({one, other});
    return has(one) ? size(one) : size(other);
  }
  // A number, or a list of them.
  std::vector<std::size_t> sizes(const char* key) const;
  std::vector<std::string> texts(const char* key) const;
  std::vector<double> numbers(const char* key) const;
  std::size_t layers(const char* key) const;
  float number(const char* key, double otherwise) const {
    return static_cast<float>(exact_number(key, otherwise));
  }
  double exact_number(const char* key, double otherwise) const;
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

  // Fields that change nothing of what this model computes or costs.
  void pass_over(std::initializer_list<const char*> keys) const;
  // Throws Error with the name of a field that nobody read.
  void require_all_read() const;
  // Those that were passed over, and are there.
  std::vector<std::string> passed_over() const;

 private:
  ConfigFields(const ConfigFields& outer, const nlohmann::json& object, std::string path)
      : object_(&object), path_(std::move(path)), read_(outer.read_), passed_(outer.passed_) {}
  template <class See>
  void for_each(const nlohmann::json& object, const std::string& path, See see) const;

  const nlohmann::json* object_;
  std::string path_;  // "rope_scaling." of an object among them
  std::shared_ptr<std::set<std::string>> read_ = std::make_shared<std::set<std::string>>();
  std::shared_ptr<std::set<std::string>> passed_ = std::make_shared<std::set<std::string>>();
};

}  // namespace longspan
