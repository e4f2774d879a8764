#include "longspan/base/resident.h"

#include <fstream>
#include <string>

namespace longspan {

namespace {

// A line "VmRSS:     1234 kB" of /proc/self/status; 0 where there is none.
std::size_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != key) continue;
    std::size_t kibibytes = 0;
    status >> kibibytes;
    return kibibytes * 1024;
  }
  return 0;
}

}  // namespace

std::size_t resident_bytes() { return status_bytes("VmRSS:"); }
std::size_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

}  // namespace longspan
