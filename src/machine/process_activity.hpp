// Reads how active the threads of processes are from the kernel's counters, to find out whether an idle program has
// become active. Used by suspension. Promises: reads only /proc; missing data counts as no activity.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/process.hpp"

namespace ration::machine {

/// The activity of a thread since it began.
struct ThreadActivity {
  std::uint64_t processor_ns = 0;  ///< in steps of the clock tick if the kernel counts no finer
  std::uint64_t turns = 0;         ///< number of times that it was put on a processor
};

/// The activity of threads, by their ids in this pid namespace.
using ProcessActivity = std::map<std::int32_t, ThreadActivity>;

/// Reads the activity of all threads of the processes; `proc` is where the kernel's process information is mounted.
[[nodiscard]] ProcessActivity activity_of(const std::vector<ProcessIdentity>& processes,
                                          const std::string& proc = "/proc");

/// Returns the activity between two readings, summed over all threads except `left_out`. A new thread counts from its
/// start.
[[nodiscard]] ThreadActivity activity_between(const ProcessActivity& before, const ProcessActivity& after,
                                              const std::set<std::int32_t>& left_out);

}  // namespace ration::machine
