// Pieces of HTML: text that is safe inside it, numbers with their exact value, tables.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

// & < > " ' as entities: safe in text and in quoted attributes.
std::string escape_html(std::string_view text);

// JSON inside a <script>: nothing in it can end the element or open a comment.
std::string script_json(const nlohmann::json& json);

// "453 µs", "12.3 ms", "1.23 s", "2 min 5 s": three digits that count.
std::string seconds_text(double seconds);
// "0.0123", "2.40e-07"
std::string ratio_text(double ratio);
// "4.9 %"
std::string percent_text(double ratio);
// "65,536"
std::string count_text(double count);
std::string bytes_text(double bytes);

using NumberText = std::string (*)(double);

// <data value="0.0123">12.3 ms</data>: the exact value for programs, the rounded one for people. An
// en dash where it is not known.
std::string number(std::optional<double> value, NumberText text);

// A table with a caption, in a box that scrolls. Cells are HTML; the first of a row is its header.
class HtmlTable {
 public:
  // `id` names the table; `headers` are text.
  HtmlTable(std::string_view id, std::string_view caption, const std::vector<std::string>& headers);
  // `cells` are HTML.
  void row(const std::vector<std::string>& cells);
  // "None." where there is no row. Nothing may be added after.
  std::string finish() &&;

 private:
  std::string html_;
  std::size_t rows_ = 0;
};

}  // namespace longspan
