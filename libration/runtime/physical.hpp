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
  book::DeviceUuid uuid{};  ///< zeros: the driver did not say
};

/// Returns true if `text` is that UUID as CUDA_VISIBLE_DEVICES takes it: `GPU-` or `MIG-`, and its digits or the first
/// of them.
[[nodiscard]] bool is_uuid(const std::string& text, const book::DeviceUuid& uuid);

/// Returns the GPUs in the driver's order. Empty: there is no driver, or no device. Makes no context.
[[nodiscard]] std::vector<PhysicalGpu> query_gpus();

/// Returns the bytes in use on the device by all processes, as the management library reports without a context.
/// Absent: there is no such library, or it does not know the device.
[[nodiscard]] std::optional<Bytes> used_by_everybody(const PhysicalGpu& gpu);

/// A device's primary context, held while this lives.
class PrimaryContext {
 public:
  PrimaryContext(const driver::Driver& driver, cuda::CUdevice device);
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;
  [[nodiscard]] cuda::CUcontext get() const noexcept { return context_; }  ///< null: the driver made none

  struct Memory {
    Bytes total, available;
  };
  [[nodiscard]] Memory memory() const;
  struct Priorities {
    int highest = 0, lowest = 0;  ///< the highest is the smaller number
  };
  [[nodiscard]] Priorities priorities() const;
  /// Orders all later work on `later` after the work on `earlier` so far.
  void order(cuda::CUstream earlier, cuda::CUstream later) const;

 private:
  const driver::Driver& driver_;
  cuda::CUdevice device_;
  cuda::CUcontext context_ = nullptr;
};

}  // namespace ration::runtime
