// Replays steps through an allocator under a limit, and finds the smallest limit that denies nothing.
#pragma once

#include <cstddef>
#include <optional>

#include "trace/whatif/allocator.hpp"
#include "trace/whatif/steps.hpp"

namespace ration::trace {

struct Replayed {
  std::optional<std::size_t> denied;  ///< index of the step that was denied; the replay ends there
  Bytes peak;                         ///< the most bytes taken at once
  Bytes held;                         ///< bytes taken at the end
};

[[nodiscard]] Replayed replay(const Steps& steps, const MakeAllocator& make, Bytes limit);

/// Returns the smallest limit, in whole granules, under which no step is denied; absent if no limit is enough. With one
/// granule less, a step is denied.
[[nodiscard]] std::optional<Bytes> smallest_limit(const Steps& steps, const MakeAllocator& make);

}  // namespace ration::trace
