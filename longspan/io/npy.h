// NumPy's .npy: one array per file.
//
//   "\x93NUMPY", version, length of the header (2 bytes in version 1, 4 in 2 and 3), then
//   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, then the elements
//
// Little-endian f4, f8, i8, i4 and u1 in C order; everything is checked against the size of the
// file.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace longspan {

template <class T>
concept NpyElement = std::same_as<T, float> || std::same_as<T, double> ||
    std::same_as<T, std::int64_t> || std::same_as<T, std::int32_t> || std::same_as<T, std::uint8_t>;

// "<f4", as in the file.
template <NpyElement T>
constexpr std::string_view npy_type() {
  if constexpr (std::same_as<T, float>) return "<f4";
  if constexpr (std::same_as<T, double>) return "<f8";
  if constexpr (std::same_as<T, std::int64_t>) return "<i8";
  if constexpr (std::same_as<T, std::int32_t>) return "<i4";
  return "|u1";
}

template <NpyElement T>
struct NpyArray {
  std::vector<std::size_t> shape;
  std::vector<T> data;
};

// The type of the elements of a file: "<f4", ... Throws Error for what read_npy cannot read.
std::string_view npy_type_of(const std::filesystem::path& path);

// Throws Error when the file holds another type: nothing is converted.
template <NpyElement T>
NpyArray<T> read_npy(const std::filesystem::path& path);

// Version 1, atomically.
template <NpyElement T>
void write_npy(const std::filesystem::path& path, std::span<const std::size_t> shape,
               std::span<const T> data);

}  // namespace longspan
