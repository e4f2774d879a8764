// golden_check DIR [--only REGEX]: compares this build with golden vectors.
//
// One line per case: its name, the worst error with its tolerance and where it was, the verdict.
// Exit 0 when no case failed, 1 when one did, 2 when nothing could be checked.
#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/base/error.h"
#include "tests/vectors/golden_case.h"

namespace longspan::golden {

namespace {

struct Counts {
  std::size_t passed = 0;
  std::size_t failed = 0;
  std::size_t skipped = 0;
};

std::vector<std::filesystem::path> sidecars(const std::filesystem::path& directory) {
  require(std::filesystem::is_directory(directory), "[golden_check] '{}' is not a directory",
          directory.string());
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".json") found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

void check_case(const std::filesystem::path& sidecar, Counts& counts) {
  const std::string name = sidecar.stem().string();
  try {
    const Case golden(sidecar);
    const std::string mechanism = golden.mechanism();
    const Handler* const handler = find_handler(mechanism);
    if (handler == nullptr) {
      throw Unsupported(fmt::format("mechanism '{}' is not in this build", mechanism));
    }
    Comparison comparison(golden);
    handler->run(golden, comparison);
    const Finding& worst = comparison.worst();
    fmt::print("{:<40} {:.2e} of {:.0e}  {:<4}  ({})\n", name, worst.error, worst.tolerance,
               worst.ok() ? "ok" : "FAIL", worst.what);
    ++(worst.ok() ? counts.passed : counts.failed);
  } catch (const Unsupported& why) {
    fmt::print("{:<40} unsupported: {}\n", name, why.what());
    ++counts.skipped;
  } catch (const std::exception& error) {
    fmt::print("{:<40} FAIL: {}\n", name, error.what());
    ++counts.failed;
  }
}

int run(const std::filesystem::path& directory, const std::optional<std::string>& only) {
  const std::regex pattern(only.value_or(""), std::regex::ECMAScript);
  Counts counts;
  for (const std::filesystem::path& sidecar : sidecars(directory)) {
    if (!std::regex_search(sidecar.stem().string(), pattern)) continue;
    check_case(sidecar, counts);
  }
  require(counts.passed + counts.failed + counts.skipped > 0, "[golden_check] no case in '{}'{}",
          directory.string(), only ? " matches '" + *only + "'" : "");
  fmt::print("{} passed, {} failed", counts.passed, counts.failed);
  if (counts.skipped > 0) fmt::print(", {} skipped", counts.skipped);
  fmt::print("\n");
  return counts.failed == 0 ? 0 : 1;
}

int main_of(const std::vector<std::string_view>& arguments) {
  std::optional<std::string> directory;
  std::optional<std::string> only;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--only" && i + 1 < arguments.size()) {
      only = arguments[++i];
    } else {
      require(!directory && !arguments[i].starts_with("-"),
              "[golden_check] unexpected argument '{}'", arguments[i]);
      directory = arguments[i];
    }
  }
  require(directory.has_value(), "usage: golden_check DIR [--only REGEX]");
  return run(*directory, only);
}

}  // namespace

}  // namespace longspan::golden

int main(int argc, char** argv) {
  try {
    return longspan::golden::main_of({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
