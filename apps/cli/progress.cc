#include "progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "command.h"
#include "longspan/report/lines.h"
#include "terminal.h"

namespace longspan::cli {

namespace {
constexpr std::chrono::milliseconds kTerminalPause{100};
constexpr std::chrono::seconds kLogPause{10};
constexpr std::size_t kBarWidth = 20;

std::string bar(double share) {
  const bool unicode = has_unicode();
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(kBarWidth));
  std::string text = "[";
  for (std::size_t i = 0; i < kBarWidth; ++i) {
    const bool done = i < filled;
    text += unicode ? (done ? "█" : "·") : (done ? "#" : ".");
  }
  return text + "] ";
}

// As much of the text as so many columns have room for.
std::string beginning(const std::string& text, std::size_t columns) {
  const std::string line = shown(text);
  std::size_t end = line.size();
  while (text_columns(line.substr(0, end)) > columns || line.substr(0, end).ends_with(' ')) --end;
  return line.substr(0, end);
}
}  // namespace

Progress::Progress(std::uint64_t total, std::uint64_t done, bool quiet)
    : total_(total), first_(done), quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() { clear_line(); }

void Progress::clear_line() {
  if (line_open_) fmt::print(stderr, "\r\033[K");
  line_open_ = false;
}

bool Progress::due(bool last) {
  if (quiet_) return false;
  const auto now = Clock::now();
  const auto pause = terminal_ ? Clock::duration(kTerminalPause) : Clock::duration(kLogPause);
  const bool at_once = (last && !ended_) || shown_ == Clock::time_point{};
  if (!at_once && now - shown_ < pause) return false;
  ended_ = last;
  shown_ = now;
  return true;
}

void Progress::show(double share, double eta, const std::string& text) {
  const std::string line = fmt::format("{}  ETA {}", text, human_seconds(eta));
  if (!terminal_) return fmt::print(stderr, "{}\n", line);
  // The last column stays empty: some terminals break the line when it is written to.
  const std::size_t width = terminal_width(STDERR_FILENO) - 1;
  const std::string whole = bar(share) + line;
  fmt::print(stderr, "\r\033[K{}", text_columns(whole) <= width ? whole : beginning(line, width));
  std::fflush(stderr);
  line_open_ = true;
}

void Progress::update(std::uint64_t done, const std::string& text) {
  if (!due(done >= total_)) return;
  const double elapsed = std::chrono::duration<double>(shown_ - start_).count();
  const auto made = static_cast<double>(std::max<std::uint64_t>(1, done - first_));
  const double eta = elapsed / made * static_cast<double>(total_ - std::min(done, total_));
  const double share =
      total_ == 0 ? 1.0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
  show(share, eta, fmt::format("step {}/{}  {}", done, total_, text));
}

void Progress::update_share(double share, double eta, const std::string& text) {
  if (due(share >= 1.0)) show(share, eta, fmt::format("{:>3.0f} %  {}", 100.0 * share, text));
}

void Progress::note(const std::string& text) {
  if (quiet_) return;
  clear_line();
  fmt::print(stderr, "{}\n", text);
}

}  // namespace longspan::cli
