// A model of the driver's stream-ordered pool (cuMemAllocAsync) under the guard, for frameworks that let the pool keep
// its memory (`backend:cudaMallocAsync`, `cuda_malloc_async`). How the driver chooses among free parts is not
// documented. The model takes the first, as the simulated driver does.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "trace/whatif/allocator.hpp"

namespace ration::trace {

/// Makes the model. Fails with E1813 for any settings, because the model has none.
[[nodiscard]] Result<MakeAllocator> make_cuda_async(std::string_view settings);

}  // namespace ration::trace
