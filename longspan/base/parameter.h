// Parameters: declared by the layers, laid out by the model in two flat blocks, values and
// gradients.
//
// Declaring takes no memory, so a model of any size can be built and run dry: until allocate() the
// values and gradients have addresses that nobody can read.
#pragma once

#include <cassert>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "longspan/base/dry.h"
#include "longspan/base/large_pages.h"
#include "longspan/base/place.h"
#include "longspan/base/random.h"
#include "longspan/base/view.h"

namespace longspan {

struct Initializer {
  enum class Kind : std::uint8_t { kZeros, kOnes, kNormal };
  Kind kind = Kind::kZeros;
  float deviation = 0.0F;

  static Initializer zeros() { return {}; }
  static Initializer ones() { return {Kind::kOnes, 0.0F}; }
  static Initializer normal(float deviation) { return {Kind::kNormal, deviation}; }
};

// What weights are allocated for.
enum class Purpose : std::uint8_t { kTraining, kInference };

// What a parameter is for. Biases have the role of their matrix.
enum class Role : std::uint8_t {
  kEmbedding,      // tables of an embedding, and its norm
  kProjection,     // a matrix inside a branch
  kBranchOutput,   // the last matrix of a branch, which writes into the residual stream
  kNorm,           // of a branch or a stack
  kHidden,         // a layer of a perceptron
  kHead,           // what transforms the input of the last layer
  kLastLayer,      // gives the outputs
  kAdapter,        // low rank, beside a projection
  kOutputAdapter,  // low rank, beside the last matrix of a branch
  kMechanism,      // a mechanism's own
};

struct Parameter {
  std::string name;
  Role role = Role::kMechanism;
  Place place;  // where it was declared: part, block and, as layer, the branch
  std::size_t rows = 1;
  std::size_t cols = 0;  // a vector has one row
  bool is_vector = false;
  bool constant = false;  // not trained: it has no gradient; saved with the others
  bool packable = false;  // read by products as a whole, and by look-ups
  bool packed = false;    // the values are in the layout of the micro-kernels
  Initializer initializer;
  std::function<void(Matrix)> fill;  // instead of the initializer
  std::span<float> value;
  std::span<float> gradient;  // empty if constant
  // What a learning rule has the signal go back through instead of the value; empty: the value.
  std::span<const float> feedback;

  std::size_t size() const { return rows * cols; }
  std::vector<std::size_t> shape() const {
    return is_vector ? std::vector<std::size_t>{cols} : std::vector<std::size_t>{rows, cols};
  }
  ConstMatrix matrix() const {
    assert(!packed);
    return {value.data(), rows, cols};
  }
  // For products, in whatever layout.
  WeightMatrix weights() const { return {ConstMatrix(value.data(), rows, cols), packed}; }
  // What carries the signal from the outputs of the matrix to its inputs.
  ConstMatrix backward_matrix() const {
    assert(!packed);
    return {feedback.empty() ? value.data() : feedback.data(), rows, cols};
  }
  Matrix gradient_matrix() const { return {gradient.data(), rows, cols}; }
};

class Parameters {
 public:
  // Weights and their number of names, of any model that is walked: nobody's is larger, and a wrong
  // number must not become an allocation.
  static constexpr std::size_t kMostWeights = std::size_t{1} << 56U;
  static constexpr std::size_t kMostNames = std::size_t{1} << 20U;

  // Names must be unique. The reference stays valid as long as this object.
  Parameter& declare(std::string name, std::size_t rows, std::size_t cols, Initializer initializer,
                     Role role = Role::kMechanism);
  Parameter& declare(std::string name, std::size_t size, Initializer initializer,
                     Role role = Role::kMechanism);
  // Values that are drawn or set, never trained: random features, rotations.
  Parameter& declare_constant(std::string name, std::size_t rows, std::size_t cols,
                              std::function<void(Matrix)> fill);

  // While it lives and is `on`, a name that is declared already stands for what it was.
  class Sharing {
   public:
    Sharing(Parameters& parameters, bool on)
        : parameters_(parameters), before_(parameters.sharing_) {
      parameters.sharing_ = on;
    }
    ~Sharing() { parameters_.sharing_ = before_; }
    Sharing(const Sharing&) = delete;
    Sharing& operator=(const Sharing&) = delete;

   private:
    Parameters& parameters_;
    bool before_;
  };

  // Such ones are no longer trained. Before allocate().
  void freeze(const std::function<bool(const Parameter&)>& such);

  // Of the trained ones.
  std::size_t count() const { return count_; }
  // Of all.
  std::size_t total() const { return count_ + constant_count_; }
  const std::deque<Parameter>& all() const { return all_; }
  std::deque<Parameter>& all() { return all_; }
  Parameter* find(std::string_view name);

  // Two flat blocks: matrices first, then vectors, so that weight decay is one range. Constants
  // have a block of their own. What is only to infer goes without gradients.
  void allocate(Purpose purpose = Purpose::kTraining);
  bool allocated() const { return allocated_; }
  // Throws Error where there are no gradients, or weights are packed; `who` asks.
  void require_trainable(std::string_view who) const;
  // Throws Error before that; `who` asks.
  void require_allocated(std::string_view who) const;
  // to[i] = deviation·z_i, z normal numbers of the stream: kernels/rows/draw_normal.h.
  using DrawNormal = void (*)(RandomKey key, float deviation, std::span<float> to);
  // Each parameter draws from the stream that its name gives; constants fill themselves.
  void initialize(RandomKey seed, DrawNormal draw);

  std::span<float> values() { return allocated_ ? values_ : Dry::memory<float>(count_); }
  std::span<float> gradients() { return allocated_ ? gradients_ : Dry::memory<float>(count_); }
  std::size_t matrix_count() const { return matrix_count_; }

 private:
  void make_constant(Parameter& p);

  std::deque<Parameter> all_;
  std::unordered_map<std::string_view, Parameter*> by_name_;
  std::size_t count_ = 0;
  std::size_t matrix_count_ = 0;
  std::size_t constant_count_ = 0;
  bool allocated_ = false;
  bool sharing_ = false;
  Purpose purpose_ = Purpose::kTraining;
  FloatBlock values_;
  FloatBlock gradients_;
  std::vector<float> constants_;
};

}  // namespace longspan
