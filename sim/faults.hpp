// Slow, failing and delayed calls for tests: RATION_SIM_LATENCY, RATION_SIM_FAULT and RATION_SIM_HOLD. Used by every
// entry of the simulated driver. Promise: if none of them is set, a call costs one predictable branch.
#pragma once

#include <cstdint>
#include <string>

#include "driver/cuda_abi.hpp"

namespace ration::sim {

/// True if any call is to be slow, to fail or to be held. cuInit writes it once.
extern bool calls_are_gated;

/// Returns the time for which each kernel keeps its stream busy, in nanoseconds.
[[nodiscard]] std::uint64_t kernel_latency();

/// Reads the variables. Returns false if one of them is invalid; `problem` says which part.
///   RATION_SIM_LATENCY='cuMemAlloc=132us,context=200ms,*=1us,kernel=1ms' sets the time of calls, by names without _v2
///   and _ptsz. `context` is the time to make a context, `kernel` the time for which each kernel keeps its stream busy.
///   RATION_SIM_FAULT='cuMemAlloc:call=3:error=2;cuMemCreate:above=1GiB' makes the third call of cuMemAlloc fail with
///   error 2, and every call of cuMemCreate for more than 1 GiB.
///   RATION_SIM_HOLD='cuMemFree:before=10ms;cuMemRelease:after=10ms' holds the thread of such a call for that time
///   before or after the driver does its work, while other threads of the process go on. Only one thread at a time is
///   held.
bool read_gates(std::string& problem);

/// Waits for the time that the call takes, and returns the error that it is to fail with, or CUDA_SUCCESS.
[[nodiscard]] cuda::CUresult gate(const char* function, std::uint64_t bytes);

/// Holds the calling thread at the beginning of its call, if so configured. Must be called without any lock.
void hold_before(const char* function);
/// Holds the calling thread at the end of its latest call, if so configured. Must be called without any lock.
void hold_after();

}  // namespace ration::sim
