// While one lives, the programs that are started have calls of the system that fail; how is said in
// tests/cli/failing_calls.cc, which is loaded into them.
#pragma once

#include <cstdlib>
#include <string>

namespace longspan::testing {

class Failing {
 public:
  Failing(long call, const char* how, const char* from = "main") {
    setenv("LD_PRELOAD", LONGSPAN_BINARY_DIR "/tests/failing_calls.so", 1);
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
};

}  // namespace longspan::testing
