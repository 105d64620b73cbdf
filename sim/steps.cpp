#include "steps.hpp"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>

namespace ration::sim {

void read_steps_to_live() {
  if (const char* given = std::getenv("RATION_SIM_KILL"); given != nullptr)
    steps_to_live = std::strtoul(given, nullptr, 10);
}

void count_step() {
  if (steps_to_live.fetch_sub(1) == 1) ::kill(::getpid(), SIGKILL);
}

}  // namespace ration::sim
