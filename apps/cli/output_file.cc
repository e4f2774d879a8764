#include "output_file.h"

#include <fmt/core.h>

#include "longspan/base/error.h"
#include "longspan/io/atomic_file.h"

namespace longspan::cli {

namespace fs = std::filesystem;

void check_output(std::string_view who, const fs::path& path, Existing existing) {
  std::error_code ignored;
  const bool taken = fs::is_regular_file(path, ignored);
  require(!taken || existing == Existing::kReplaced,
          "[{}] {} exists already; need another name, or --overwrite", who, path.string());
  make_directory(who, directory_of(path));
  const AtomicFile tried(who, path);
}

void check_not_read(std::string_view who, const fs::path& path, const std::vector<fs::path>& read) {
  for (const fs::path& own : read) {
    std::error_code ignored;
    const bool inside = fs::is_directory(own, ignored) && fs::exists(path, ignored) &&
                        fs::equivalent(directory_of(path), own, ignored);
    require(!inside && !fs::equivalent(path, own, ignored),
            "[{}] {} is what is read here and would be replaced; need another name", who,
            path.string());
  }
}

fs::path lock_of(const fs::path& record) { return record.string() + ".lock"; }

fs::path page_of(fs::path record) { return record.replace_extension(".html"); }

fs::path free_name(const fs::path& path) {
  std::error_code ignored;
  fs::path name = path;
  const auto taken = [&] {
    return fs::exists(name, ignored) || fs::exists(page_of(name), ignored) ||
           fs::exists(lock_of(name), ignored);
  };
  for (int i = 2; taken(); ++i) {
    name = path.parent_path() /
           fmt::format("{}-{}{}", path.stem().string(), i, path.extension().string());
  }
  return name;
}

CLI::Option* add_overwrite(CLI::App& command, Existing& existing) {
  return command.add_flag_function(
      "--overwrite", [&existing](std::int64_t) { existing = Existing::kReplaced; },
      "Replace a file that is there");
}

}  // namespace longspan::cli
