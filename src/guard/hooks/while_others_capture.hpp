// The guard's own calls of the driver while another thread may capture a graph. Used by the hooks.
#pragma once

#include "driver/cuda_graph_abi.hpp"
#include "guard/real.hpp"

namespace ration::guard {

/// Returns true if work on the stream becomes part of a graph instead of being done.
[[nodiscard]] inline bool is_capturing(cuda::CUstream stream) noexcept {
  cuda::CUstreamCaptureStatus status = cuda::CU_STREAM_CAPTURE_STATUS_NONE;
  return real<cuda::cuStreamIsCapturing_t>(Symbol::cuStreamIsCapturing)(stream, &status) == cuda::CUDA_SUCCESS &&
         status != cuda::CU_STREAM_CAPTURE_STATUS_NONE;
}

/// A scope in which the driver calls of its thread neither disturb a stream that another thread captures nor become
/// part of that stream's graph.
class WhileOthersCapture {
 public:
  WhileOthersCapture() noexcept { exchange(); }
  ~WhileOthersCapture() { exchange(); }
  WhileOthersCapture(const WhileOthersCapture&) = delete;
  WhileOthersCapture& operator=(const WhileOthersCapture&) = delete;

 private:
  void exchange() noexcept {
    (void)real<cuda::cuThreadExchangeStreamCaptureMode_t>(Symbol::cuThreadExchangeStreamCaptureMode)(&mode_);
  }
  cuda::CUstreamCaptureMode mode_ = cuda::CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace ration::guard
