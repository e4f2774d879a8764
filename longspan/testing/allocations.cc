#include "longspan/testing/allocations.h"

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

std::atomic<std::size_t> count = 0;
constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
std::atomic<std::size_t> refused = kNone;  // the one that is

void* counted(std::size_t bytes, std::size_t alignment) noexcept {
  if (count++ == refused) return nullptr;
  return alignment <= alignof(std::max_align_t)
             ? std::malloc(bytes == 0 ? 1 : bytes)
             : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* required(std::size_t bytes, std::size_t alignment) {
  void* p = counted(bytes, alignment);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

std::size_t size(std::align_val_t a) { return static_cast<std::size_t>(a); }

}  // namespace

// Clang's sanitizers have their own, beside which there can be no others: nothing is counted then,
// and who counts is not asked (see the presets tsan and fuzz).
#ifdef __has_feature
#define LONGSPAN_SANITIZED __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#else
#define LONGSPAN_SANITIZED 0
#endif
#if !(LONGSPAN_SANITIZED)
void* operator new(std::size_t bytes) { return required(bytes, 1); }
void* operator new[](std::size_t bytes) { return required(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t a) { return required(bytes, size(a)); }
void* operator new[](std::size_t bytes, std::align_val_t a) { return required(bytes, size(a)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes, 1); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes, 1);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
#endif

namespace longspan::testing {

std::size_t allocations() { return count; }

RefusedAllocation::RefusedAllocation(std::size_t more) { refused = count + more; }
RefusedAllocation::~RefusedAllocation() { refused = kNone; }

}  // namespace longspan::testing
