// The GPUs that the driver shows, and their properties. Used by runtime.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "book/terms.hpp"
#include "driver/driver.hpp"

namespace ration::runtime {

struct PhysicalGpu {
  cuda::CUdevice ordinal = 0;
  std::string name;
  int capability_major = 0, capability_minor = 0;
  Bytes total;
  book::DeviceUuid uuid{};  ///< zeros if the driver did not report it
};

/// Returns true if `text` names that UUID as in CUDA_VISIBLE_DEVICES: `GPU-` or `MIG-` and all digits or the first few.
[[nodiscard]] bool is_uuid(const std::string& text, const book::DeviceUuid& uuid);

/// Returns the GPUs in the driver's order; none without a driver or a device. Makes no context.
[[nodiscard]] std::vector<PhysicalGpu> query_gpus();

/// Returns the bytes that all processes use on the device, as NVML reports them without a context. Returns nullopt if
/// there is no NVML or it does not know the device.
[[nodiscard]] std::optional<Bytes> used_by_everybody(const PhysicalGpu& gpu);

/// A reference that keeps the primary context of a device alive.
class PrimaryContext {
 public:
  PrimaryContext(const driver::Driver& driver, cuda::CUdevice device);
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;
  [[nodiscard]] cuda::CUcontext get() const noexcept { return context_; }  ///< null if the driver made none

  struct Memory {
    Bytes total, available;
  };
  [[nodiscard]] Memory memory() const;
  struct Priorities {
    int highest = 0, lowest = 0;  ///< `highest` is the smaller number
  };
  [[nodiscard]] Priorities priorities() const;
  /// Makes all later work on `later` wait for the present work on `earlier`.
  void order(cuda::CUstream earlier, cuda::CUstream later) const;

 private:
  const driver::Driver& driver_;
  cuda::CUdevice device_;
  cuda::CUcontext context_ = nullptr;
};

}  // namespace ration::runtime
