// Stream capture: while a stream is captured, work put on it becomes nodes of a graph instead of being done. Used by
// the functions that put work on a stream or take memory in its order. Called without driver().mutex held.
#pragma once

#include "driver.hpp"
#include "driver/cuda_copy_abi.hpp"
#include "driver/cuda_graph_abi.hpp"

namespace ration::sim {

/// Converts `stream` as the per-thread variants (_ptsz) of the driver's functions do.
inline cuda::CUstream per_thread(cuda::CUstream stream) {
  return stream == nullptr ? reinterpret_cast<cuda::CUstream>(std::uintptr_t{2}) : stream;
}

[[nodiscard]] bool is_captured(cuda::CUstream stream);

/// Adds a node without work, for a kernel put on `stream`. Returns false if the stream is not captured: do the work
/// now.
[[nodiscard]] bool capture_work(cuda::CUstream stream, cuda::CUgraphNodeType type = cuda::CU_GRAPH_NODE_TYPE_KERNEL);
/// As capture_work(), for a copy or a fill, which each launch of the graph does.
[[nodiscard]] bool capture_copy(cuda::CUstream stream, const cuda::CUDA_MEMCPY3D& copy);
[[nodiscard]] bool capture_fill(cuda::CUstream stream, const cuda::CUDA_MEMSET_NODE_PARAMS& fill);
/// Records the event's place in the graph of a captured stream. Returns false if it is not captured.
bool capture_record(cuda::CUevent event, cuda::CUstream stream);
/// Makes `stream` wait for such an event, which draws it into the capture. Returns false if the event was not captured.
bool capture_wait(cuda::CUstream stream, cuda::CUevent event);

/// A call that waits for a whole context is not allowed while a stream of it is captured, and invalidates the capture.
/// False: none is.
[[nodiscard]] bool break_captures_of(const Context* context);

/// A call that is potentially unsafe is not allowed while a stream is captured, unless the capture or the calling
/// thread is relaxed, and invalidates the capture (CUDA driver API, cuThreadExchangeStreamCaptureMode). False: it is
/// allowed.
[[nodiscard]] bool break_captures_by_unsafe_call();

/// Captures an allocation or a free on a captured stream.
cuda::CUresult capture_allocation(cuda::CUstream stream, int device, std::size_t size, cuda::CUdeviceptr& out);
cuda::CUresult capture_free(cuda::CUstream stream, cuda::CUdeviceptr address);

}  // namespace ration::sim
