// How much memory the machine still has.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longspan {

// Bytes that can be had without swapping (MemAvailable of /proc/meminfo); the largest number where
// the system does not say.
std::uint64_t available_memory();

// Throws Error unless as many bytes can be had. Asking for them is no test: a system that promises
// more than it has ends the process later.
void require_memory(std::string_view who, std::string_view what, std::uint64_t bytes);

// "23.1 GiB", "512.0 KiB", "17 B".
std::string format_bytes(std::uint64_t bytes);

// "16GiB", "1.5 GB", "512MiB", "4096": binary units, decimal ones, or bytes; a fraction of a byte
// is dropped. Throws Error "[who] key is 'text'; need …".
std::uint64_t parse_bytes(std::string_view who, std::string_view key, std::string_view text);

}  // namespace longspan
