// The pools of this process by number. Code that remembers a pool beyond its life (a thread's cache, a fork) looks up
// here whether the pool still exists.
#pragma once

#include <cstdint>
#include <functional>

namespace ration::pool {

class Pool;

/// Enters a pool and returns a number that no other pool of this process has had.
[[nodiscard]] std::uint64_t enter_pool(Pool& pool);
/// Removes the pool. Returns once no thread is inside with_pool() for it.
void leave_pool(std::uint64_t number);
/// Calls `act` if the pool exists; the pool cannot be destroyed meanwhile.
void with_pool(std::uint64_t number, const std::function<void(Pool&)>& act);

}  // namespace ration::pool
