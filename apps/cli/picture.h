// A square picture of attention: which query sees which key, coloured by reason.
//
// A cell is a pair of tokens. Where there are more tokens than cells, a cell stands for a square of
// pairs and shows the first of them: the picture is sampled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace longspan::cli {

// How much a query takes from a key, where that is known.
enum class Weight : std::uint8_t {
  kUnknown,
  kBelow,  // the mean of what the query sees
  kAbove,
};

class Picture {
 public:
  struct Cell {
    std::uint8_t reason = 0;  // 0: not seen, or 1 + an index of reasons
    Weight weight = Weight::kUnknown;
    // NOLINTNEXTLINE(modernize-use-nullptr): it is not there.
    auto operator<=>(const Cell&) const = default;
  };
  // Neighbouring cells of a row that are the same.
  struct Run {
    std::size_t begin, end;
    Cell cell;
  };

  Picture(std::string title, std::size_t tokens, std::size_t cells);

  // An empty reason: the query of row i does not see the key of column j.
  void set(std::size_t i, std::size_t j, std::string_view reason, Weight weight = Weight::kUnknown);

  const std::string& title() const { return title_; }
  std::size_t tokens() const { return tokens_; }
  std::size_t cells() const { return cells_; }
  bool sampled() const { return cells_ < tokens_; }
  // The first token of a row or column, and behind the last.
  std::size_t token(std::size_t cell) const;
  Cell cell(std::size_t i, std::size_t j) const { return grid_[i * cells_ + j]; }
  std::string_view reason(Cell cell) const { return reasons_[cell.reason - 1U]; }

  // Of the cells that are seen.
  std::vector<Run> runs(std::size_t i) const;
  std::map<Cell, std::size_t> counts() const;
  // "full, above the mean: 1203 of 4096 pairs (29.4 %)"
  std::string legend(Cell cell, std::size_t count) const;
  // What there is to say of how it was made; empty: nothing.
  std::string sampling() const;

  // Rows of letters or colours, then the legend.
  std::string text(bool colours) const;
  std::string svg() const;
  std::string png() const;

 private:
  std::string title_;
  std::size_t tokens_;
  std::size_t cells_;
  std::vector<Cell> grid_;
  std::vector<std::string> reasons_;  // in order of appearance
};

struct CellColour {
  std::uint8_t red = 0, green = 0, blue = 0;
  bool operator==(const CellColour&) const = default;
};
CellColour colour_of(std::string_view reason, Weight weight);

}  // namespace longspan::cli
