// When the work on streams is done. What work does is done as it is put on a stream; where it takes time as well
// (`kernel` in RATION_SIM_LATENCY, or a kernel that spins), the stream, and whoever waits for it, is not done before
// that has passed. Used by what puts work on streams and by what waits for them. Every call may come from any thread.
//
// Promise: until some work has taken time, every stream is always done, and asking costs one load.
#pragma once

#include <cstdint>

#include "driver.hpp"

namespace ration::sim {

/// Nanoseconds of the steady clock; 0: before everything.
using Moment = std::int64_t;
[[nodiscard]] Moment now();

/// Puts work on the stream that takes so many nanoseconds. 0: nothing happens.
void occupy(cuda::CUstream stream, std::uint64_t nanoseconds);
/// When all is done that was put on the stream, or that work on it has to wait for: the legacy default stream and the
/// blocking ones of its context wait for each other.
[[nodiscard]] Moment end_of(cuda::CUstream stream);
/// What is put on the stream from now on does not begin before.
void delay(cuda::CUstream stream, Moment until);

[[nodiscard]] inline bool has_passed(Moment moment) { return moment == 0 || moment <= now(); }
void wait_until(Moment moment);
/// Waits until the stream is done.
inline void finish(cuda::CUstream stream) { wait_until(end_of(stream)); }
/// Waits until everything is done that was put on streams of the current context.
void finish_context();

void forget_stream_times(cuda::CUstream stream);
void forget_stream_times(Context* context);

/// What streams.cpp knows of a stream.
struct StreamKind {
  Context* context = nullptr;
  bool blocking = true;  // waits for the legacy default stream, and that for it
};
[[nodiscard]] StreamKind kind_of(cuda::CUstream stream);

}  // namespace ration::sim
