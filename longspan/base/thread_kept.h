// What a thread keeps from call to call, one of it for each place that says
//
//   static ThreadKept<std::vector<float>> kept;
//   std::vector<float>& rows = kept();
//
// C++'s own thread_local is not used for what has a destructor: glibc ends the process when it has
// no memory to remember that one. This throws.
#pragma once

#include <pthread.h>

#include <memory>
#include <new>

namespace longspan {

template <class T>
class ThreadKept {
 public:
  ThreadKept() {
    const auto destroy = [](void* kept) { std::unique_ptr<T>(static_cast<T*>(kept)).reset(); };
    if (pthread_key_create(&key_, destroy) != 0) throw std::bad_alloc();
  }

  // Of the calling thread; made when it first asks, destroyed with it.
  T& operator()() const {
    if (void* const kept = pthread_getspecific(key_)) return *static_cast<T*>(kept);
    auto made = std::make_unique<T>();
    if (pthread_setspecific(key_, made.get()) != 0) throw std::bad_alloc();
    return *made.release();
  }

 private:
  pthread_key_t key_ = 0;
};

}  // namespace longspan
