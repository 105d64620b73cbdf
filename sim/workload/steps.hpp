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
  std::string size;   ///< as written, since only the device determines the size of `50%`
  bool more = false;  ///< `+1GiB`: one block of that size in addition
  bool idle = false;  ///< touches nothing until its end; other steps take and return a little all the time
  std::uint64_t nanoseconds = 0;
};

/// Reads steps of the form `[+]SIZE:TIME[:idle]`.
[[nodiscard]] Result<std::vector<Step>> read_steps(const std::vector<std::string>& words);

struct StepOptions {
  Bytes block{std::uint64_t{64} << 20};  ///< the size of the pieces in which memory is taken
  double speed = 1;
  bool repeat = false;  ///< repeats until it is ended
  bool go_on = false;   ///< if denied, works with what it has and asks again; else ends
  unsigned seed = 1;
};

/// Plays the steps. To hold less memory, returns every second block first, like programs with objects of different
/// lifetimes, so that an allocator that keeps regions is left with holes. Returns false if memory was denied and
/// `go_on` is false.
[[nodiscard]] bool play_steps(Allocator& allocator, const std::vector<Step>& steps, const StepOptions& options);

}  // namespace ration::workload
