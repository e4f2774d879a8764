// Golden vectors: numbers of reference implementations, and how ours compare with them.
//
// A case is NAME.json (configuration, convention, measured errors) and NAME.safetensors (inputs,
// outputs, gradients); a whole model also has its weights. tests/golden/README.md has the format.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/io/safetensors.h"

namespace longspan::golden {

class Case {
 public:
  explicit Case(const std::filesystem::path& sidecar);

  std::string name() const { return sidecar_.at("name").get<std::string>(); }
  std::string mechanism() const { return sidecar_.at("mechanism").get<std::string>(); }
  const nlohmann::json& config() const { return sidecar_.at("config"); }
  const nlohmann::json& sidecar() const { return sidecar_; }
  const SafetensorsFile& file() const { return file_; }
  // The reference's weights, of a whole model.
  SafetensorsFile weights() const;

  // An I64 tensor; empty when the case has none of that name.
  std::vector<std::int32_t> integers(std::string_view name) const;
  // The names of the tensors that begin with "grad.".
  std::vector<std::string> gradients() const;

  // The reference's own float32 error e of the output, and of the worst gradient, gives what we
  // must meet: 20·e, at least 1e-5, rounded up to 1, 2 or 5·10^k; where e > 1e-4 2·e for an output
  // and 4·e for a gradient or a whole model.
  double output_tolerance() const;
  double gradient_tolerance() const;
  bool mathematically_zero(const std::string& tensor) const;

 private:
  std::filesystem::path path_;
  nlohmann::json sidecar_;
  SafetensorsFile file_;
};

// One tensor of ours against the reference: error = max|a − b| / max|b|.
struct Finding {
  std::string what;
  double error = std::numeric_limits<double>::infinity();
  double tolerance = 0.0;

  bool ok() const { return error <= tolerance; }  // false for NaN
  bool worse_than(const Finding& other) const;
};

class Comparison {
 public:
  explicit Comparison(const Case& golden) : golden_(golden) {}

  // What the next findings are about ("flash"). Every gradient of the case must be compared
  // between this and finish().
  void begin(std::string_view about);
  void output(const std::string& tensor, std::span<const float> ours);
  // Of rows, but for those of padding: of `length` each sequence has `lengths` (empty: all).
  void output_rows(const std::string& tensor, std::span<const float> ours, std::size_t length,
                   std::span<const std::int32_t> lengths);
  // Of an I64 tensor the error is the share of elements that differ.
  void integers(const std::string& tensor, std::span<const std::int32_t> ours);
  // A gradient without a scale of its own (mathematically zero, or all zeros in the reference) is
  // held against the largest gradient of the case.
  void gradient(const std::string& tensor, std::span<const float> ours);
  // But for those that begin with one of `beyond`: of parts that this build does not have.
  void finish(std::initializer_list<std::string_view> beyond = {});

  // The finding that is nearest to its tolerance, or farthest beyond it.
  const Finding& worst() const { return worst_; }

 private:
  void add(const std::string& tensor, double error, double tolerance);
  double error_of(const std::string& tensor, std::span<const float> ours, double scale) const;
  double largest_of(const std::string& tensor) const;
  double largest_gradient() const;

  const Case& golden_;
  std::string about_;
  std::set<std::string> compared_;
  Finding worst_{"nothing was compared"};
  bool any_ = false;
};

// Runs a case with every mechanism that claims to compute it.
struct Handler {
  std::string_view mechanism;  // as the sidecar names it
  void (*run)(const Case& golden, Comparison& comparison);
};

// One line for each mechanism of this build; null for one that it does not have.
const Handler* find_handler(std::string_view mechanism);

// What a case needs and this build does not have.
class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace longspan::golden
