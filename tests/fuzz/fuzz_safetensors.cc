// Tensor files: every tensor is read as whatever it can be.
#include "longspan/io/safetensors.h"

#include "longspan/testing/temporary_directory.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/fuzz/tensors_file.h"
#include "tests/fuzz/tree.h"

namespace longspan::fuzz {

namespace {

// Two sound files: one from elsewhere, and one of ours with a checksum.
std::vector<TensorsFile> tensor_files() {
  std::vector<TensorsFile> files;
  for (const std::string& bytes : sound_files("safetensors")) files.push_back(split_tensors(bytes));
  const std::filesystem::path path = scratch() / "sound.safetensors";
  const std::vector<float> values = {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F};
  write_safetensors(path, std::vector<TensorSource>{{"w", {2, 3}, values}, {"x", {6}, values}},
                    {{"step", "3"}});
  files.push_back(split_tensors(testing::read_bytes(path)));
  return files;
}

std::string edited_tensors(Bytes input) {
  static const std::vector<TensorsFile> files = tensor_files();
  Steering steer = steering(input);
  TensorsFile file = files[steer.below(files.size())];
  file.header = edited(std::move(file.header), steer);
  return join_tensors(file);
}

void read_tensors(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  for (const TensorInfo& tensor : file.tensors()) {
    const std::size_t elements = tensor.elements;
    outcome_of([&] { demand(file.floats(tensor.name).size() == elements, "all floats"); });
    outcome_of([&] { demand(file.doubles(tensor.name).size() == elements, "all doubles"); });
    outcome_of([&] { demand(file.integers(tensor.name).size() == elements, "all integers"); });
  }
  file.verify_checksum();
}

}  // namespace

int fuzz_safetensors(Bytes input) {
  const std::filesystem::path path = scratch() / "input.safetensors";
  testing::write_bytes(path, edits(input) ? edited_tensors(input) : std::string(text_of(input)));
  return outcome_of([&] { read_tensors(path); });
}

}  // namespace longspan::fuzz
