// Whether sanitizers watch the library, under which tests that only repeat themselves may repeat
// themselves less often: what they prove they prove in the other run.
#pragma once

extern "C" void __asan_init() __attribute__((weak));  // NOLINT: the sanitizer's own name

namespace longspan::testing {

inline bool watched() { return __asan_init != nullptr; }

}  // namespace longspan::testing
