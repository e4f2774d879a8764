// JSON: read with the position of what is wrong, written atomically.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace longspan {

// Deeper values are refused: no file of ours needs them, and writing them back is recursive.
inline constexpr int kDeepestJson = 100;

// `where` opens every message: "[who] path". A key that appears twice in an object is an error.
nlohmann::json parse_json(std::string_view where, std::string_view text);

// Of a line of data that was parsed otherwise: throws Error where a key appears twice.
void refuse_repeated_keys(std::string_view where, std::string_view text);

nlohmann::json read_json(const std::filesystem::path& path);
void write_json(const std::filesystem::path& path, const nlohmann::json& value);

}  // namespace longspan
