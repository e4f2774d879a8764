// Files that commands write for the user. One policy for all of them: what is there already is
// replaced only by a user who says --overwrite, and a place that cannot be written is refused
// before the work begins.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "command.h"

namespace longspan::cli {

enum class Existing { kKept, kReplaced };

// Throws unless a file can be written there; makes the directory that it is in.
void check_output(std::string_view who, const std::filesystem::path& path, Existing existing);

// Throws where the path is one of the files that the command reads, or one in a directory that it
// reads: it would replace them.
void check_not_read(std::string_view who, const std::filesystem::path& path,
                    const std::vector<std::filesystem::path>& read);

// The first of name.json, name-2.json, name-3.json … that neither is there nor has a page or a lock
// beside it.
std::filesystem::path free_name(const std::filesystem::path& path);

// The page beside a record.
std::filesystem::path page_of(std::filesystem::path record);

// What says, beside a record, which process writes it.
std::filesystem::path lock_of(const std::filesystem::path& record);

// The flag by which a user asks for kReplaced.
CLI::Option* add_overwrite(CLI::App& command, Existing& existing);

}  // namespace longspan::cli
