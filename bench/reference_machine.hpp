// How this machine's nanoseconds compare with those of the machine that the bounds were set for (docs/benchmarks.md).
#pragma once

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace ration::bench {

/// Two uncontended lock+unlock rounds of a robust process-shared mutex take so long there.
inline constexpr double kReferenceLockNs = 28;

/// The same here: the median of seven.
inline double two_lock_rounds_ns() {
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_t mutex;
  ::pthread_mutex_init(&mutex, &attributes);
  constexpr int kTimes = 200'000;
  std::vector<double> runs;
  for (int run = 0; run < 7; ++run) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 2 * kTimes; ++i) {
      ::pthread_mutex_lock(&mutex);
      ::pthread_mutex_unlock(&mutex);
    }
    runs.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / kTimes);
  }
  std::sort(runs.begin(), runs.end());
  return runs[runs.size() / 2];
}

/// How many of this machine's nanoseconds make one of the reference machine's; at least 1. Prints it.
inline double measure_slowness() {
  const double here = two_lock_rounds_ns();
  const double slowness = std::max(1.0, here / kReferenceLockNs);
  std::printf(
      "two robust lock+unlock rounds take %.1f ns here, 28 on the reference machine: its nanoseconds are %.2f of "
      "ours\n\n",
      here, 1 / slowness);
  return slowness;
}

}  // namespace ration::bench
