#include "progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "command.h"

namespace longspan::cli {

namespace {
constexpr std::chrono::milliseconds kTerminalPause{100};
constexpr std::chrono::seconds kLogPause{10};
constexpr std::uint64_t kBarWidth = 20;
}  // namespace

Progress::Progress(std::uint64_t total, std::uint64_t done, bool quiet)
    : total_(total), first_(done), quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() { clear_line(); }

void Progress::clear_line() {
  if (line_open_) fmt::print(stderr, "\r\033[K");
  line_open_ = false;
}

void Progress::update(std::uint64_t done, const std::string& text) {
  if (quiet_) return;
  const auto now = Clock::now();
  if (done < total_ && shown_ != Clock::time_point{} &&
      now - shown_ < (terminal_ ? Clock::duration(kTerminalPause) : Clock::duration(kLogPause))) {
    return;
  }
  shown_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const auto made = static_cast<double>(std::max<std::uint64_t>(1, done - first_));
  const double eta = elapsed / made * static_cast<double>(total_ - std::min(done, total_));
  const std::string line =
      fmt::format("step {}/{}  {}  ETA {}", done, total_, text, human_seconds(eta));
  if (terminal_) {
    const std::uint64_t filled =
        total_ == 0 ? kBarWidth : std::min(kBarWidth, kBarWidth * done / total_);
    fmt::print(stderr, "\r\033[K[{:█<{}}{:·<{}}] {}", "", filled, "", kBarWidth - filled, line);
    std::fflush(stderr);
    line_open_ = true;
  } else {
    fmt::print(stderr, "{}\n", line);
  }
}

void Progress::note(const std::string& text) {
  if (quiet_) return;
  clear_line();
  fmt::print(stderr, "{}\n", text);
}

}  // namespace longspan::cli
