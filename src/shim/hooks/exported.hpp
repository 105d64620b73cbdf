// Memory that other processes may keep alive. Its owner stays charged after giving it up, until the driver's own count
// of this process's bytes shows that it is gone; where the driver does not tell, until the process ends. Used by the
// hooks that release memory, and by the governor before it denies.
#pragma once

#include "base/bytes.hpp"
#include "shim/hooks/governor.hpp"

namespace ration::shim {

/// `size` bytes of that account can be held by others from now on.
void note_export(std::uint32_t account, Bytes size) noexcept;

/// This process gave up exported memory: its bytes stay charged.
void linger(std::uint32_t account, Bytes size, Kind kind) noexcept;

/// Refunds what is proven to be gone. Cheap while nothing lingers.
void refresh_lingering() noexcept;

}  // namespace ration::shim
