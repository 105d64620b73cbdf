// The pools of this process by their number: code that remembers a pool beyond its life (a thread's cache, a fork)
// looks up here whether it still lives.
#pragma once

#include <cstdint>
#include <functional>

namespace ration::pool {

class Pool;

/// Enters a pool and returns a number that no other pool of this process has had.
[[nodiscard]] std::uint64_t enter_pool(Pool& pool);
/// Returns when no thread is inside with_pool() for it.
void leave_pool(std::uint64_t number);
/// Calls `act` if that pool lives; it cannot be destroyed meanwhile.
void with_pool(std::uint64_t number, const std::function<void(Pool&)>& act);

}  // namespace ration::pool
