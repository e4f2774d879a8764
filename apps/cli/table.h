// A table that fits its reader's terminal.
//
// Where its columns do not fit side by side, the text of one that wraps is broken into lines; where
// that is not enough, the table is printed in parts, each with the first column again.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace longspan::cli {

class Table {
 public:
  struct Column {
    std::string title;
    bool right = false;  // aligned there, as numbers are
    bool wraps = false;
    std::string group = {};  // stands over neighbours that have the same
  };
  using Cells = std::vector<std::string>;

  explicit Table(std::vector<Column> columns, std::size_t indent = 0);
  // A missing cell is empty.
  void add(Cells cells);
  std::string text(std::size_t width) const;
  // At the width of the terminal.
  void print() const;

 private:
  struct Layout {
    std::vector<std::size_t> columns;  // which, in order
    std::vector<std::size_t> widths;   // of these
    std::size_t gap = 2;
  };
  std::size_t end_of_group(std::size_t column) const;
  std::size_t natural(std::size_t column) const;
  std::size_t total(const Layout& layout) const;
  std::vector<Layout> layouts(std::size_t width) const;
  bool fit(Layout& layout, std::size_t width) const;
  std::string groups(const Layout& layout) const;
  std::string line(const Layout& layout, const Cells& cells) const;

  std::vector<Column> columns_;
  std::vector<Cells> rows_;
  std::size_t indent_;
};

}  // namespace longspan::cli
