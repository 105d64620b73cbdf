// A model of the driver's stream-ordered pool (cuMemAllocAsync) under the guard, as frameworks use it that keep what it
// has (`backend:cudaMallocAsync`, `cuda_malloc_async`). The driver's choice among free parts is not documented: the
// model takes the first, as the simulated driver does.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "trace/whatif/allocator.hpp"

namespace ration::trace {

/// Makes the model; it has no settings. Fails with E1813 for any.
[[nodiscard]] Result<MakeAllocator> make_cuda_async(std::string_view settings);

}  // namespace ration::trace
