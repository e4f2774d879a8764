// Where the examples of a task come from: files, or a generator where none are given.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

#include "longspan/base/number.h"

namespace longspan {

struct ExampleSource {
  std::string data;
  std::size_t examples = 20000;
  std::size_t held_out = 2000;
  std::size_t data_seed = 0;

  bool operator==(const ExampleSource&) const = default;
  // `files` says what --data names.
  template <class See>
  void visit(See& see, std::string_view files) {
    see("data", data, files);
    see("examples", examples, "Examples to draw for training", from_to(1, 1e8));
    see("held_out", held_out, "And for validation and test, each", from_to(1, 1e7));
    see("data_seed", data_seed, "Draws other examples", from_to(0, 1e18));
  }

  bool drawn() const { return data.empty(); }
  // Why `option` says nothing here; all but --data and `read` are about drawing.
  std::string_view idle(std::string_view option,
                        std::initializer_list<std::string_view> read) const {
    const bool is_read = option == "data" || std::ranges::find(read, option) != read.end();
    return drawn() || is_read ? "" : "--data, which is not drawn; need one of them";
  }
};

}  // namespace longspan
