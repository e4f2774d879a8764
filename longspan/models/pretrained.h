// Models trained elsewhere: Hugging Face's config.json and model.safetensors.
//
//   config.json         model_type, architectures and sizes → ModelConfig
//   model.safetensors   each tensor → rows of one of our parameters
//
// model_type: bert, distilbert, roformer, gpt2, llama, and llama2c (the checkpoints of llama2.c,
// with the names of its ModelArgs). What a config asks for beyond our model is refused.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "longspan/io/safetensors.h"
#include "longspan/models/model.h"

namespace longspan {

// Where a tensor goes. Rows of a matrix, elements of a vector: q, k and v are one after the other
// in one parameter, and so are gate and up.
struct WeightPlacement {
  std::string source;
  std::string parameter;
  std::size_t first_row = 0;
  std::size_t rows = 0;      // 0: all of the parameter
  bool transpose = false;    // the source is [in, out]
  bool second_name = false;  // a tied tensor again: may be missing, must be equal
};

// The class whose weights these are: the first of `architectures`, or what is usual for the
// model_type. Throws Error with the nearest name for one that is not known.
std::string architecture_of(const nlohmann::json& hf);
ModelConfig config_from_hugging_face(const nlohmann::json& hf);
std::vector<WeightPlacement> placements(const nlohmann::json& hf);

// Throws Error unless the file has every tensor in its shape and every parameter is filled. Needs
// no memory for the weights, so it can come before Parameters::allocate. A tensor may also be
// stored without the name of the base model ("wte.weight" for "transformer.wte.weight") and a norm
// with gamma and beta for weight and bias; tensors that nobody asks for are ignored.
void check_weights(Model& model, const SafetensorsFile& file,
                   std::span<const WeightPlacement> places);
// Checks, and fills the parameters, which must be allocated.
void load_weights(Model& model, const SafetensorsFile& file,
                  std::span<const WeightPlacement> places);
// The gradient of a source, laid out as the source is.
std::vector<float> placed_gradient(Model& model, const WeightPlacement& place);

// config.json and model.safetensors of a directory; `attention` as for make_attention.
Model load_pretrained(const std::filesystem::path& directory, std::string attention = "flash");

}  // namespace longspan
