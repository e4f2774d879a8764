#include "tests/vectors/golden_case.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "longspan/base/error.h"
#include "longspan/io/json_file.h"

namespace longspan::golden {

namespace {

constexpr std::string_view kGradient = "grad.";
constexpr double kSmallestTolerance = 1e-5;
constexpr double kPoorReference = 1e-4;
constexpr double kZeroTolerance = 1e-5;

// The least of 1, 2 and 5·10^k that is not below x.
double round_up(double x) {
  const double power = std::pow(10.0, std::floor(std::log10(x)));
  const std::array<double, 3> steps = {1.0, 2.0, 5.0};
  const auto* const it =
      std::ranges::find_if(steps, [&](double s) { return s * power >= x * (1.0 - 1e-9); });
  return it == steps.end() ? 10.0 * power : *it * power;
}

double tolerance_for(double measured, double factor_of_poor) {
  if (measured > kPoorReference) return round_up(factor_of_poor * measured);
  return round_up(std::max(kSmallestTolerance, 20.0 * measured));
}

nlohmann::json checked(nlohmann::json sidecar, const std::filesystem::path& path) {
  for (const char* key : {"name", "mechanism"}) {
    require(sidecar.is_object() && sidecar.contains(key) && sidecar[key].is_string(),
            "[golden] {} has no '{}'; need a sidecar of golden vectors", path.string(), key);
  }
  for (const char* key : {"config", "measured_f32_vs_f64"}) {
    require(sidecar.contains(key) && sidecar[key].is_object(),
            "[golden] {} has no '{}'; need a sidecar of golden vectors", path.string(), key);
  }
  return sidecar;
}

}  // namespace

Case::Case(const std::filesystem::path& sidecar)
    : path_(sidecar),
      sidecar_(checked(read_json(sidecar), sidecar)),
      file_(std::filesystem::path(sidecar).replace_extension(".safetensors")) {}

SafetensorsFile Case::weights() const {
  return SafetensorsFile(path_.parent_path() / sidecar_.at("weights_file").get<std::string>());
}

std::vector<std::int32_t> Case::integers(std::string_view name) const {
  if (!file_.contains(name)) return {};
  std::vector<std::int32_t> narrow;
  for (const std::int64_t value : file_.integers(name)) {
    narrow.push_back(static_cast<std::int32_t>(value));
  }
  return narrow;
}

std::vector<std::string> Case::gradients() const {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : file_.tensors()) {
    if (tensor.name.starts_with(kGradient)) names.push_back(tensor.name);
  }
  return names;
}

double Case::output_tolerance() const {
  const nlohmann::json& measured = sidecar_.at("measured_f32_vs_f64");
  const bool whole = measured.contains("logits");
  if (!whole && !measured.contains("out")) {
    // A training step, what it leaves of the weights; or tables, of which each element counts.
    double worst = 0.0;
    for (const auto& item : measured.items()) {
      const bool table = item.value().contains("max_relative");
      worst = std::max(worst, item.value().at(table ? "max_relative" : "rel_to_max").get<double>());
    }
    return tolerance_for(worst, 2.0);
  }
  return tolerance_for(measured.at(whole ? "logits" : "out").at("rel_to_max").get<double>(),
                       whole ? 4.0 : 2.0);
}

double Case::gradient_tolerance() const {
  double worst = 0.0;
  for (const auto& item : sidecar_.at("measured_f32_vs_f64").items()) {
    if (!item.key().starts_with(kGradient) || mathematically_zero(item.key())) continue;
    worst = std::max(worst, item.value().at("rel_to_max").get<double>());
  }
  return tolerance_for(worst, 4.0);
}

bool Case::mathematically_zero(const std::string& tensor) const {
  const nlohmann::json& measured = sidecar_.at("measured_f32_vs_f64");
  return measured.contains(tensor) && measured[tensor].value("mathematically_zero", false);
}

bool Finding::worse_than(const Finding& other) const {
  if (std::isnan(error)) return true;
  return error / tolerance > other.error / other.tolerance;
}

void Comparison::begin(std::string_view about) {
  about_ = about;
  compared_.clear();
}

double Comparison::largest_of(const std::string& tensor) const {
  double largest = 0.0;
  for (const double b : golden_.file().doubles(tensor)) largest = std::max(largest, std::abs(b));
  return largest;
}

double Comparison::largest_gradient() const {
  double largest = 0.0;
  for (const std::string& tensor : golden_.gradients()) {
    largest = std::max(largest, largest_of(tensor));
  }
  return largest;
}

double Comparison::error_of(const std::string& tensor, std::span<const float> ours,
                            double scale) const {
  const std::vector<double> theirs = golden_.file().doubles(tensor);
  require(theirs.size() == ours.size(), "[golden] {} has {} elements; ours has {}", tensor,
          theirs.size(), ours.size());
  double worst = 0.0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double difference = std::abs(ours[i] - theirs[i]);
    if (!(difference <= worst)) worst = difference;  // keeps a NaN
    if (std::isnan(worst)) break;
  }
  return worst / scale;
}

void Comparison::add(const std::string& tensor, double error, double tolerance) {
  const Finding finding{tensor + ", " + about_, error, tolerance};
  if (!any_ || finding.worse_than(worst_)) worst_ = finding;
  any_ = true;
}

void Comparison::output(const std::string& tensor, std::span<const float> ours) {
  add(tensor, error_of(tensor, ours, largest_of(tensor)), golden_.output_tolerance());
}

void Comparison::output_rows(const std::string& tensor, std::span<const float> ours,
                             std::size_t length, std::span<const std::int32_t> lengths) {
  if (lengths.empty()) return output(tensor, ours);
  const std::vector<float> theirs = golden_.file().floats(tensor);
  const std::size_t sequence = ours.size() / lengths.size();
  require(theirs.size() == ours.size() && sequence % length == 0,
          "[golden] {} has {} elements; ours has {}", tensor, theirs.size(), ours.size());
  // What stands at padding is nobody's output.
  std::vector<float> real(ours.begin(), ours.end());
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    const std::size_t first =
        b * sequence + static_cast<std::size_t>(lengths[b]) * (sequence / length);
    std::copy(theirs.begin() + static_cast<std::ptrdiff_t>(first),
              theirs.begin() + static_cast<std::ptrdiff_t>((b + 1) * sequence),
              real.begin() + static_cast<std::ptrdiff_t>(first));
  }
  output(tensor, real);
}

void Comparison::integers(const std::string& tensor, std::span<const std::int32_t> ours) {
  const std::vector<std::int32_t> theirs = golden_.integers(tensor);
  require(!ours.empty() && theirs.size() == ours.size(), "[golden] {} has {} elements; ours has {}",
          tensor, theirs.size(), ours.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) wrong += ours[i] == theirs[i] ? 0 : 1;
  add(tensor, static_cast<double>(wrong) / static_cast<double>(ours.size()), kSmallestTolerance);
}

void Comparison::gradient(const std::string& tensor, std::span<const float> ours) {
  compared_.insert(tensor);
  const double own_scale = golden_.mathematically_zero(tensor) ? 0.0 : largest_of(tensor);
  if (own_scale > 0.0) {
    add(tensor, error_of(tensor, ours, own_scale), golden_.gradient_tolerance());
  } else {
    add(tensor, error_of(tensor, ours, largest_gradient()), kZeroTolerance);
  }
}

void Comparison::finish(std::initializer_list<std::string_view> beyond) {
  for (const std::string& tensor : golden_.gradients()) {
    const bool ours = std::ranges::none_of(
        beyond, [&](std::string_view beginning) { return tensor.starts_with(beginning); });
    require(!ours || compared_.contains(tensor), "[golden] nothing of ours belongs to {}", tensor);
  }
}

}  // namespace longspan::golden
