#include "table.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "longspan/report/lines.h"
#include "terminal.h"

namespace longspan::cli {

namespace {

constexpr std::size_t kNarrowest = 24;  // that a text is broken to

std::string padded(const std::string& text, std::size_t width, bool right) {
  const std::string space(width - std::min(width, text_columns(text)), ' ');
  return right ? space + text : text + space;
}

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  return lines;
}

}  // namespace

Table::Table(std::vector<Column> columns, std::size_t indent)
    : columns_(std::move(columns)), indent_(indent) {
  for (Column& column : columns_) {
    column.title = shown(column.title);
    column.group = shown(column.group);
  }
}

void Table::add(Cells cells) {
  cells.resize(columns_.size());
  for (std::string& cell : cells) cell = shown(cell);
  rows_.push_back(std::move(cells));
}

// Behind the neighbours under one group's name.
std::size_t Table::end_of_group(std::size_t column) const {
  const std::string& group = columns_[column].group;
  std::size_t end = column + 1;
  while (!group.empty() && end < columns_.size() && columns_[end].group == group) ++end;
  return end;
}

std::size_t Table::natural(std::size_t column) const {
  // A name over several columns has room enough.
  const std::string& group = columns_[column].group;
  const bool alone =
      end_of_group(column) == column + 1 && (column == 0 || columns_[column - 1].group != group);
  std::size_t width =
      std::max(text_columns(columns_[column].title), alone ? text_columns(group) : 0);
  for (const Cells& row : rows_) width = std::max(width, text_columns(row[column]));
  return width;
}

std::size_t Table::total(const Layout& layout) const {
  return indent_ + layout.gap * (layout.widths.size() - 1) +
         std::accumulate(layout.widths.begin(), layout.widths.end(), std::size_t{0});
}

// Narrows the texts, then the gaps, until the columns fit; says whether they do.
bool Table::fit(Layout& layout, std::size_t width) const {
  layout.gap = 2;
  for (std::size_t i = 0; i < layout.columns.size() && total(layout) > width; ++i) {
    if (!columns_[layout.columns[i]].wraps) continue;
    const std::size_t excess = std::min(layout.widths[i], total(layout) - width);
    layout.widths[i] = std::max(std::min(kNarrowest, layout.widths[i]), layout.widths[i] - excess);
  }
  if (total(layout) > width) layout.gap = 1;
  return total(layout) <= width;
}

std::vector<Table::Layout> Table::layouts(std::size_t width) const {
  std::vector<Layout> parts;
  std::size_t next = 0;
  while (next < columns_.size()) {
    Layout part;
    if (next > 0) part = {{0}, {natural(0)}};
    // As many groups of columns as fit, and at least one beside the first.
    for (const std::size_t before = next; next < columns_.size();) {
      Layout wider = part;
      const std::size_t end = end_of_group(next);
      for (std::size_t i = next; i < end; ++i) {
        wider.columns.push_back(i);
        wider.widths.push_back(natural(i));
      }
      if (Layout narrow = wider; !fit(narrow, width) && next > std::max<std::size_t>(before, 1)) {
        break;
      }
      part = std::move(wider);
      next = end;
    }
    fit(part, width);
    parts.push_back(part);
  }
  return parts;
}

// Over each run of columns with one group its name, in the middle.
std::string Table::groups(const Layout& layout) const {
  std::string line(indent_, ' ');
  for (std::size_t i = 0; i < layout.columns.size();) {
    const std::string& group = columns_[layout.columns[i]].group;
    std::size_t width = layout.widths[i];
    std::size_t end = i + 1;
    while (end < layout.columns.size() && layout.columns[end] < end_of_group(layout.columns[i])) {
      width += layout.gap + layout.widths[end++];
    }
    const std::size_t left = (width - std::min(width, text_columns(group))) / 2;
    line += std::string(i == 0 ? 0 : layout.gap, ' ') +
            padded(std::string(left, ' ') + group, width, false);
    i = end;
  }
  return trimmed(line);
}

std::string Table::line(const Layout& layout, const Cells& cells) const {
  std::vector<std::vector<std::string>> pieces;
  std::size_t height = 1;
  for (std::size_t i = 0; i < layout.columns.size(); ++i) {
    pieces.push_back(lines_of(broken(cells[layout.columns[i]], layout.widths[i], 0)));
    height = std::max(height, pieces.back().size());
  }
  std::string out;
  for (std::size_t row = 0; row < height; ++row) {
    std::string line(indent_, ' ');
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const std::string piece = row < pieces[i].size() ? pieces[i][row] : "";
      line += std::string(i == 0 ? 0 : layout.gap, ' ') +
              padded(piece, layout.widths[i], columns_[layout.columns[i]].right);
    }
    out += trimmed(line);
  }
  return out;
}

std::string Table::text(std::size_t width) const {
  std::string out;
  Cells titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  const bool titled = std::ranges::any_of(titles, [](const auto& title) { return !title.empty(); });
  const bool grouped =
      std::ranges::any_of(columns_, [](const Column& c) { return !c.group.empty(); });
  for (const Layout& layout : layouts(width)) {
    if (grouped) out += groups(layout);
    if (titled) out += line(layout, titles);
    for (const Cells& row : rows_) out += line(layout, row);
  }
  return out;
}

void Table::print() const { fmt::print("{}", text(terminal_width(STDOUT_FILENO))); }

}  // namespace longspan::cli
