#include "longspan/models/families/config_fields.h"

#include <algorithm>
#include <array>
#include <utility>

#include "longspan/base/config.h"
#include "longspan/models/config.h"

namespace longspan {

namespace {

using Json = nlohmann::json;

// What configs of every family carry for other programs: where they came from, how they are to be
// trained or how text is to be written, and switches of what else is to be returned.
constexpr std::array<std::string_view, 90> kOfNoAccount = {
    "name",
    "base_model",
    "revision",
    "architectures",
    "model_type",
    "transformers_version",
    "transformers.js_config",
    "torch_dtype",
    "dtype",
    "torchscript",
    "use_cache",
    "auto_map",
    "attn_implementation",
    "use_flash_attn",
    "use_flash_attention",
    "adapters",
    "language",
    "vocab_file",
    "finetuning_task",
    "problem_type",
    "label2id",
    "id2label",
    "num_labels",
    "tokenizer_class",
    "prefix",
    "task_specific_params",
    "bos_token_id",
    "eos_token_id",
    "eos_token_ids",
    "pad_token_id",
    "sep_token_id",
    "cls_token_id",
    "mask_token_id",
    "unk_token_id",
    "decoder_start_token_id",
    "image_token_id",
    "is_encoder_decoder",
    "tie_encoder_decoder",
    "output_past",
    "output_hidden_states",
    "output_attentions",
    "output_scores",
    "return_dict",
    "return_dict_in_generate",
    "remove_invalid_values",
    "use_bfloat16",
    "tf_legacy_loss",
    "gradient_checkpointing",
    "chunk_size_feed_forward",
    "keys_to_ignore_at_inference",
    "initializer_range",
    "initializer_factor",
    "init_std",
    "attention_probs_dropout_prob",
    "attention_dropout",
    "activation_dropout",
    "hidden_dropout_prob",
    "dropout",
    "classifier_dropout",
    "classifier_dropout_prob",
    "max_length",
    "min_length",
    "do_sample",
    "early_stopping",
    "num_beams",
    "num_beam_groups",
    "diversity_penalty",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    "repetition_penalty",
    "length_penalty",
    "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size",
    "bad_words_ids",
    "num_return_sequences",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "exponential_decay_length_penalty",
    "suppress_tokens",
    "begin_suppress_tokens",
    "summary_type",
    "summary_use_proj",
    "summary_activation",
    "summary_first_dropout",
    "summary_last_dropout",
    "summary_proj_to_labels",
    "unsloth_fixed",
    "unsloth_version",
};

bool of_no_account(std::string_view key) {
  return std::ranges::find(kOfNoAccount, key) != kOfNoAccount.end();
}

// An absence: nothing is asked for by it.
bool says_nothing(const Json& value) {
  return value.is_null() || (value.is_structured() && value.empty());
}

std::size_t whole_number(std::string_view key, const Json& value) {
  require(value.is_number_integer() && value >= 0 && value <= ModelLimits::kWidth,
          "[{}] {} is {}; need a whole number from 0 to {}", ConfigFields::kWho, key, value.dump(),
          ModelLimits::kWidth);
  return value.get<std::size_t>();
}

}  // namespace

ConfigFields::ConfigFields(const Json& object) : object_(&object) {
  require(object.is_object(), "[{}] the config is {}; need an object", kWho, object.type_name());
}

const Json& ConfigFields::at(const char* key) const {
  require(has(key), "[{}] the config has no {}{}", kWho, path_, key);
  return (*object_)[key];
}

ConfigFields ConfigFields::inside(const char* key) const {
  const Json& object = at(key);
  require(object.is_object(), "[{}] {}{} is {}; need an object", kWho, path_, key,
          object.type_name());
  return {*this, object, path_ + key + "."};
}

std::size_t ConfigFields::size(const char* key) const { return whole_number(key, at(key)); }

std::size_t ConfigFields::positive(const char* key) const {
  const std::size_t value = size(key);
  require(value > 0, "[{}] {}{} is 0; need 1 or more", kWho, path_, key);
  return value;
}

std::vector<std::size_t> ConfigFields::sizes(const char* key) const {
  const Json& value = at(key);
  std::vector<std::size_t> all;
  for (const Json& one : value.is_array() ? value : Json::array({value})) {
    all.push_back(whole_number(key, one));
  }
  return all;
}

std::vector<std::string> ConfigFields::texts(const char* key) const {
  const Json& value = at(key);
  require(value.is_array() && std::ranges::all_of(value, &Json::is_string),
          "[{}] {} is {}; need a list of names", kWho, key, value.dump());
  return value.get<std::vector<std::string>>();
}

std::vector<double> ConfigFields::numbers(const char* key) const {
  const Json& value = at(key);
  require(value.is_array() && std::ranges::all_of(value, &Json::is_number),
          "[{}] {} is {}; need a list of numbers", kWho, key, value.dump());
  return value.get<std::vector<double>>();
}

std::size_t ConfigFields::layers(const char* key) const {
  const std::size_t count = size(key);
  require(count <= ModelLimits::kLayers, "[{}] {} is {}; need at most {}", kWho, key, count,
          ModelLimits::kLayers);
  return count;
}

double ConfigFields::exact_number(const char* key, double otherwise) const {
  if (!has(key)) return otherwise;
  require(at(key).is_number(), "[{}] {} is {}; need a number", kWho, key, at(key).dump());
  return at(key).get<double>();
}

bool ConfigFields::flag(const char* key, bool otherwise) const {
  if (!has(key)) return otherwise;
  require(at(key).is_boolean(), "[{}] {} is {}; need true or false", kWho, key, at(key).dump());
  return at(key).get<bool>();
}

std::string ConfigFields::text(const char* key, std::string_view otherwise) const {
  if (!has(key)) return std::string(otherwise);
  require(at(key).is_string(), "[{}] {} is {}; need a string", kWho, key, at(key).dump());
  return at(key).get<std::string>();
}

std::int64_t ConfigFields::token(const char* key) const {
  if (!has(key)) return -1;
  require(at(key).is_number_integer(), "[{}] {} is {}; need a token", kWho, key, at(key).dump());
  return std::max<std::int64_t>(-1, at(key).get<std::int64_t>());
}

Activation ConfigFields::activation(const char* key, std::string_view otherwise) const {
  static constexpr std::array<std::pair<std::string_view, Activation>, 11> kKnown = {
      {{"gelu", Activation::kGelu},
       {"gelu_python", Activation::kGelu},
       {"gelu_new", Activation::kGeluTanh},
       {"gelu_fast", Activation::kGeluTanh},
       {"gelu_pytorch_tanh", Activation::kGeluTanh},
       {"quick_gelu", Activation::kQuickGelu},
       {"relu", Activation::kRelu},
       {"relu2", Activation::kRelu2},
       {"silu", Activation::kSilu},
       {"swish", Activation::kSilu},
       {"tanh", Activation::kTanh}}};
  const std::string name = text(key, otherwise);
  std::vector<std::string_view> names;
  for (const auto& [theirs, ours] : kKnown) {
    if (theirs == name) return ours;
    names.push_back(theirs);
  }
  throw_unknown(kWho, key, name, names);
}

std::size_t ConfigFields::classes() const {
  if (!has("id2label")) return size("num_labels", 2);
  require(at("id2label").is_object(), "[{}] id2label is {}; need an object", kWho,
          at("id2label").type_name());
  return at("id2label").size();
}

void ConfigFields::pass_over(std::initializer_list<const char*> keys) const {
  for (const char* key : keys) passed_->insert(path_ + key);
}

// Every field that nobody read, those of objects that were looked into too.
template <class See>
void ConfigFields::for_each(const Json& object, const std::string& path, See see) const {
  for (const auto& [key, value] : object.items()) {
    const std::string name = path + key;
    if (!read_->contains(name)) {
      see(key, name, value);
      continue;
    }
    const auto inner = read_->lower_bound(name + ".");
    if (value.is_object() && inner != read_->end() && inner->starts_with(name + ".")) {
      for_each(value, name + ".", see);
    }
  }
}

void ConfigFields::require_all_read() const {
  for_each(*object_, path_, [&](std::string_view key, const std::string& name, const Json& value) {
    if (says_nothing(value) || key.starts_with('_') || of_no_account(key)) return;
    if (passed_->contains(name)) return;
    const auto cut = [](std::string text) {
      return text.size() > 60 ? text.substr(0, 57) + "..." : text;
    };
    const std::string shown = cut(value.dump());
    throw Error(fmt::format(
        "[{}] the config has {} = {}, which longspan does not know in a model of type {}; remove "
        "it if it changes nothing, or describe the model by its dimensions",
        kWho, cut(name), shown, text("model_type", "?")));
  });
}

std::vector<std::string> ConfigFields::passed_over() const {
  std::vector<std::string> all;
  for_each(*object_, path_, [&](std::string_view, const std::string& name, const Json& value) {
    if (!says_nothing(value)) all.push_back(name);
  });
  return all;
}

}  // namespace longspan
