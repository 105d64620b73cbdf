// The steps that an allocator gets from a recording: the requests and frees of programs, in order, and the memory that
// was taken without the allocator. Each allocator that what-if tries gets the same steps many times, until the smallest
// limit is found, so the steps are kept in memory.
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
  kTaken,  ///< memory taken without the allocator: contexts, code, other libraries
  kGiven,
  kEnded,  ///< the process ended, with its allocator and its blocks
};

struct Step {
  std::uint64_t bytes = 0;
  std::uint32_t block = 0;  ///< number that no other live block has; numbers of freed blocks are used again
  std::uint16_t process = 0;
  std::uint8_t stream = 0;  ///< a number for each stream, from 0
  StepKind kind = StepKind::kAllocate;
};
static_assert(sizeof(Step) == 16);

struct Steps {
  std::vector<Step> steps;
  std::vector<std::int64_t> times;    ///< time of each step
  std::vector<std::uint64_t> events;  ///< number of each step's event in the recording
  std::uint32_t blocks = 0;           ///< greater than the number of any block
  std::uint16_t processes = 0;
  Bytes peak_live;  ///< the most bytes live at once, requested through the allocator or taken without it
  std::uint64_t allocations = 0;
};

inline constexpr std::size_t kMostSteps = std::size_t{12} << 20;

/// Collects the steps of one device. Fails with E1813 for more than kMostSteps.
[[nodiscard]] Result<Steps> steps_of(const Recording& recording, std::size_t device);

}  // namespace ration::trace
