#include "longspan/layers/decode_cache.h"

#include <cassert>

#include "longspan/kernels/rows/vector.h"

namespace longspan {

namespace {

// What the tokens that are kept have filled of a sequence.
Matrix tokens_of_cache(const DecodeCache& cache, const DecodeCache::Part& part,
                       std::size_t sequence) {
  const std::size_t plane = part.each / part.planes;
  const std::size_t live =
      part.token == 0 ? plane : (cache.used - cache.first_of(cache.used)) * part.token;
  return {cache.data + part.begin + sequence * part.each, part.planes, live, plane};
}

}  // namespace

void DecodeCache::clear() {
  used = 0;
  fill({data, 1, zeroed}, 0.0F);
}

void DecodeCache::copy_sequence(std::size_t from, std::size_t to) const {
  assert(from < batch && to < batch);
  if (from == to) return;
  for (const Part& part : parts) {
    if (part.each == 0 || part.fixed) continue;
    copy(tokens_of_cache(*this, part, from), tokens_of_cache(*this, part, to));
  }
}

void DecodeCache::take(const DecodeCache& one) {
  assert(one.batch == 1 && one.capacity == capacity);
  used = one.used;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part& from = one.parts[i];
    const Part& to = parts[i];
    if (to.common > 0) {
      copy(ConstMatrix(one.data + from.begin, 1, to.common), Matrix(data + to.begin, 1, to.common));
    }
    if (to.each == 0) continue;
    for (std::size_t b = 0; b < batch; ++b)
      copy(tokens_of_cache(one, from, 0), tokens_of_cache(*this, to, b));
  }
}

}  // namespace longspan
