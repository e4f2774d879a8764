// Runs a test on every instruction set that this CPU has.
#pragma once

#include <functional>

namespace longspan::testing {

// Calls body once per Highway target, with dynamic dispatch bound to that target; a failure inside
// names the target. Afterwards the best target is bound again.
void for_each_target(const std::function<void()>& body);

// Calls body with one thread, then with two, then with three; a failure inside names the count.
void for_each_thread_count(const std::function<void()>& body);

}  // namespace longspan::testing
