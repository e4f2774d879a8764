// IDX, the format of the MNIST files: unsigned bytes of any shape.
//
//   0, 0, 0x08 (unsigned byte), number of dimensions, each dimension (4 bytes, big-endian), then
//   the elements in C order
//
// Everything is checked against the size of the file. A file whose name ends in .gz is unpacked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace longspan {

struct IdxArray {
  std::vector<std::size_t> shape;
  std::vector<std::uint8_t> data;
};

// Throws Error for what is not an IDX file of bytes.
IdxArray read_idx(const std::filesystem::path& path);

}  // namespace longspan
