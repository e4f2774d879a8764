#include "longspan/cost/device.h"

namespace {
// What the parser asserts of a file, and some files break.
struct BrokenAssertion {};
[[noreturn]] void throw_broken_assertion() { throw BrokenAssertion(); }
}  // namespace

// Thrown in every build: the parser's own way is to abort, or to rely on it where NDEBUG is set.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expression) ((expression) ? void() : throw_broken_assertion())
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include <algorithm>
#include <array>
#include <cmath>

#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/base/field_range.h"
#include "longspan/io/file.h"

namespace longspan {

namespace {

constexpr std::string_view kDevicesToml =
#include <devices_toml.inc>
    ;

// What figures may be: beyond any device, and far from where sums overflow.
struct Figure {
  std::string_view key;
  FieldRange range;
};
constexpr std::array kFigures = {
    Figure{"peak", {1.0, 1e24}},  Figure{"bandwidth", {1.0, 1e21}}, Figure{"memory", {1.0, 1e18}},
    Figure{"power", {1e-3, 1e9}}, Figure{"usual", {1e-6, 1.0}},     Figure{"price", {1e-6, 1e9}},
};

constexpr std::size_t kLongestLabel = 100;

constexpr std::array<std::string_view, 8> kFields = {"title",  "kind",  "peak",  "bandwidth",
                                                     "memory", "power", "usual", "price"};

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

// Fit for a line of a table.
bool is_label(std::string_view text) {
  return !text.empty() && text.size() <= kLongestLabel && std::ranges::none_of(text, &is_control);
}

// The first byte beyond ASCII that is neither in a comment nor in a string of one line; the size of
// the text where there is none. TOML has none elsewhere, and the parser, which takes it for a space
// or not, has an end there that it believes cannot be reached.
std::size_t stray_byte(std::string_view toml) {
  char within = 0;  // '#', a quote, or none
  for (std::size_t i = 0; i < toml.size(); ++i) {
    const char c = toml[i];
    const bool ascii = static_cast<unsigned char>(c) < 0x80;
    if (c == '\n') {
      within = 0;
    } else if (within == 0) {
      if (!ascii) return i;
      if (c == '#' || c == '"' || c == '\'') within = c;
      // Of three quotes two are an empty string and the third begins one that ends with its line: so
      // a string of several lines is looked at as if it were none.
    } else if (within == '"' && c == '\\') {
      ++i;
    } else if (c == within && c != '#') {
      within = 0;
    }
  }
  return toml.size();
}

// One [device.NAME] table; every failure names the line.
class Reader {
 public:
  Reader(std::string_view where, std::string_view name, const toml::table& table)
      : where_(where), name_(name), table_(table) {
    for (const auto& [key, value] : table) {
      if (std::ranges::find(kFields, key.str()) == kFields.end()) {
        throw_unknown("devices",
                      fmt::format("field of {} (line {})", name, value.source().begin.line),
                      printable(key.str()), {kFields.begin(), kFields.end()});
      }
    }
  }

  std::string text(std::string_view key) const {
    const toml::node& node = need(key);
    require(node.is_string(), "{}: {} of {} is not text; need \"…\"", at(node), key, name_);
    const std::string& label = node.as_string()->get();
    require(is_label(label), "{}: {} of {} is '{}'; need a line of 1 to {} bytes", at(node), key,
            name_, printable(label), kLongestLabel);
    return label;
  }
  double number(std::string_view key) const { return figure(key, key, need(key)); }

  std::map<std::string, double, std::less<>> numbers(std::string_view key) const {
    const toml::node& node = need(key);
    require(node.is_table() && !node.as_table()->empty(),
            "{}: {} of {} is not a table; need {{ fp32 = 1e12, … }}", at(node), key, name_);
    std::map<std::string, double, std::less<>> values;
    for (const auto& [format, value] : *node.as_table()) {
      require(is_label(format.str()), "{}: {} of {} has '{}'; need a format of 1 to {} bytes",
              at(value), key, name_, printable(format.str()), kLongestLabel);
      values[std::string(format.str())] =
          figure(key, fmt::format("{}.{}", key, format.str()), value);
    }
    return values;
  }

  std::optional<Range> range(std::string_view key) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return std::nullopt;
    if (!node->is_array()) return Range::exactly(figure(key, key, *node));
    const toml::array& pair = *node->as_array();
    require(pair.size() == 2, "{}: {} of {} has {} values; need [low, high]", at(*node), key, name_,
            pair.size());
    const double low = figure(key, key, pair[0]);
    const double high = figure(key, key, pair[1]);
    require(low <= high, "{}: {} of {} is [{}, {}]; need the lower first", at(*node), key, name_,
            low, high);
    return Range::between(low, high);
  }

 private:
  std::string at(const toml::node& node) const {
    return fmt::format("[devices] {}: line {}", where_, node.source().begin.line);
  }
  const toml::node& need(std::string_view key) const {
    const toml::node* node = table_.get(key);
    require(node != nullptr, "{}: {} has no {}; need one", at(table_), name_, key);
    return *node;
  }
  // `shown` names it in messages.
  double figure(std::string_view key, std::string_view shown, const toml::node& node) const {
    const FieldRange allowed = std::ranges::find(kFigures, key, &Figure::key)->range;
    require(node.is_number(), "{}: {} of {} is not a number; need one from {:g} to {:g}", at(node),
            shown, name_, allowed.least, allowed.most);
    const double value = node.is_integer() ? static_cast<double>(node.as_integer()->get())
                                           : node.as_floating_point()->get();
    require(allowed.contains(value), "{}: {} of {} is {:g}; need a number from {:g} to {:g}",
            at(node), shown, name_, value, allowed.least, allowed.most);
    return value;
  }

  std::string where_;
  std::string name_;
  const toml::table& table_;
};

Device read_device(std::string_view where, std::string_view name, const toml::table& table) {
  const Reader reader(where, name, table);
  Device device;
  device.name = name;
  device.title = reader.text("title");
  const std::string kind = reader.text("kind");
  const std::optional<DeviceKind> known = find_named<DeviceKind>(kind);
  require(known.has_value(), "[devices] {}: kind of {} is '{}'; need {}", where, name, kind,
          listed_names<DeviceKind>());
  device.kind = *known;
  device.peak = reader.numbers("peak");
  device.bandwidth = reader.number("bandwidth");
  device.memory = reader.number("memory");
  device.power = reader.number("power");
  device.usual = reader.range("usual");
  device.price = reader.range("price");
  return device;
}

}  // namespace

Range parse_range(std::string_view who, std::string_view key, std::string_view text) {
  const std::size_t colon = text.find(':');
  require(colon == std::string_view::npos || (colon > 0 && colon + 1 < text.size()),
          "[{}] {} is '{}'; need a number, or low:high", who, key, text);
  const double low = parse_number(who, key, text.substr(0, colon));
  const double high =
      colon == std::string_view::npos ? low : parse_number(who, key, text.substr(colon + 1));
  require(std::isfinite(high) && low > 0.0 && low <= high,
          "[{}] {} is '{}'; need a number above 0, or low:high with the lower one first", who, key,
          text);
  return Range::between(low, high);
}

std::vector<Device> parse_devices(std::string_view where, std::string_view toml) {
  // TOML has none.
  const auto control = std::ranges::find_if(
      toml, [](char c) { return is_control(c) && c != '\n' && c != '\r' && c != '\t'; });
  require(control == toml.end(), "[devices] {}: byte {} is a control character; need valid TOML",
          where, control - toml.begin());
  const std::size_t stray = stray_byte(toml);
  require(stray == toml.size(),
          "[devices] {}: byte {} is beyond ASCII outside of quotes; need valid TOML", where, stray);
  toml::table root;
  try {
    root = toml::parse(toml, where);
  } catch (const toml::parse_error& error) {
    throw Error(fmt::format("[devices] {}: line {}, column {}: {}; need valid TOML", where,
                            error.source().begin.line, error.source().begin.column,
                            printable(error.description())));
  } catch (const BrokenAssertion&) {
    throw Error(fmt::format("[devices] {}: is not to be parsed; need valid TOML", where));
  }
  const toml::table* tables = root["device"].as_table();
  require(tables != nullptr, "[devices] {}: has no [device.NAME]; need at least one", where);
  std::vector<Device> devices;
  for (const auto& [name, node] : *tables) {
    require(is_label(name.str()),
            "[devices] {}: line {}: a device '{}'; need a name of 1 to {} bytes", where,
            node.source().begin.line, printable(name.str()), kLongestLabel);
    require(node.is_table(), "[devices] {}: line {}: device.{} is not a table; need [device.{}]",
            where, node.source().begin.line, name.str(), name.str());
    devices.push_back(read_device(where, name.str(), *node.as_table()));
  }
  return devices;
}

std::vector<Device> known_devices(const std::filesystem::path& file) {
  std::vector<Device> devices = parse_devices("built in", kDevicesToml);
  if (file.empty()) return devices;
  for (Device& own : parse_devices(file.string(), read_file("devices", file, kMostTable))) {
    std::erase_if(devices, [&](const Device& d) { return d.name == own.name; });
    devices.push_back(std::move(own));
  }
  return devices;
}

const Device& find_device(const std::vector<Device>& devices, std::string_view name) {
  std::vector<std::string_view> known;
  for (const Device& device : devices) {
    if (device.name == name) return device;
    known.push_back(device.name);
  }
  throw_unknown("plan", "device", name, known);
}

double peak_of(const Device& device, std::string_view format) {
  const auto it = device.peak.find(format);
  if (it != device.peak.end()) return it->second;
  std::vector<std::string_view> known;
  for (const auto& [name, value] : device.peak) known.push_back(name);
  throw_unknown("plan", "number format", format, known);
}

std::string_view usual_format(const Device& device) {
  for (const std::string_view format : {"bf16", "fp16", "fp32"}) {
    if (device.peak.contains(format)) return format;
  }
  return device.peak.begin()->first;
}

}  // namespace longspan
