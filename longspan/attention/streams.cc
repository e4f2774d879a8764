#include "longspan/attention/streams.h"

#include <algorithm>

namespace longspan {

Streams Streams::qkv(const AttentionLayout& l, bool key_bias) {
  const Source source = l.cross ? Source::kContext : Source::kInput;
  const std::string group = l.cross ? "kv" : "qkv";
  Streams streams{
      .given =
          {{.name = "q", .group = l.cross ? "q" : "qkv", .heads = l.heads, .width = l.d_head},
           {.name = "k", .group = group, .heads = l.kv_heads, .width = l.d_head, .source = source},
           {.name = "v", .group = group, .heads = l.kv_heads, .width = l.d_head, .source = source}},
      .output_heads = l.heads,
      .output_width = l.d_head};
  if (key_bias) return streams;
  streams.given[0].group = l.cross ? "q" : "qv";
  streams.given[1].group = "k";
  streams.given[1].bias = false;
  streams.given[2].group = l.cross ? "v" : "qv";
  return streams;
}

Streams Streams::shared_qk(const AttentionLayout& layout) {
  Streams streams = qkv(layout);
  streams.given.erase(streams.given.begin() + 1);
  return streams;
}

bool Streams::calls(Source source) const {
  return std::ranges::any_of(on_call, [&](const Stream& s) { return s.source == source; });
}

std::size_t Streams::columns(Source source) const {
  std::size_t total = 0;
  for (const Stream& s : given) total += s.source == source ? s.columns() : 0;
  return total;
}

}  // namespace longspan
