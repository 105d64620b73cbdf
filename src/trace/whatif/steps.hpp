// The part of a recording that an allocator decides: what programs requested of it and freed, in order, and the memory
// that was taken beside it. Each allocator that what-if tries is given the same steps, as often as it takes to find the
// smallest limit, so they are kept in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "trace/event.hpp"

namespace ration::trace {

enum class StepKind : std::uint8_t {
  kAllocate,
  kFree,
  kTaken,  ///< beside the allocator: contexts, code, other libraries
  kGiven,
  kEnded,  ///< the process, with its allocator and its blocks
};

struct Step {
  std::uint64_t bytes = 0;
  std::uint32_t block = 0;  ///< a number that no other live block has; small ones are used again
  std::uint16_t process = 0;
  std::uint8_t stream = 0;  ///< a number for each stream, from 0
  StepKind kind = StepKind::kAllocate;
};
static_assert(sizeof(Step) == 16);

struct Steps {
  std::vector<Step> steps;
  std::vector<std::int64_t> times;    ///< of each step
  std::vector<std::uint64_t> events;  ///< its number in the recording
  std::uint32_t blocks = 0;           ///< more than the number of any block
  std::uint16_t processes = 0;
  Bytes peak_live;  ///< the most that was live at once, as requested, with what was taken beside it
  std::uint64_t allocations = 0;
};

inline constexpr std::size_t kMostSteps = std::size_t{12} << 20;

/// Collects the steps of one device. Fails with E1813 for more than kMostSteps.
[[nodiscard]] Result<Steps> steps_of(const Recording& recording, std::size_t device);

}  // namespace ration::trace
