// JSON with integers of 128 bits: counts may need more than 64 and are printed digit by digit.
#pragma once

#include <fmt/core.h>

#include <cmath>
#include <concepts>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "longspan/cost/formula.h"

namespace longspan::cli {

// Writes values one after the other; commas and braces follow from the calls.
class JsonWriter {
 public:
  void open(char bracket) {
    separate();
    text_ += bracket;
    closers_.push_back(bracket == '{' ? '}' : ']');
    first_ = true;
  }
  void close() {
    text_ += closers_.back();
    closers_.pop_back();
    first_ = false;
  }
  void key(std::string_view name) {
    separate();
    text_ += quoted(name) + ": ";
    first_ = true;  // no comma before the value
  }
  template <class T>
  void value(const T& value) {
    separate();
    if constexpr (std::same_as<T, bool>) {
      text_ += value ? "true" : "false";
    } else if constexpr (std::integral<T> || std::same_as<T, Integer>) {
      text_ += to_decimal(static_cast<Integer>(value));
    } else if constexpr (std::floating_point<T>) {
      text_ += std::isfinite(value) ? fmt::format("{}", value) : "null";
    } else if constexpr (requires { value.name(); }) {
      text_ += quoted(value.name());
    } else {
      text_ += quoted(value);
    }
  }
  void null() {
    separate();
    text_ += "null";
  }
  template <class T>
  void field(std::string_view name, const T& what) {
    key(name);
    value(what);
  }
  void count(std::string_view name, const CountValue& what) {
    key(name);
    open('{');
    field("maccs", what.maccs);
    field("flops", what.flops);
    close();
  }
  const std::string& text() const { return text_; }

 private:
  static std::string quoted(std::string_view text) { return nlohmann::json(text).dump(); }
  void separate() {
    if (!first_) text_ += ", ";
    first_ = false;
  }

  std::string text_;
  std::string closers_;
  bool first_ = true;
};

}  // namespace longspan::cli
