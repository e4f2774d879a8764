// A live line on stderr: rewritten in place on a terminal, a line now and then elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace longspan::cli {

class Progress {
 public:
  // `total` steps, `done` of which lie behind already.
  Progress(std::uint64_t total, std::uint64_t done, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows "step 120/2000 …text… ETA 1:23" when enough time has passed since the last one.
  void update(std::uint64_t done, const std::string& text);
  // The same of work that is not in equal steps: "42 %  …text…  ETA 1:23".
  void update_share(double share, double eta, const std::string& text);
  // A line that stays.
  void note(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;
  void clear_line();
  bool due(bool last);
  void show(double share, double eta, const std::string& line);

  std::uint64_t total_;
  std::uint64_t first_;
  bool quiet_;
  bool terminal_;
  bool line_open_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_{};
  bool ended_ = false;  // the end was shown, and is not at once again
};

}  // namespace longspan::cli
