#include "longspan/models/pretrained.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <utility>

#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/io/json_file.h"
#include "longspan/models/families/family.h"

namespace longspan {

namespace {

Parameter& parameter_of(Model& model, const WeightPlacement& place) {
  Parameter* p = model.parameters().find(place.parameter);
  require(p != nullptr, "[pretrained] the model has no parameter '{}' for '{}'", place.parameter,
          place.source);
  const std::size_t rows = p->is_vector ? p->cols : p->rows;
  require(place.first_row + std::max<std::size_t>(1, place.rows) <= rows &&
              (place.rows != 0 || place.first_row == 0),
          "[pretrained] '{}' takes {} rows from row {} of '{}', which has {}", place.source,
          place.rows, place.first_row, place.parameter, rows);
  return *p;
}

// The part of a parameter that a source fills, and where it finds its numbers there.
struct Part {
  std::size_t offset = 0;  // of our flat block
  std::size_t rows = 0;    // of a vector: its elements
  std::size_t cols = 0;    // of a vector: 1
  Shape source;            // the shape in the file
  std::size_t first = 0;   // ours[i, j] = theirs[first + i·row_step + j·column_step]
  std::size_t row_step = 0;
  std::size_t column_step = 0;

  std::size_t size() const { return rows * cols; }
  std::size_t source_size() const {
    return std::accumulate(source.begin(), source.end(), std::size_t{1}, std::multiplies<>());
  }
  std::size_t last() const { return first + (rows - 1) * row_step + (cols - 1) * column_step; }
};

Part part_of(const Parameter& p, const WeightPlacement& place) {
  Part part;
  part.cols = p.is_vector ? 1 : p.cols;
  part.rows = place.rows != 0 ? place.rows : p.size() / part.cols;
  part.offset = place.first_row * part.cols;
  const std::size_t rows = place.source_rows != 0 ? place.source_rows : part.rows;
  if (place.slice) {
    part.source = place.slice->shape;
    part.first = place.slice->first;
    part.row_step = place.slice->row_step;
    part.column_step = place.slice->column_step;
  } else if (place.transpose) {
    part.source = {part.cols, part.rows};
    part.row_step = 1;
    part.column_step = part.rows;
  } else {
    part.source = p.is_vector ? Shape{rows} : Shape{rows, part.cols};
    part.first = place.source_row * part.cols;
    part.row_step = part.cols;
    part.column_step = 1;
  }
  require(part.last() < part.source_size(), "[pretrained] '{}' has no element {} for '{}'",
          place.source, part.last(), place.parameter);
  return part;
}

bool replace_end(std::string& text, std::string_view end, std::string_view by) {
  if (!text.ends_with(end)) return false;
  text.replace(text.size() - end.size(), end.size(), by);
  return true;
}

// The name under which the file has the tensor; empty when it has not.
std::string name_in(const SafetensorsFile& file, const std::string& source) {
  const std::string bare = source.substr(source.find('.') + 1);
  for (std::string name : {source, bare}) {
    if (file.contains(name)) return name;
    if (replace_end(name, "LayerNorm.weight", "LayerNorm.gamma") ||
        replace_end(name, "LayerNorm.bias", "LayerNorm.beta")) {
      if (file.contains(name)) return name;
    }
  }
  return "";
}

// The tensors of a file, the last of which is at hand: parts of one follow each other.
class Sources {
 public:
  explicit Sources(const SafetensorsFile& file) : file_(file) {}

  // A part laid out as our parameter.
  std::vector<float> read(const std::string& name, const WeightPlacement& place, const Part& part) {
    if (name != name_) {
      values_.resize(part.source_size());
      file_.read_into(name, file_.at(name).shape, values_);
      name_ = name;
    }
    std::vector<float> ours(part.size());
    for (std::size_t i = 0; i < part.rows; ++i) {
      const float* from = values_.data() + part.first + i * part.row_step;
      for (std::size_t j = 0; j < part.cols; ++j) {
        ours[i * part.cols + j] = from[j * part.column_step] + place.plus;
      }
    }
    return ours;
  }

 private:
  const SafetensorsFile& file_;
  std::string name_;
  std::vector<float> values_;
};

// Axes of length 1 do not change what a tensor holds.
Shape squeezed(const Shape& shape) {
  Shape rest;
  std::ranges::copy_if(shape, std::back_inserter(rest), [](std::size_t n) { return n != 1; });
  return rest;
}

// A vector may be stored by heads, and so may the columns of a matrix; those of a convolution by
// channels and taps.
bool fits(const Shape& shape, const Part& part, bool vector) {
  if (squeezed(shape) == squeezed(part.source)) return true;
  const std::size_t elements =
      std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
  if (elements != part.source_size()) return false;
  return vector || (shape.size() >= 3 && shape[0] == part.source[0]);
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

}  // namespace

namespace {

// A family, the class whose weights a checkpoint is, and what the config says of both.
struct Meant {
  explicit Meant(const nlohmann::json& hf);

  ConfigFields fields;
  const CheckpointFamily* family = nullptr;
  const CheckpointHead* head = nullptr;
  ModelConfig config;
};

const CheckpointFamily& family_of(const ConfigFields& f) {
  const std::string type = f.text("model_type", "");
  const std::string_view waits = waits_for(type);
  require(waits.empty(),
          "[pretrained] a model of type {} waits for what longspan does not have yet: {}", type,
          waits);
  std::vector<std::string_view> types;
  for (const CheckpointFamily* family : checkpoint_families()) {
    if (family->model_type == type) return *family;
    types.push_back(family->model_type);
  }
  const std::string_view near = similar(type, types);
  throw Error(fmt::format(
      "[{}] unknown model_type '{}'{}; `longspan list --families` names those that are known, and "
      "any model can be described by its dimensions (--encoder-layers or --decoder-layers, "
      "--d-model, --heads, --d-ff, --vocab)",
      ConfigFields::kWho, type, near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
}

const CheckpointHead& head_of(const CheckpointFamily& family, const ConfigFields& f) {
  if (!f.has("architectures")) return family.heads.front();
  const std::vector<std::string> named = f.texts("architectures");
  require(!named.empty(), "[{}] architectures is empty; need a name", ConfigFields::kWho);
  std::vector<std::string_view> names;
  for (const CheckpointHead& head : family.heads) {
    if (head.architecture == named.front()) return head;
    names.push_back(head.architecture);
  }
  throw_unknown(ConfigFields::kWho, "architecture", named.front(), names);
}

Meant::Meant(const nlohmann::json& hf) : fields(hf) {
  family = &family_of(fields);
  head = &head_of(*family, fields);
  config = family->config(fields);
  head->config(fields, config);
  fields.refuse(fields.flag("add_cross_attention", false),
                "cross-attention in a decoder without an encoder");
  fields.refuse(
      fields.flag("tie_encoder_decoder", false) && config.family == Family::kEncoderDecoder,
      "one set of weights for both stacks");
  fields.has("tie_word_embeddings");  // nothing where there is no such layer
  fields.has("is_decoder");
  fields.require_all_read();
  check(config);
}

}  // namespace

std::string architecture_of(const nlohmann::json& hf) {
  return std::string(Meant(hf).head->architecture);
}

ModelConfig config_from_hugging_face(const nlohmann::json& hf) { return Meant(hf).config; }

std::vector<std::string> fields_of_no_account(const nlohmann::json& hf) {
  return Meant(hf).fields.passed_over();
}

std::vector<WeightPlacement> placements(const nlohmann::json& hf) {
  const Meant meant(hf);
  Placer placer(meant.config, meant.fields, meant.family->base);
  meant.family->place(placer);
  meant.head->place(placer);
  return placer.take();
}

void check_weights(Model& model, const SafetensorsFile& file,
                   std::span<const WeightPlacement> places) {
  std::map<std::string_view, std::size_t> filled;
  for (const WeightPlacement& place : places) {
    const Parameter& p = parameter_of(model, place);
    const Part part = part_of(p, place);
    if (!place.second_name) filled[place.parameter] += part.size();
    if (place.source.empty()) continue;
    const std::string name = name_in(file, place.source);
    if (name.empty() && place.second_name) continue;
    require(!name.empty(), "[pretrained] {} has no tensor '{}' for '{}'", file.path().string(),
            place.source, place.parameter);
    const Shape& shape = file.at(name).shape;
    require(fits(shape, part, p.is_vector),
            "[pretrained] {}: tensor '{}' is {}; the config needs {}", file.path().string(), name,
            to_string(shape), to_string(part.source));
  }
  for (const Parameter& p : model.parameters().all()) {
    if (p.fill) continue;  // drawn, not trained
    require(filled[p.name] == p.size(), "[pretrained] {} of the {} weights of '{}' have a source",
            filled[p.name], p.size(), p.name);
  }
}

void load_weights(Model& model, const SafetensorsFile& file,
                  std::span<const WeightPlacement> places) {
  require(model.parameters().allocated(), "[pretrained] the model has no memory; allocate first");
  check_weights(model, file, places);
  Sources sources(file);
  for (const WeightPlacement& place : places) {
    const Parameter& p = parameter_of(model, place);
    const Part part = part_of(p, place);
    const std::span<float> target = p.value.subspan(part.offset, part.size());
    if (place.source.empty()) {
      std::ranges::fill(target, 0.0F);
      continue;
    }
    const std::string name = name_in(file, place.source);
    if (name.empty()) continue;
    const std::vector<float> values = sources.read(name, place, part);
    if (!place.second_name) {
      std::ranges::copy(values, target.begin());
      continue;
    }
    require(same_bits(values, target),
            "[pretrained] {}: tensor '{}' is tied to '{}' by the config, but differs from it",
            file.path().string(), name, place.parameter);
  }
}

std::vector<float> source_gradient(Model& model, std::span<const WeightPlacement> places,
                                   std::string_view source) {
  std::vector<float> theirs;
  for (const WeightPlacement& place : places) {
    if (place.source != source || place.second_name) continue;
    const Parameter& p = parameter_of(model, place);
    const Part part = part_of(p, place);
    const std::span<const float> ours = p.gradient.subspan(part.offset, part.size());
    theirs.resize(part.source_size());
    for (std::size_t i = 0; i < part.rows; ++i) {
      for (std::size_t j = 0; j < part.cols; ++j) {
        theirs[part.first + i * part.row_step + j * part.column_step] = ours[i * part.cols + j];
      }
    }
  }
  return theirs;
}

Model load_pretrained(const std::filesystem::path& directory, const std::string& attention) {
  const nlohmann::json hf = read_json(directory / "config.json");
  const SafetensorsFile file(directory / "model.safetensors");
  ModelConfig config = config_from_hugging_face(hf);
  if (!attention.empty()) config.attention = attention;
  const std::vector<WeightPlacement> places = placements(hf);
  Model model(config);
  check_weights(model, file, places);  // before the memory is asked for
  model.allocate(0);                   // what is drawn, the weights being read
  load_weights(model, file, places);
  return model;
}

}  // namespace longspan
