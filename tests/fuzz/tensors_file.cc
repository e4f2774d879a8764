#include "tests/fuzz/tensors_file.h"

#include <cstdint>
#include <cstring>

#include "longspan/io/checksum.h"
#include "longspan/io/safetensors.h"
#include "tests/fuzz/tree.h"

namespace longspan::fuzz {

namespace {

constexpr std::size_t kLengthBytes = 8;
// As the writer puts it; the digits that follow count as zeros.
constexpr std::string_view kBeforeChecksum = R"({"__metadata__":{"checksum":")";
constexpr std::string_view kNoChecksum = "0000000000000000";

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

bool is_sealed(const nlohmann::json& header) {
  return header.is_object() && header.contains("__metadata__") &&
         header["__metadata__"].is_object() && header["__metadata__"].contains(kChecksumKey);
}

}  // namespace

TensorsFile split_tensors(std::string_view bytes) {
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  return {nlohmann::json::parse(bytes.substr(kLengthBytes, length)),
          std::string(bytes.substr(kLengthBytes + length))};
}

std::string join_tensors(const TensorsFile& file) {
  nlohmann::json header = file.header;
  const bool sealed = is_sealed(header);
  if (sealed) header["__metadata__"][kChecksumKey] = kNoChecksum;
  std::string text = json_text(header);  // its keys are sorted, the checksum's before all others
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (sealed && text.starts_with(kBeforeChecksum)) {
    Checksum checksum;
    checksum.add(bytes_of(text));
    checksum.add(bytes_of(file.data));
    text.replace(kBeforeChecksum.size(), kNoChecksum.size(), checksum.hex());
  }
  const std::uint64_t length = text.size();
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kLengthBytes);
  return bytes + text + file.data;
}

}  // namespace longspan::fuzz
