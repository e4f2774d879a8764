// A square picture of attention: which query sees which key, coloured by reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace longspan::cli {

class Picture {
 public:
  explicit Picture(std::size_t length) : length_(length), cells_(length * length, 0) {}

  // An empty reason: query i does not see key j.
  void set(std::size_t i, std::size_t j, std::string_view reason);

  // Neighbouring keys of query i with one reason.
  struct Run {
    std::size_t begin, end;
    std::string reason;
  };
  std::vector<Run> runs(std::size_t i) const;
  std::map<std::string, std::size_t> counts() const;  // pairs by reason

  std::string text(bool colours) const;
  std::string svg(std::string_view title) const;
  std::string png() const;

 private:
  std::string_view reason(std::size_t i, std::size_t j) const;

  std::size_t length_;
  std::vector<std::uint8_t> cells_;   // 0, or 1 + an index of reasons_
  std::vector<std::string> reasons_;  // in order of appearance
};

}  // namespace longspan::cli
