#include "longspan/io/checkpoint.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/io/atomic_file.h"
#include "longspan/io/checksum.h"
#include "longspan/io/file.h"
#include "longspan/io/json_file.h"

namespace longspan {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr std::string_view kCheckpoint = "checkpoint";
constexpr const char* kConfigFile = "config.json";
constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kConfigKey = "config";
constexpr const char* kReplacedKey = "replaced_config";
constexpr std::string_view kOptimizerPrefix = "optimizer.";

std::string optimizer_name(std::size_t block) {
  return fmt::format("{}{}", kOptimizerPrefix, block);
}

// Whether it is there, which a directory that may not be read does not say.
bool is_there(const fs::path& path) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  require(fs::status_known(status), "[{}] {} could not be read: {}", kCheckpoint, path.string(),
          failed.message());
  return fs::exists(status);
}

void require_part(const fs::path& directory, const char* name) {
  require(is_there(directory / name),
          "[{}] {} has no {}; need a directory with config.json and model.safetensors", kCheckpoint,
          directory.string(), name);
}

const fs::path& require_model(const fs::path& directory) {
  std::error_code ignored;
  const std::string shown = directory.string();
  require(is_there(directory),
          "[{}] {} does not exist; need a directory with config.json and model.safetensors",
          kCheckpoint, shown);
  require(fs::is_directory(directory, ignored),
          "[{}] {} is a file; need a directory with config.json and model.safetensors", kCheckpoint,
          shown);
  require_part(directory, kModelFile);
  return directory;
}

// A config.json that cannot be read is replaced: save has the right one.
bool has_config(const fs::path& path, const json& config) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return false;
  try {
    return read_json(path) == config;
  } catch (const Error&) {
    return false;
  }
}

// What a config.json is recognised by, byte for byte; "none" where there is none to read.
std::string fingerprint(const fs::path& path) {
  try {
    const std::string text = read_file(kCheckpoint, path, kMostJson);
    Checksum checksum;
    checksum.add(std::as_bytes(std::span(text)));
    return checksum.hex();
  } catch (const Error&) {
    return "none";
  }
}

// Is this still the config.json that the model found?
bool yet_to_follow(const Metadata& metadata, const fs::path& config_path) {
  const auto replaced = metadata.find(kReplacedKey);
  return replaced != metadata.end() && metadata.contains(kConfigKey) &&
         replaced->second == fingerprint(config_path);
}

// "/heads is 8 but was 4"
std::string first_difference(const json& now, const json& saved) {
  const json patch = json::diff(saved, now);
  const auto pointer = json::json_pointer(patch.at(0).at("path").get<std::string>());
  const auto shown = [&](const json& config) {
    return config.contains(pointer) ? printable(config.at(pointer).dump()) : "missing";
  };
  const std::string name = pointer.empty() ? "it" : printable(pointer.to_string());
  return fmt::format("{} is {} but was {}", name, shown(now), shown(saved));
}

}  // namespace

void save_checkpoint(const fs::path& directory, const json& config, const CheckpointState& state) {
  const std::string where = fmt::format("[{}] {}", kCheckpoint, directory.string());
  Metadata metadata = state.metadata;
  for (const char* key : {kConfigKey, kChecksumKey, kReplacedKey}) {
    require(!metadata.contains(key), "{}: the metadata key '{}' is taken", where, key);
  }
  std::vector<TensorSource> tensors = state.weights;
  for (const TensorSource& tensor : tensors) {
    require(!tensor.name.starts_with(kOptimizerPrefix), "{}: the name '{}' is taken", where,
            printable(tensor.name));
  }
  for (std::size_t i = 0; i < state.optimizer.size(); ++i) {
    const auto block = state.optimizer[i];
    tensors.push_back({optimizer_name(i), {block.size()}, block});
  }
  try {
    metadata[kConfigKey] = config.dump();
  } catch (const json::exception&) {
    throw Error(fmt::format("{}: the configuration holds text that is not UTF-8", where));
  }

  make_directory(kCheckpoint, directory);
  const fs::path config_path = directory / kConfigFile;
  const bool kept = has_config(config_path, config);
  if (!kept) metadata[kReplacedKey] = fingerprint(config_path);
  write_safetensors(directory / kModelFile, tensors, metadata);
  if (!kept) write_json(config_path, config);
}

std::string checkpoint_checksum(const fs::path& directory) {
  return checksum_of(File(kCheckpoint, require_model(directory) / kModelFile));
}

bool checkpoint_exists(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(directory / kModelFile, ignored);
}

json read_config(const fs::path& directory) {
  const fs::path path = directory / kConfigFile;
  if (checkpoint_exists(directory)) {
    const SafetensorsFile file(directory / kModelFile);
    if (yet_to_follow(file.metadata(), path)) {
      return parse_json(fmt::format("[{}] {}", kCheckpoint, file.path().string()),
                        file.metadata().at(kConfigKey));
    }
  }
  return read_json(path);
}

Checkpoint::Checkpoint(const fs::path& directory)
    : file_(require_model(directory) / kModelFile), metadata_(file_.metadata()) {
  file_.verify_checksum();
  require(metadata_.contains(kConfigKey), "{}: has no configuration; need a checkpoint", where());
  config_ = metadata_[kConfigKey];
  const fs::path config_path = directory / kConfigFile;
  if (!yet_to_follow(metadata_, config_path)) {
    require_part(directory, kConfigFile);
    const json now = read_json(config_path);
    const json saved = config();
    if (now != saved) {
      throw Error(fmt::format("[{}] {} does not belong to {}: {} when that was saved", kCheckpoint,
                              config_path.string(), kModelFile, first_difference(now, saved)));
    }
  }
  for (const char* key : {kConfigKey, kChecksumKey, kReplacedKey}) metadata_.erase(key);
  while (file_.contains(optimizer_name(optimizer_blocks_))) ++optimizer_blocks_;
}

std::string Checkpoint::where() const {
  return fmt::format("[{}] {}", kCheckpoint, file_.path().string());
}

json Checkpoint::config() const { return parse_json(where() + ": the configuration", config_); }

const std::string& Checkpoint::text(const std::string& key) const {
  const auto found = metadata_.find(key);
  require(found != metadata_.end(), "{}: has no '{}' in its metadata", where(), key);
  return found->second;
}

std::int64_t Checkpoint::integer(const std::string& key) const {
  return parse_integer(kCheckpoint, fmt::format("{}: {}", file_.path().string(), key), text(key));
}

void Checkpoint::check_weights(std::span<const NamedTensor> tensors) const {
  std::set<std::string_view> needed;
  for (const NamedTensor& tensor : tensors) {
    require(file_.contains(tensor.name), "{}: has no tensor '{}' of shape {}; the model needs it",
            where(), tensor.name, to_string(tensor.shape));
    const Shape& shape = file_.at(tensor.name).shape;
    require(shape == tensor.shape, "{}: tensor '{}' has the shape {}; the model needs {}", where(),
            tensor.name, to_string(shape), to_string(tensor.shape));
    needed.insert(tensor.name);
  }
  for (const TensorInfo& tensor : file_.tensors()) {
    require(tensor.name.starts_with(kOptimizerPrefix) || needed.contains(tensor.name),
            "{}: has a tensor '{}' of shape {}; the model has none of that name", where(),
            printable(tensor.name), to_string(tensor.shape));
  }
}

void Checkpoint::read_weights(std::span<const NamedTensor> tensors) const {
  check_weights(tensors);
  for (const NamedTensor& tensor : tensors) read_into(tensor.name, tensor.shape, tensor.data);
}

void Checkpoint::read_into(std::string_view name, const Shape& shape, std::span<float> into) const {
  file_.read_into(name, shape, into);
}

void Checkpoint::read_optimizer(std::span<const std::span<float>> blocks) const {
  require(blocks.size() == optimizer_blocks_,
          "{}: has {} blocks of optimiser state; this optimiser needs {}", where(),
          optimizer_blocks_, blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    read_into(optimizer_name(i), {blocks[i].size()}, blocks[i]);
  }
}

}  // namespace longspan
