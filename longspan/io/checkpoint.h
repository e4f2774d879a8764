// A checkpoint: a directory with
//
//   config.json         what the model is; for people and for building it again
//   model.safetensors   everything that training changes, in one file that is replaced atomically:
//                         weights under their names,
//                         optimiser state as the flat tensors optimizer.0, optimizer.1, ...,
//                         training state (step, seed, ...) and a copy of config.json as metadata,
//                         a checksum over all of it
//
// A kill at any moment therefore leaves the old state or the new one. A changed bit, and a
// config.json that is not the one the model was saved with, are found when the checkpoint is
// opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/io/safetensors.h"

namespace longspan {

// What save_checkpoint stores; views of memory that the caller owns.
struct CheckpointState {
  std::vector<TensorSource> weights;
  std::vector<std::span<const float>> optimizer;
  Metadata metadata;
};

// Makes the directory when there is none, writes config.json when there is none or another one,
// then replaces model.safetensors. Throws SystemError when the disk is full or fails; the
// checkpoint that was there is then still there.
void save_checkpoint(const std::filesystem::path& directory, const nlohmann::json& config,
                     const CheckpointState& state);

// Is there something that Checkpoint would try to open?
bool checkpoint_exists(const std::filesystem::path& directory);

// Where a weight goes.
struct NamedTensor {
  std::string name;
  Shape shape;
  std::span<float> data;
};

class Checkpoint {
 public:
  // Opens and verifies all of it.
  explicit Checkpoint(const std::filesystem::path& directory);

  nlohmann::json config() const;

  // The training state; a key that is not there is an error.
  const Metadata& metadata() const { return metadata_; }
  const std::string& text(const std::string& key) const;
  std::int64_t integer(const std::string& key) const;

  // Fills every tensor; the checkpoint must have exactly these, in these shapes.
  void read_weights(std::span<const NamedTensor> tensors) const;
  void read_into(std::string_view name, const Shape& shape, std::span<float> into) const;

  std::size_t optimizer_blocks() const { return optimizer_blocks_; }
  // Fills every block; the checkpoint must have exactly these, of these sizes.
  void read_optimizer(std::span<const std::span<float>> blocks) const;

  const SafetensorsFile& file() const { return file_; }

 private:
  std::string where() const;

  SafetensorsFile file_;
  std::string config_;
  Metadata metadata_;
  std::size_t optimizer_blocks_ = 0;
};

}  // namespace longspan
