// How the guard asks the driver something of its own while another thread may capture a graph. Used by the hooks.
#pragma once

#include "driver/cuda_graph_abi.hpp"
#include "shim/real.hpp"

namespace ration::shim {

/// While one lives, what its thread asks the driver does no harm to a stream that another thread captures,
/// and becomes no part of its graph.
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

}  // namespace ration::shim
