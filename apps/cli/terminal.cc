#include "terminal.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "longspan/report/lines.h"

namespace longspan::cli {

namespace {

constexpr std::size_t kLeastWidth = 20;
constexpr std::size_t kMostWidth = 1000;

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 85> kSigns = {{
    {"·", "*"},      {"−", "-"},     {"–", "-"},     {"…", "..."},   {"×", "x"},
    {"÷", "/"},      {"≈", "~"},     {"∝", "~"},     {"≤", "<="},    {"≥", ">="},
    {"≠", "!="},     {"±", "+-"},    {"∓", "-+"},    {"→", "->"},    {"←", "<-"},
    {"↔", "<->"},    {"⇔", "<=>"},   {"✓", "yes"},   {"✗", "no"},    {"√", "sqrt "},
    {"Σ", "sum "},   {"∂", "d"},     {"∇", "grad "}, {"∞", "inf"},   {"∈", "in"},
    {"∘", "o"},      {"⊙", "*"},     {"‖", "||"},    {"⌈", "ceil("}, {"⌉", ")"},
    {"⌊", "floor("}, {"⌋", ")"},     {"ℓ", "l"},     {"′", "'"},     {"ᵀ", "^T"},
    {"½", "1/2"},    {"¼", "1/4"},   {"¾", "3/4"},   {"⅛", "1/8"},   {"⁰", "^0"},
    {"¹", "^1"},     {"²", "^2"},    {"³", "^3"},    {"⁴", "^4"},    {"⁵", "^5"},
    {"⁶", "^6"},     {"⁷", "^7"},    {"⁸", "^8"},    {"⁹", "^9"},    {"⁻", "^-"},
    {"₀", "0"},      {"₁", "1"},     {"₂", "2"},     {"₃", "3"},     {"̂", "^"},
    {"̄", "'"},       {"α", "alpha"}, {"β", "beta"},  {"γ", "gamma"}, {"δ", "delta"},
    {"Δ", "Delta"},  {"ε", "eps"},   {"η", "eta"},   {"θ", "theta"}, {"κ", "kappa"},
    {"λ", "lambda"}, {"µ", "u"},     {"μ", "mu"},    {"π", "pi"},    {"ρ", "rho"},
    {"σ", "sigma"},  {"τ", "tau"},   {"φ", "phi"},   {"Φ", "Phi"},   {"χ", "chi"},
    {"ω", "omega"},  {"Ω", "Omega"}, {"é", "e"},     {"€", "EUR"},   {"█", "#"},
    {"─", "-"},      {"│", "|"},     {"└", "+"},     {"┬", "+"},     {"┘", "+"},
}};

}  // namespace

std::size_t terminal_width(int stream) {
  const std::string_view columns = environment("COLUMNS");
  std::size_t width = 0;
  const auto read = std::from_chars(columns.data(), columns.data() + columns.size(), width);
  if (read.ec != std::errc() || read.ptr != columns.data() + columns.size()) width = 0;
  winsize size{};
  if (width == 0 && ::ioctl(stream, TIOCGWINSZ, &size) == 0) width = size.ws_col;
  return width == 0 ? kUsualColumns : std::clamp(width, kLeastWidth, kMostWidth);
}

bool has_unicode() {
  std::string locale;
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (locale.empty()) locale = environment(name);
  }
  std::ranges::transform(locale, locale.begin(), [](unsigned char c) { return std::tolower(c); });
  return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
}

bool has_colours(int stream) {
  return environment("NO_COLOR").empty() && environment("TERM") != "dumb" && ::isatty(stream) != 0;
}

std::string in_ascii(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view letter = text.substr(0, size_of_letter(text));
    const auto sign =
        std::ranges::find(kSigns, letter, [](const auto& pair) { return pair.first; });
    out += letter.size() == 1 || sign == kSigns.end() ? letter : sign->second;
    text.remove_prefix(letter.size());
  }
  return out;
}

std::string shown(std::string_view text) {
  static const bool unicode = has_unicode();
  return unicode ? std::string(text) : in_ascii(text);
}

std::string as_command(std::string_view line, std::size_t width, std::size_t indent) {
  constexpr std::string_view kGoesOn = " \\";
  std::string lines = text_columns(line) <= width ? std::string(line)
                                                  : broken(line, width - kGoesOn.size(), indent);
  for (std::size_t i = 0; (i = lines.find('\n', i)) != std::string::npos; i += kGoesOn.size() + 1) {
    lines.insert(i, kGoesOn);
  }
  return lines;
}

std::string fitted(std::string_view text, std::size_t width) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    // Behind the last gap of the line, where an explanation begins.
    const std::size_t gap = line.rfind("  ");
    const std::size_t indent =
        gap == std::string_view::npos ? 0 : text_columns(line.substr(0, gap + 2));
    const std::size_t start = std::min(line.find_first_not_of(' '), line.size());
    if (line.substr(start).starts_with("longspan ")) {
      out += as_command(line, width, start + 2) + '\n';
    } else {
      out += broken(line, width, std::min(indent, width / 2)) + '\n';
    }
  }
  return out;
}

void print_wrapped(std::string_view head, std::string_view text) {
  const std::string start = shown(head);
  const std::size_t indent = text_columns(start);
  fmt::print("{}{}\n", start, broken(shown(text), terminal_width(STDOUT_FILENO), indent, indent));
}

}  // namespace longspan::cli
