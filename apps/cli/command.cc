#include "command.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "longspan/base/error.h"
#include "longspan/layers/branches.h"

namespace longspan::cli {

CLI::Option* add_read(CLI::App& command, const std::string& name, const std::string& text,
                      const std::string& bounds, const std::string& group,
                      const std::function<void(const std::string&)>& read) {
  const std::string whole = bounds.empty() ? text : fmt::format("{} ({})", text, bounds);
  return command.add_option_function<std::string>(name, read, whole)
      ->type_name("NUMBER")
      ->group(group);
}

std::string first_name(const std::string& names) { return names.substr(0, names.find(',')); }

void require_mechanism(std::string_view who, std::string_view specification) {
  const BranchKind* kind = find_branch(specification);
  if (kind == nullptr || kind->name == "attention") return;
  std::string_view flag;
  if (kind->role == BranchRole::kMixer) flag = "--attention";
  if (kind->role == BranchRole::kFeedForward) flag = "--feed-forward";
  const std::string elsewhere =
      flag.empty() ? "" : fmt::format("; cost and train take it as {} {}", flag, kind->name);
  require(false,
          "[{}] {} is no attention mechanism but another branch of a block, {}; need a mechanism, "
          "see longspan list{}",
          who, kind->name, kind->summary, elsewhere);
}

std::string for_shell(const std::string& path) {
  constexpr std::string_view kPlain = "/._-+=:,@%";
  const bool plain = !path.empty() && std::ranges::all_of(path, [&](char c) {
    const bool ascii = static_cast<unsigned char>(c) < 128;
    return ascii && (std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                     kPlain.find(c) != std::string_view::npos);
  });
  std::string name = path.starts_with('-') ? "./" + path : path;  // not an option
  if (plain) return name;
  std::string quoted = "'";
  for (const char c : name) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string human_seconds(double seconds) {
  const auto total = static_cast<long long>(std::llround(std::fmin(seconds, 1e9)));
  if (total >= 3600) {
    return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
  }
  return fmt::format("{}:{:02}", total / 60, total % 60);
}

CLI::Option* add_duration(CLI::App& command, const std::string& name, double& seconds,
                          const std::string& text, const std::string& group) {
  const auto read = [&command, &seconds, name](const std::string& written) {
    double unit = 1.0;
    std::string_view digits = written;
    if (digits.ends_with('s') || digits.ends_with('m') || digits.ends_with('h')) {
      unit = digits.ends_with('s') ? 1.0 : digits.ends_with('m') ? 60.0 : 3600.0;
      digits.remove_suffix(1);
    }
    constexpr Bounds kSeconds = above_to(0, 30.0 * 86400.0);
    const std::optional<double> value = longspan::detail::decimal_from(digits);
    require(value && kSeconds.has(unit * *value),
            "[{}] {} is '{}'; need a duration up to 720h, such as 90s, 2m or 1h",
            command.get_name(), name, written);
    seconds = unit * *value;
  };
  return add_read(command, name, text, "up to 720h", group, read)->type_name("DURATION");
}

}  // namespace longspan::cli
