// A checkpoint: a directory with
//
//   config.json         what the model is; for people and for building it again
//   model.safetensors   everything that training changes, in one file that is replaced atomically:
//                         weights under their names,
//                         optimiser state as the flat tensors optimizer.0, optimizer.1, ...,
//                         training state (step, seed, ...) and a copy of config.json as metadata,
//                         a checksum over all of it
//
// Renaming model.safetensors is what switches from the old state to the new one, configuration
// included; config.json follows it. A model whose config.json is yet to follow says which one it
// finds there (the metadata replaced_config), so that a kill or a full disk between the two leaves
// a checkpoint that opens. A changed bit, and any other config.json than these two, are found when
// the checkpoint is opened.
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

// Makes the directory when there is none, replaces model.safetensors, then writes config.json when
// there is none or another one. Throws SystemError when the disk is full or fails; there is then
// the checkpoint that was there, or the new one, whole.
void save_checkpoint(const std::filesystem::path& directory, const nlohmann::json& config,
                     const CheckpointState& state);

// Is there something that Checkpoint would try to open?
bool checkpoint_exists(const std::filesystem::path& directory);

// Of everything in it but config.json, of which it has a copy.
std::string checkpoint_checksum(const std::filesystem::path& directory);

// The configuration of a model's directory, ours or another's, without opening its weights.
nlohmann::json read_config(const std::filesystem::path& directory);

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

  // The checkpoint must have exactly these, in these shapes; whoever asks first needs no memory for
  // what a wrong configuration claims.
  void check_weights(std::span<const NamedTensor> tensors) const;
  // Checks, and fills every tensor.
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
