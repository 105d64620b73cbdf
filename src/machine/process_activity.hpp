// What the threads of processes have done, as the kernel counts it: whether a program that rests has stirred. Used by
// suspension.cpp. Promises: reads only /proc; what is not there counts as nothing done.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/process.hpp"

namespace ration::machine {

/// Since the thread began.
struct ThreadActivity {
  std::uint64_t processor_ns = 0;  ///< in steps of the kernel's clock tick where it keeps nothing finer
  std::uint64_t turns = 0;         ///< how often it was put on a processor
};

/// By thread number, as this pid namespace has it.
using ProcessActivity = std::map<std::int32_t, ThreadActivity>;

/// `proc`: where the kernel's process information is mounted.
[[nodiscard]] ProcessActivity activity_of(const std::vector<ProcessIdentity>& processes,
                                          const std::string& proc = "/proc");

/// What was done between two readings, by all threads but those left out. A thread that is new counts from its start.
[[nodiscard]] ThreadActivity activity_between(const ProcessActivity& before, const ProcessActivity& after,
                                              const std::set<std::int32_t>& left_out);

}  // namespace ration::machine
