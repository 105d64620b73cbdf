// The times at which the work on streams is done. Work takes effect when it is put on a stream. If it also takes time
// (`kernel` in RATION_SIM_LATENCY, or a kernel that spins), the stream and everything that waits for it is done only
// after that time. Used by the functions that put work on streams and those that wait for them. Every call may come
// from any thread.
//
// Promise: until some work has taken time, every stream is always done, and each query costs one load.
#pragma once

#include <cstdint>

#include "driver.hpp"

namespace ration::sim {

/// A time in nanoseconds of the steady clock; 0 is before any other time.
using Moment = std::int64_t;
[[nodiscard]] Moment now();

/// Puts work of this many nanoseconds on the stream. Does nothing for 0.
void occupy(cuda::CUstream stream, std::uint64_t nanoseconds);
/// Returns the time when all work on the stream is done, including work that it waits for: the legacy default stream
/// and the blocking streams of its context wait for each other.
[[nodiscard]] Moment end_of(cuda::CUstream stream);
/// Delays later work on the stream until `until`.
void delay(cuda::CUstream stream, Moment until);

[[nodiscard]] inline bool has_passed(Moment moment) { return moment == 0 || moment <= now(); }
void wait_until(Moment moment);
/// Waits until the stream is done.
inline void finish(cuda::CUstream stream) { wait_until(end_of(stream)); }
/// Waits until all work on streams of the current context is done.
void finish_context();

void forget_stream_times(cuda::CUstream stream);
void forget_stream_times(Context* context);

/// The properties of a stream, as streams.cpp knows them.
struct StreamKind {
  Context* context = nullptr;
  bool blocking = true;  // the stream and the legacy default stream wait for each other
};
[[nodiscard]] StreamKind kind_of(cuda::CUstream stream);

}  // namespace ration::sim
