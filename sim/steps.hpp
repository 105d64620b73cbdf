// Points between two changes of the node's shared state: a process may be killed at any of them, and what is left must
// be put in order by the next process. Used by node*.cpp and shared_blocks.cpp. For tests: RATION_SIM_KILL=N kills the
// process with SIGKILL at its Nth step.
#pragma once

#include <atomic>

namespace ration::sim {

/// Steps until the process is killed; 0: it is not.
inline std::atomic<unsigned long> steps_to_live{0};

/// Reads RATION_SIM_KILL.
void read_steps_to_live();
void count_step();

/// Ends one change of the shared state: what comes before it in the program is in memory before what comes after it.
inline void step() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (steps_to_live.load(std::memory_order_relaxed) != 0) [[unlikely]]
    count_step();
}

}  // namespace ration::sim
