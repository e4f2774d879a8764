// Models trained elsewhere: Hugging Face's config.json and model.safetensors.
//
//   config.json         model_type, architectures and sizes → ModelConfig
//   model.safetensors   each tensor → rows of one of our parameters
//
// What a family of checkpoints means by them stands in families/. What a config asks for beyond our
// model is refused, and so is a field that nobody knows.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "longspan/io/safetensors.h"
#include "longspan/models/model.h"

namespace longspan {

// Where a tensor goes. Rows of a matrix, elements of a vector: q, k and v are one after the other
// in one parameter, and so are gate and up. A source may also be cut into several parts.
struct WeightPlacement {
  std::string source;  // empty: zeros, where the other model has no such weight
  std::string parameter;
  std::size_t first_row = 0;
  std::size_t rows = 0;         // 0: all of the parameter
  bool transpose = false;       // the source is [in, out]
  std::size_t source_row = 0;   // the first row of the source that is meant
  std::size_t source_rows = 0;  // how many it has; 0: those that are meant
  bool second_name = false;     // a tied tensor again: may be missing, must be equal
  float plus = 0.0F;            // ours is so much more: norms that multiply by 1 + weight
  // A part of a larger tensor: ours[i, j] = theirs[first + i·row_step + j·column_step].
  struct Slice {
    Shape shape;  // of the whole tensor
    std::size_t first = 0;
    std::size_t row_step = 0;
    std::size_t column_step = 0;
  };
  std::optional<Slice> slice = {};
};

// The class whose weights these are: the first of `architectures`, or what is usual for the
// model_type. Throws Error with the nearest name for one that is not known.
std::string architecture_of(const nlohmann::json& hf);
ModelConfig config_from_hugging_face(const nlohmann::json& hf);
// Fields that it has and that change nothing here.
std::vector<std::string> fields_of_no_account(const nlohmann::json& hf);
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
// The gradient of a source, laid out as the source is, from all its parts.
std::vector<float> source_gradient(Model& model, std::span<const WeightPlacement> places,
                                   std::string_view source);

// config.json and model.safetensors of a directory; `attention` as for make_attention, empty for
// the one that the model was trained with.
Model load_pretrained(const std::filesystem::path& directory, const std::string& attention = "");

}  // namespace longspan
