// Stream capture: work that is put on a captured stream becomes nodes of a graph and is not done. Used by the functions
// that put work on a stream or allocate memory in stream order. They call these functions without driver().mutex.
#pragma once

#include "driver.hpp"
#include "driver/cuda_copy_abi.hpp"
#include "driver/cuda_graph_abi.hpp"

namespace ration::sim {

/// Returns the stream that the per-thread variants (_ptsz) of the driver's functions use for `stream`.
inline cuda::CUstream per_thread(cuda::CUstream stream) {
  return stream == nullptr ? reinterpret_cast<cuda::CUstream>(std::uintptr_t{2}) : stream;
}

[[nodiscard]] bool is_captured(cuda::CUstream stream);

/// Adds a node without work, for a kernel put on `stream`. Returns false if the stream is not captured; the caller then
/// does the work.
[[nodiscard]] bool capture_work(cuda::CUstream stream, cuda::CUgraphNodeType type = cuda::CU_GRAPH_NODE_TYPE_KERNEL);
/// Adds a node for a copy or a fill; every launch of the graph does that copy or fill. Returns false if the stream is
/// not captured.
[[nodiscard]] bool capture_copy(cuda::CUstream stream, const cuda::CUDA_MEMCPY3D& copy);
[[nodiscard]] bool capture_fill(cuda::CUstream stream, const cuda::CUDA_MEMSET_NODE_PARAMS& fill);
/// Records the event's place in the graph of a captured stream. Returns false if the stream is not captured.
bool capture_record(cuda::CUevent event, cuda::CUstream stream);
/// Makes `stream` wait for an event that capture_record() recorded, and so includes the stream in the capture. Returns
/// false if capture_record() did not record the event.
bool capture_wait(cuda::CUstream stream, cuda::CUevent event);

/// Invalidates the captures on streams of the context, for a call that waits for the whole context and is therefore not
/// allowed. Returns false if no stream of the context is captured.
[[nodiscard]] bool break_captures_of(const Context* context);

/// Invalidates the captures that forbid a potentially unsafe call. A capture forbids it unless the capture or the
/// calling thread is relaxed (CUDA driver API, cuThreadExchangeStreamCaptureMode). Returns false if the call is
/// allowed.
[[nodiscard]] bool break_captures_by_unsafe_call();

/// Invalidates the capture of the stream, for a call that is not allowed on a captured stream in any mode. Returns
/// false if the stream is not captured.
[[nodiscard]] bool break_capture_of(cuda::CUstream stream);

/// Captures an allocation or a free on a captured stream.
cuda::CUresult capture_allocation(cuda::CUstream stream, int device, std::size_t size, cuda::CUdeviceptr& out);
cuda::CUresult capture_free(cuda::CUstream stream, cuda::CUdeviceptr address);

}  // namespace ration::sim
