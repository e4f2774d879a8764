// One target as libFuzzer's; the build says which.
#include "tests/fuzz/fuzzing.h"

namespace longspan::fuzz {
int LONGSPAN_FUZZ_TARGET(Bytes input);
}  // namespace longspan::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return longspan::fuzz::LONGSPAN_FUZZ_TARGET({data, size});
}
