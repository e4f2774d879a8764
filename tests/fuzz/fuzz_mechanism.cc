// Specifications of mechanisms, "kind:key=value,…", each in a small encoder and decoder.
#include "longspan/attention/registry.h"
#include "longspan/base/config.h"
#include "longspan/testing/temporary_directory.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/fuzz/tree.h"
#include "tests/fuzz/use_model.h"

namespace longspan::fuzz {

namespace {

// A mechanism's options, which it names when it is asked for another.
std::vector<std::string> options_of(const Mechanism& mechanism) {
  const std::string text = testing::message_of([&] { mechanism.abilities("?=1"); });
  if (text.ends_with("it has none")) return {};
  for (const std::string_view before : {"Known: ", "need one of "}) {
    const std::size_t at = text.find(before);
    if (at == text.npos) continue;
    std::vector<std::string> names = split_list(text.substr(at + before.size()), ',');
    for (std::string& name : names) name.erase(0, name.find_first_not_of(' '));
    return names;
  }
  throw Violated("no options in: " + text);
}

std::vector<nlohmann::json> mechanism_trees() {
  std::vector<nlohmann::json> trees;
  for (const Mechanism& mechanism : mechanisms()) {
    nlohmann::json options = nlohmann::json::object();
    for (const std::string& name : options_of(mechanism)) options[name] = 4;
    trees.push_back({{"kind", mechanism.name}, {"options", options}});
  }
  return trees;
}

std::string plain(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

// Options that were not edited are left out: most of them allow no others than their defaults.
std::string specification_of(const nlohmann::json& tree) {
  if (!tree.is_object()) return plain(tree);
  std::string text = plain(tree.value("kind", nlohmann::json("flash")));
  const nlohmann::json options = tree.value("options", nlohmann::json::object());
  char before = ':';
  for (const auto& [key, value] : options.items()) {
    if (value == 4) continue;
    text += before + key + "=" + plain(value);
    before = ',';
  }
  return text;
}

}  // namespace

int fuzz_mechanism(Bytes input) {
  static const std::vector<nlohmann::json> trees = mechanism_trees();
  const std::string specification =
      edits(input) ? specification_of(edited(trees, input)) : std::string(text_of(input));
  for (const Family family : {Family::kEncoder, Family::kDecoder}) {
    outcome_of([&] {
      ModelConfig config;
      config.family = family;
      config.layers = 1;
      config.d_model = 8;
      config.heads = 2;
      config.vocab = 7;
      config.max_length = 24;
      config.attention = specification;
      use_model(config);
    });
  }
  return 0;
}

}  // namespace longspan::fuzz
