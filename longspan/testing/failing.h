// While one lives, the programs that are started have calls of the system that fail; how is said in
// tests/cli/failing_calls.cc, which is loaded into them.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "longspan/testing/temporary_directory.h"

namespace longspan::testing {

class Failing {
 public:
  Failing(long call, const char* how, const char* from = "main") {
    setenv("LD_PRELOAD", library().c_str(), 1);
    setenv("FAILING_CALL", std::to_string(call).c_str(), 1);
    setenv("FAILING_HOW", how, 1);
    setenv("FAILING_FROM", from, 1);
  }
  ~Failing() {
    for (const char* name : {"LD_PRELOAD", "FAILING_CALL", "FAILING_HOW", "FAILING_FROM"}) {
      unsetenv(name);
    }
  }
  Failing(const Failing&) = delete;
  Failing& operator=(const Failing&) = delete;

 private:
  // By a name without spaces, where the loader's list would end.
  static const std::string& library() {
    static const TemporaryDirectory place;
    static const std::string link = [] {
      const std::filesystem::path path = place / "failing_calls.so";
      std::filesystem::create_symlink(LONGSPAN_BINARY_DIR "/tests/failing_calls.so", path);
      return path.string();
    }();
    return link;
  }
};

}  // namespace longspan::testing
