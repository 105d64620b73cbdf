// A program that holds so much for so long, one step after the other, as a person writes it: `2GiB:10s 6GiB:3s
// 2GiB:30s:idle +1GiB:5s`. Used by ration-workload, for demos and tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "sim/workload/allocators.hpp"

namespace ration::workload {

struct Step {
  std::string size;   ///< as written: what `50%` is, is known only on the device
  bool more = false;  ///< `+1GiB`: one block of that size beside what is held
  bool idle = false;  ///< touches nothing until its end; else it works: takes and returns a little all the time
  std::uint64_t nanoseconds = 0;
};

/// `[+]SIZE:TIME[:idle]`.
[[nodiscard]] Result<std::vector<Step>> read_steps(const std::vector<std::string>& words);

struct StepOptions {
  Bytes block{std::uint64_t{64} << 20};  ///< in what pieces memory is taken
  double speed = 1;
  bool repeat = false;  ///< until it is ended
  bool go_on = false;   ///< denied, it works with what it has and asks again; else it ends
  unsigned seed = 1;
};

/// Plays them. Less memory is reached by returning every second block first, as programs do whose objects live
/// unequally long: an allocator that keeps regions is left with holes. False: it was denied and does not go on.
[[nodiscard]] bool play_steps(Allocator& allocator, const std::vector<Step>& steps, const StepOptions& options);

}  // namespace ration::workload
