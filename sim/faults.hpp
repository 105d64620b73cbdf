// Slow and failing calls, for tests: RATION_SIM_LATENCY and RATION_SIM_FAULT. Used by every entry of the simulated
// driver. Promise: when neither is set, one predictable branch a call.
#pragma once

#include <cstdint>
#include <string>

#include "driver/cuda_abi.hpp"

namespace ration::sim {

/// Whether any call is to be slow or to fail. Written once, in cuInit.
extern bool calls_are_gated;

/// How long each kernel keeps its stream busy, in nanoseconds.
[[nodiscard]] std::uint64_t kernel_latency();

/// Reads both variables. False: one of them cannot be understood; `problem` says which part.
///   RATION_SIM_LATENCY='cuMemAlloc=132us,context=200ms,*=1us,kernel=1ms'   names without _v2 and _ptsz; `context`:
///   making one; `kernel`: what each keeps its stream busy, after its launch
///   RATION_SIM_FAULT='cuMemAlloc:call=3:error=2;cuMemCreate:above=1GiB'   the third call; calls for more than so many
///   bytes
bool read_gates(std::string& problem);

/// Waits as long as the call takes and says whether it is to fail.
[[nodiscard]] cuda::CUresult gate(const char* function, std::uint64_t bytes);

}  // namespace ration::sim
