#include "tests/fuzz/tree.h"

#include <bit>
#include <cmath>
#include <limits>

#include "longspan/io/json_file.h"

namespace longspan::fuzz {

namespace {

using nlohmann::json;

constexpr std::size_t kMostEdits = 8;
constexpr std::uint64_t kStop = 24;  // of 256 ways at a branch, those that edit the branch itself

json nested(json inside, int depth) {
  for (int i = 0; i < depth; ++i) inside = json::array({std::move(inside)});
  return inside;
}

// What a reader may have forgotten.
const std::vector<json>& nasty_values() {
  constexpr auto kLargest = std::numeric_limits<std::uint64_t>::max();
  static const std::vector<json> values = {0,
                                           1,
                                           2,
                                           3,
                                           7,
                                           8,
                                           16,
                                           63,
                                           64,
                                           65,
                                           1000,
                                           -1,
                                           -2,
                                           255,
                                           256,
                                           65535,
                                           65536,
                                           std::uint64_t{1} << 20U,
                                           std::uint64_t{1} << 31U,
                                           (std::uint64_t{1} << 32U) + 1,
                                           std::uint64_t{1} << 40U,
                                           (std::uint64_t{1} << 53U) + 1,
                                           (std::uint64_t{1} << 61U) + 1,
                                           std::uint64_t{1} << 62U,
                                           (std::uint64_t{1} << 63U) - 1,
                                           std::uint64_t{1} << 63U,
                                           kLargest - 7,
                                           kLargest,
                                           std::numeric_limits<std::int64_t>::min(),
                                           // Numbers
                                           0.0,
                                           -0.0,
                                           0.5,
                                           -0.5,
                                           1.0,
                                           1.5,
                                           -3.0,
                                           1e-300,
                                           5e-324,
                                           1e-9,
                                           1e9,
                                           1e19,
                                           1e20,
                                           1e300,
                                           1e308,
                                           -1e308,
                                           std::numeric_limits<double>::infinity(),
                                           -std::numeric_limits<double>::infinity(),
                                           std::numeric_limits<double>::quiet_NaN(),
                                           // Text
                                           "",
                                           " ",
                                           "0",
                                           "-1",
                                           "1",
                                           "2",
                                           "NaN",
                                           "inf",
                                           "1e999",
                                           "18446744073709551616",
                                           "true",
                                           "null",
                                           "a",
                                           "..",
                                           "/",
                                           "%s%n{}",
                                           "\x1b[31m",
                                           "\n",
                                           std::string("\0", 1),
                                           "\xC3\xA9",
                                           "\xF0\x9F\x92\xA9",
                                           "<script>",
                                           "\"'",
                                           "a|b",
                                           "|",
                                           ":",
                                           "=",
                                           ",",
                                           "flash",
                                           "full",
                                           "performer:features=0",
                                           "linformer:k=4",
                                           "experts:experts=2",
                                           "fourier",
                                           "reformer|longformer",
                                           "1|1",
                                           "encoder",
                                           "decoder",
                                           "encoder-decoder",
                                           "mlp",
                                           "classifier",
                                           "tagger",
                                           "pairs",
                                           "lm",
                                           "rotary",
                                           "axial",
                                           "reversible",
                                           "post",
                                           "squared-error",
                                           "F16",
                                           "U64",
                                           std::string(300, 'x'),
                                           std::string(5000, '9'),
                                           // Shapes
                                           nullptr,
                                           true,
                                           false,
                                           json::array(),
                                           json::object(),
                                           nested(0, 90),
                                           nested(0, 200),
                                           json(std::vector<int>(1000, 0)),
                                           json::array({-1, 1e308, "", nullptr}),
                                           {{"a", 1}}};
  return values;
}

enum class Edit : std::uint8_t { kRemove, kRepeat, kWrap, kInteger, kReal, kText, kCount };

// A value, and where it lies.
struct Spot {
  json* parent = nullptr;  // null: it is the root
  std::string key;         // of an object
  std::size_t index = 0;   // of an array
  json* value = nullptr;
};

Spot walk_down(json& root, Steering& steering) {
  Spot spot{.value = &root};
  while (spot.value->is_structured() && !spot.value->empty()) {
    const std::uint64_t way = steering.take(1);
    if (way < kStop && spot.parent != nullptr) break;
    const std::size_t size = spot.value->size();
    const std::size_t child = (size <= 128 ? way : way + 256 * steering.take(1)) % size;
    json* parent = spot.value;
    auto it = parent->begin();
    std::advance(it, static_cast<std::ptrdiff_t>(child));
    spot = {.parent = parent,
            .key = parent->is_object() ? it.key() : std::string(),
            .index = child,
            .value = &*it};
  }
  return spot;
}

void remove(const Spot& spot) {
  if (spot.parent == nullptr) return;
  if (spot.parent->is_object()) {
    spot.parent->erase(spot.key);
  } else {
    spot.parent->erase(spot.index);
  }
}

// Once more, under another name; or so often that it is long.
void repeat(const Spot& spot, std::size_t times) {
  if (spot.parent == nullptr) return;
  const json copy = *spot.value;
  if (spot.parent->is_object()) {
    (*spot.parent)[spot.key + "2"] = copy;
  } else {
    for (std::size_t i = 0; i < times; ++i) spot.parent->push_back(copy);
  }
}

std::string text_from(Steering& steering) {
  std::string text;
  for (std::size_t left = steering.below(12); left > 0 && !steering.done(); --left) {
    text += static_cast<char>(steering.take(1));
  }
  return text;
}

void apply(const Spot& spot, Steering& steering) {
  const std::vector<json>& values = nasty_values();
  const std::size_t choice = steering.below(values.size() + static_cast<std::size_t>(Edit::kCount));
  if (choice < values.size()) {
    *spot.value = values[choice];
    return;
  }
  switch (static_cast<Edit>(choice - values.size())) {
    case Edit::kRemove:
      return remove(spot);
    case Edit::kRepeat:
      return repeat(spot, 1 + steering.below(100));
    case Edit::kWrap:
      *spot.value = nested(*spot.value, 1 + static_cast<int>(steering.below(3)));
      return;
    case Edit::kInteger:
      *spot.value = steering.take(1 + steering.below(8));
      return;
    case Edit::kReal:
      *spot.value = std::bit_cast<double>(steering.take(8));
      return;
    default:
      *spot.value = text_from(steering);
  }
}

std::string toml_string(const std::string& text) { return json_text(json(text)); }

std::string toml_value(const json& value);

std::string toml_inline(const json& value) {
  std::string text;
  for (const auto& [key, item] : value.items()) {
    if (!text.empty()) text += ", ";
    text += value.is_object() ? toml_string(key) + " = " + toml_value(item) : toml_value(item);
  }
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

std::string toml_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return json(value).dump();
}

std::string toml_value(const json& value) {
  if (value.is_string()) return toml_string(value.get<std::string>());
  if (value.is_structured()) return toml_inline(value);
  if (value.is_number_float()) return toml_number(value.get<double>());
  return value.dump();  // null is no TOML, and is to be refused
}

}  // namespace

json edited(json tree, Steering& steering) {
  for (std::size_t i = 0; i < kMostEdits && !steering.done(); ++i) {
    apply(walk_down(tree, steering), steering);
  }
  return tree;
}

json edited(std::span<const json> trees, Bytes input) {
  Steering steer = steering(input);
  return edited(trees[steer.below(trees.size())], steer);
}

std::string json_text(const json& tree) {
  return tree.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string toml_text(const json& tree) {
  std::string text;
  if (!tree.is_object()) return toml_value(tree);
  for (const auto& [name, value] : tree.items()) {
    text += toml_string(name) + " = " + toml_value(value) + "\n";
  }
  return text;
}

std::vector<json> sound_trees(std::string_view target) {
  std::vector<json> trees;
  for (const std::string& file : sound_files(target)) trees.push_back(parse_json("[fuzz]", file));
  return trees;
}

}  // namespace longspan::fuzz
