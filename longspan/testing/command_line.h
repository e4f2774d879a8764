// Runs the built command line as a user would, and reads what it says.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "longspan/testing/temporary_directory.h"

namespace longspan::testing {

struct Outcome {
  int status = -1;  // exit code, or 128 + signal
  std::string out;
  std::string err;
  double cpu_seconds = 0.0;  // that it took, however busy the machine was
};

struct RunOptions {
  long file_limit = -1;    // largest file the program may write, in bytes: a full disk
  long memory_limit = -1;  // of its address space, in bytes
  // Where a stream goes instead of being read: a path, or kClosed.
  std::string out = {};
  std::string err = {};
  std::string directory = {};  // where it starts
  unsigned seconds = 0;        // after which it is ended by SIGALRM
  // Beside the tests' own, where the locale has UTF-8 and the terminal is unknown.
  std::vector<std::pair<std::string, std::string>> environment = {};
};
inline const std::string kClosed = "closed";

class Process {
 public:
  explicit Process(const std::vector<std::string>& arguments, const RunOptions& options = {});
  void signal(int number) const;
  pid_t id() const { return id_; }
  Outcome wait();

 private:
  pid_t id_ = -1;
  TemporaryDirectory scratch_;
};

Outcome longspan(const std::vector<std::string>& arguments, const RunOptions& options = {});

// The text that is part of the project.
inline const std::string kText = LONGSPAN_SOURCE_DIR "/data/tinyshakespeare.txt";

// Arguments that train a tiny model on it for eight steps.
std::vector<std::string> small_training(const std::string& out,
                                        const std::vector<std::string>& more = {});

// Every line has at most so many columns, and no space at its end.
void expect_fits(const std::string& text, std::size_t columns);

// Exit 2 and one sentence that has `sentence` in it.
void expect_wrong_input(const Outcome& outcome, const std::string& sentence);

}  // namespace longspan::testing
