// ration's own pool (libration/pool), which itself runs on a device that only accounts.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "trace/whatif/allocator.hpp"

namespace ration::trace {

/// Makes the pool with its default options; it has no settings. Fails with E1813 for any.
[[nodiscard]] Result<MakeAllocator> make_ration_pool(std::string_view settings);

}  // namespace ration::trace
