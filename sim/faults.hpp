// Slow, failing and overtaken calls, for tests: RATION_SIM_LATENCY, RATION_SIM_FAULT and RATION_SIM_HOLD. Used by every
// entry of the simulated driver. Promise: if none is set, one predictable branch per call.
#pragma once

#include <cstdint>
#include <string>

#include "driver/cuda_abi.hpp"

namespace ration::sim {

/// True if any call is to be slow or to fail. Written once, in cuInit.
extern bool calls_are_gated;

/// Returns how long each kernel keeps its stream busy, in nanoseconds.
[[nodiscard]] std::uint64_t kernel_latency();

/// Reads the variables. False: one of them cannot be understood; `problem` says which part.
///   RATION_SIM_LATENCY='cuMemAlloc=132us,context=200ms,*=1us,kernel=1ms'   names without _v2 and _ptsz; `context`:
///   making one; `kernel`: what each keeps its stream busy, after its launch
///   RATION_SIM_FAULT='cuMemAlloc:call=3:error=2;cuMemCreate:above=1GiB'   the third call; calls for more than so many
///   bytes
///   RATION_SIM_HOLD='cuMemFree:before=10ms;cuMemRelease:after=10ms'   the thread of such a call is held so long before
///   the driver begins its work, or once that is done, and other threads of the process go on; one thread at a time
bool read_gates(std::string& problem);

/// Waits as long as the call takes and returns its error, if it is to fail.
[[nodiscard]] cuda::CUresult gate(const char* function, std::uint64_t bytes);

/// Holds the calling thread at the beginning of its call, if so configured. Must be called without any lock.
void hold_before(const char* function);
/// Holds it again at the end of its latest call, if so configured. Must be called without any lock.
void hold_after();

}  // namespace ration::sim
