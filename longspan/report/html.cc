#include "longspan/report/html.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "longspan/base/memory.h"

namespace longspan {

namespace {

// Three digits that count, without an exponent: 0.0123, 1.23, 123, 1234.
std::string significant(double value) {
  const double size = std::abs(value);
  const int before = size < 1.0 ? 1 : static_cast<int>(std::floor(std::log10(size))) + 1;
  return fmt::format("{:.{}f}", value, std::max(0, 3 - before));
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string script_json(const nlohmann::json& json) {
  std::string out;
  for (const char c : json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string seconds_text(double seconds) {
  constexpr std::array<std::pair<double, std::string_view>, 4> kUnits = {
      {{1.0, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}}};
  if (seconds >= 99.95) {
    const auto whole = static_cast<long long>(std::llround(seconds));
    return fmt::format("{} min {} s", whole / 60, whole % 60);
  }
  for (const auto& [size, unit] : kUnits) {
    // 0.9996 ms rounds to 1.00 ms.
    if (seconds >= 0.9995 * size) return fmt::format("{} {}", significant(seconds / size), unit);
  }
  return seconds == 0.0 ? "0 s" : fmt::format("{:.2e} s", seconds);
}

std::string ratio_text(double ratio) {
  if (ratio == 0.0) return "0";
  return std::abs(ratio) < 1e-3 ? fmt::format("{:.2e}", ratio) : fmt::format("{:.3g}", ratio);
}

std::string percent_text(double ratio) { return fmt::format("{:.1f} %", 100.0 * ratio); }

std::string count_text(double count) {
  const std::string digits = fmt::format("{:.0f}", std::abs(count));
  std::string text = count < 0.0 ? "-" : "";
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string bytes_text(double bytes) {
  return format_bytes(static_cast<std::uint64_t>(std::llround(bytes)));
}

std::string number(std::optional<double> value, NumberText text) {
  if (!value) return "–";
  return fmt::format("<data value=\"{}\">{}</data>", *value, text(*value));
}

HtmlTable::HtmlTable(std::string_view id, std::string_view caption,
                     const std::vector<std::string>& headers) {
  html_ = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">"
      "<table id=\"{1}\"><caption>{0}</caption>\n<thead><tr>",
      escape_html(caption), id);
  for (const std::string& header : headers) {
    html_ += fmt::format("<th scope=\"col\">{}</th>", escape_html(header));
  }
  html_ += "</tr></thead>\n<tbody>\n";
}

void HtmlTable::row(const std::vector<std::string>& cells) {
  ++rows_;
  html_ += "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    html_ += i == 0 ? "<th scope=\"row\">" + cells[i] + "</th>" : "<td>" + cells[i] + "</td>";
  }
  html_ += "</tr>\n";
}

std::string HtmlTable::finish() && {
  if (rows_ == 0) return "<p class=\"none\">None.</p>";
  html_ += "</tbody></table></div>";
  return std::move(html_);
}

}  // namespace longspan
