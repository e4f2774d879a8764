// What the reader's terminal can show: its width, its letters, its colours.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace longspan::cli {

// Columns: COLUMNS, the terminal's behind the stream, 80 when neither is known.
std::size_t terminal_width(int stream);

// Whether the locale (LC_ALL, LC_CTYPE or LANG) has letters beyond ASCII.
bool has_unicode();

// On a terminal, and not refused by NO_COLOR.
bool has_colours(int stream);

// The signs of this program, in ASCII: ≤ becomes <=. What it does not know, names of files for
// instance, stays as it is.
std::string in_ascii(std::string_view text);

// As the terminal can show it: in_ascii() where it has no more.
std::string shown(std::string_view text);

// A command to be typed, broken so that a shell still takes it as one.
std::string as_command(std::string_view line, std::size_t width, std::size_t indent);

// Text whose lines are too long, broken behind the column of their explanations: what --help says.
std::string fitted(std::string_view text, std::size_t width);

// Prints `text` behind `head`, broken at the terminal's width and aligned behind the head.
void print_wrapped(std::string_view head, std::string_view text);

}  // namespace longspan::cli
