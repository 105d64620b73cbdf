// Runs ration's own pool (libration/pool), not a model of it, on a device that only accounts for memory.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "trace/whatif/allocator.hpp"

namespace ration::trace {

/// Makes the pool with its default options. Fails with E1813 for any settings, because the pool has none.
[[nodiscard]] Result<MakeAllocator> make_ration_pool(std::string_view settings);

}  // namespace ration::trace
