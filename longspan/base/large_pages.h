// Memory for large blocks, on large pages where the system has them: the processor keeps track of
// fewer pages, and first use faults less often.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

namespace longspan {

// At least 64-byte aligned; null if the machine refuses. Freed by std::free.
void* allocate_pages(std::size_t bytes);

template <class T>
struct LargePages {
  using value_type = T;
  LargePages() = default;
  template <class U>
  explicit LargePages(const LargePages<U>& /*other*/) {}
  T* allocate(std::size_t count) {
    void* memory = allocate_pages(count * sizeof(T));
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t /*count*/) { std::free(memory); }
  bool operator==(const LargePages&) const = default;
};

using FloatBlock = std::vector<float, LargePages<float>>;

}  // namespace longspan
