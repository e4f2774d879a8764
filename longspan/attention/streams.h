// Streams: what a mechanism wants projected, stated from its options and the sizes of its layer
// alone.
//
//   given     the layer projects every row of the source: q, k and v first, then gates, decays, …
//   on call   the mechanism projects the rows it chooses: global tokens, distances, a history
//
// The streams of a group are rows of one matrix, "<layer>.<group>.weight", and one product. A
// stream on call that bears the name of a given one uses its matrix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace longspan {

enum class Source : std::uint8_t {
  kInput,    // the layer's own input
  kContext,  // what cross-attention reads
  kHistory,  // inputs of earlier segments
  kTable,    // rows that the mechanism makes itself
};

struct Stream {
  std::string name;
  std::string group;
  std::size_t heads = 1;
  std::size_t width = 0;  // of a head
  Source source = Source::kInput;
  std::size_t inputs = 0;         // width of a row of the source; 0: d_model
  std::optional<bool> bias = {};  // unset: as the layer's others

  std::size_t columns() const { return heads * width; }
};

// Where a mechanism is used, as sizes and names.
struct AttentionLayout {
  std::string name = "attention";  // of the layer: "encoder.0.attention"
  std::string stack = "stack";     // what layers that share a table have in common: "encoder"
  std::size_t layer = 0;
  std::size_t d_model = 0;
  std::size_t heads = 1;
  std::size_t kv_heads = 1;
  std::size_t d_head = 0;
  std::size_t max_length = 0;
  bool cross = false;
  float deviation = 0.02F;
  std::size_t step = 1;  // tokens of the model's input from one key to the next

  std::size_t width() const { return heads * d_head; }
};

struct Streams {
  std::vector<Stream> given;
  std::vector<Stream> on_call = {};
  // Of what the mechanism gives.
  std::size_t output_heads = 0;
  std::size_t output_width = 0;  // of a head

  // q, k and v, as most want them. Cross-attention takes k and v from the context.
  // Keys without a bias where the others have one are projected by themselves.
  static Streams qkv(const AttentionLayout& layout, bool key_bias = true);
  // The keys are the queries.
  static Streams shared_qk(const AttentionLayout& layout);

  std::size_t outputs() const { return output_heads * output_width; }
  // Whether streams on call read the source.
  bool calls(Source source) const;
  // Columns of the given streams from this source, side by side.
  std::size_t columns(Source source) const;
};

}  // namespace longspan
