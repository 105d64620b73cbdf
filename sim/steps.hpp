// The points between two changes of the node's shared state. A process may be killed at any of them, and the next
// process must then repair the state. Used by node*.cpp and shared_blocks.cpp. For tests, RATION_SIM_KILL=N kills the
// process with SIGKILL at its Nth step.
#pragma once

#include <atomic>

namespace ration::sim {

/// The number of steps until the process is killed; 0 means never.
inline std::atomic<unsigned long> steps_to_live{0};

/// Reads RATION_SIM_KILL.
void read_steps_to_live();
void count_step();

/// Ends one change of the shared state: earlier stores of the program reach memory before later ones.
inline void step() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (steps_to_live.load(std::memory_order_relaxed) != 0) [[unlikely]]
    count_step();
}

}  // namespace ration::sim
