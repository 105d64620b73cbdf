// Stream capture: while a stream is captured, what is put on it becomes nodes of a graph instead of being done.
// Used by the functions that put work on a stream or take memory in its order. Called without driver().mutex held.
#pragma once

#include "driver.hpp"
#include "driver/cuda_copy_abi.hpp"
#include "driver/cuda_graph_abi.hpp"

namespace ration::sim {

/// `stream` as the per-thread variants (_ptsz) of the driver's functions mean it.
inline cuda::CUstream per_thread(cuda::CUstream stream) {
  return stream == nullptr ? reinterpret_cast<cuda::CUstream>(std::uintptr_t{2}) : stream;
}

[[nodiscard]] bool is_captured(cuda::CUstream stream);

/// Adds a node without work, for a kernel put on `stream`. False: the stream is not captured, do it now.
[[nodiscard]] bool capture_work(cuda::CUstream stream, cuda::CUgraphNodeType type = cuda::CU_GRAPH_NODE_TYPE_KERNEL);
/// The same for a copy or a fill, which each launch of the graph does.
[[nodiscard]] bool capture_copy(cuda::CUstream stream, const cuda::CUDA_MEMCPY3D& copy);
[[nodiscard]] bool capture_fill(cuda::CUstream stream, const cuda::CUDA_MEMSET_NODE_PARAMS& fill);
/// An event recorded on a captured stream stands for a place in its graph. False: not captured.
bool capture_record(cuda::CUevent event, cuda::CUstream stream);
/// Makes `stream` wait for such an event, which draws it into the capture. False: the event was not captured.
bool capture_wait(cuda::CUstream stream, cuda::CUevent event);

/// What waits for a whole context is not allowed while a stream of it is captured, and makes the capture invalid.
/// False: none is.
[[nodiscard]] bool break_captures_of(const Context* context);

/// An allocation or a free on a captured stream.
cuda::CUresult capture_allocation(cuda::CUstream stream, int device, std::size_t size, cuda::CUdeviceptr& out);
cuda::CUresult capture_free(cuda::CUstream stream, cuda::CUdeviceptr address);

}  // namespace ration::sim
