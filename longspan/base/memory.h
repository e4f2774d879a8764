// How much memory the machine still has.
#pragma once

#include <cstdint>
#include <string>

namespace longspan {

// Bytes that can be had without swapping (MemAvailable of /proc/meminfo); the largest number where
// the system does not say.
std::uint64_t available_memory();

// "23.1 GiB", "512.0 KiB", "17 B".
std::string format_bytes(std::uint64_t bytes);

}  // namespace longspan
