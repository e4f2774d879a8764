// The bytes of a safetensors file as a tree and back: the header may say anything, the checksum fits.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace longspan::fuzz {

struct TensorsFile {
  nlohmann::json header;
  std::string data;
};

// Of a sound file.
TensorsFile split_tensors(std::string_view bytes);

// With a checksum over all of it where the header has one.
std::string join_tensors(const TensorsFile& file);

}  // namespace longspan::fuzz
