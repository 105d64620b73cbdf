// A program that holds given amounts of memory for given times, one step after the other, in a person's words:
// `2GiB:10s 6GiB:3s 2GiB:30s:idle +1GiB:5s`. Used by ration-workload, for demos and tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "sim/workload/allocators.hpp"

namespace ration::workload {

struct Step {
  std::string size;   ///< as written, because the size of `50%` depends on the device
  bool more = false;  ///< `+1GiB`: one block of that size in addition
  bool idle = false;  ///< keeps its memory unchanged; other steps take and return a little all the time
  std::uint64_t nanoseconds = 0;
};

/// Reads steps of the form `[+]SIZE:TIME[:idle]`.
[[nodiscard]] Result<std::vector<Step>> read_steps(const std::vector<std::string>& words);

struct StepOptions {
  Bytes block{std::uint64_t{64} << 20};  ///< the size of the pieces in which memory is taken
  double speed = 1;
  bool repeat = false;  ///< true: repeats the steps until the process is ended
  bool go_on = false;   ///< true: after a denial, works with what it has and asks again; false: ends
  unsigned seed = 1;
};

/// Plays the steps. To hold less memory, returns every second block first. This leaves holes in the regions of an
/// allocator, as programs with objects of different lifetimes do. Returns false if memory was denied and `go_on` is
/// false.
[[nodiscard]] bool play_steps(Allocator& allocator, const std::vector<Step>& steps, const StepOptions& options);

}  // namespace ration::workload
