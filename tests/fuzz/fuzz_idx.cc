// IDX files, alone and as the training images of a corpus.
#include "longspan/io/idx.h"

#include <array>
#include <numeric>

#include "longspan/tasks/images.h"
#include "longspan/testing/temporary_directory.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/fuzz/tree.h"

namespace longspan::fuzz {

namespace {

const std::vector<nlohmann::json>& idx_trees() {
  static const std::vector<nlohmann::json> trees = {
      {{"images", {{"magic", {0, 0, 8, 3}}, {"shape", {3, 4, 2}}, {"elements", 24}}},
       {"labels", {{"magic", {0, 0, 8, 1}}, {"shape", {3}}, {"elements", 3}}}}};
  return trees;
}

std::uint64_t count_of(const nlohmann::json& value) {
  return value.is_number_integer() ? value.get<std::uint64_t>() : 0;
}

std::string idx_bytes(const nlohmann::json& tree) {
  std::string bytes;
  if (!tree.is_object()) return json_text(tree);
  for (const auto& byte : tree.value("magic", nlohmann::json::array())) {
    bytes += static_cast<char>(count_of(byte));
  }
  for (const auto& size : tree.value("shape", nlohmann::json::array())) {
    for (const unsigned shift : {24U, 16U, 8U, 0U}) {
      bytes += static_cast<char>(count_of(size) >> shift);
    }
  }
  const std::uint64_t elements =
      std::min<std::uint64_t>(count_of(tree.value("elements", nlohmann::json(0))), 1000);
  for (std::uint64_t i = 0; i < elements; ++i) bytes += static_cast<char>(i);
  return bytes;
}

void use_images(const std::filesystem::path& directory) {
  ImageCorpus corpus(directory);
  corpus.majority();
  std::array<std::uint32_t, 2> indices{};
  corpus.training_indices(1, 3, indices);
  const ImageSet& images = corpus.training();
  std::vector<float> features(indices.size() * images.image_size());
  ImageCorpus::features(images, indices, features);
  std::array<std::int32_t, 2> labels{};
  ImageCorpus::labels(images, indices, labels);
  const std::size_t patches = ImageCorpus::patches(images, 2);
  std::vector<std::int32_t> tokens(indices.size() * patches);
  ImageCorpus::tokens(images, indices, 2, tokens);
}

}  // namespace

int fuzz_idx(Bytes input) {
  const std::filesystem::path& directory = scratch();
  const nlohmann::json& sound = idx_trees().front();
  const nlohmann::json tree = edits(input) ? edited(idx_trees(), input) : sound;
  const auto file = [&](const char* name, const nlohmann::json& of, const char* part) {
    const bool there = of.is_object() && of.contains(part);
    testing::write_bytes(directory / name, idx_bytes(there ? of[part] : nlohmann::json()));
  };
  file("train-images-idx3-ubyte", tree, "images");
  file("train-labels-idx1-ubyte", tree, "labels");
  file("t10k-images-idx3-ubyte", sound, "images");
  file("t10k-labels-idx1-ubyte", sound, "labels");
  const std::filesystem::path images = directory / "train-images-idx3-ubyte";
  if (!edits(input)) testing::write_bytes(images, text_of(input));
  outcome_of([&] {
    const IdxArray array = read_idx(images);
    const std::size_t size = std::accumulate(array.shape.begin(), array.shape.end(), std::size_t{1},
                                             std::multiplies<>());
    demand(size == array.data.size(), "as many bytes as the shape says");
  });
  if (!edits(input)) {
    testing::write_bytes(directory / "packed.gz", text_of(input));
    outcome_of([&] { read_idx(directory / "packed.gz"); });
  }
  return outcome_of([&] { use_images(directory); });
}

}  // namespace longspan::fuzz
