// Runs the built command line as a user would, and reads what it says.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace longspan::testing {

struct Outcome {
  int status = -1;  // exit code, or 128 + signal
  std::string out;
  std::string err;
};

// A directory of its own, removed at the end.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string path(const std::string& name) const { return (root_ / name).string(); }

 private:
  std::filesystem::path root_;
};

struct RunOptions {
  long file_limit = -1;  // largest file the program may write, in bytes: a full disk
};

class Process {
 public:
  explicit Process(const std::vector<std::string>& arguments, const RunOptions& options = {});
  void signal(int number) const;
  Outcome wait();

 private:
  pid_t id_ = -1;
  Scratch scratch_;
};

Outcome longspan(const std::vector<std::string>& arguments, const RunOptions& options = {});

std::string read_all(const std::string& path);
void write_all(const std::string& path, const std::string& text);

}  // namespace longspan::testing
