// Device memory through the driver's virtual memory management. Used by libration/runtime. Every call uses the device's
// own context, whatever the program's current one is.
#pragma once

#include "driver/driver.hpp"
#include "pool/backing.hpp"

namespace ration::pool {

class VmmBacking final : public Backing {
 public:
  /// Makes a backing. `context` belongs to `device` and outlives the backing.
  VmmBacking(const driver::Driver& driver, cuda::CUdevice device, cuda::CUcontext context);
  ~VmmBacking() override;

  Outcome reserve(Bytes size, std::uint64_t& base) override;
  Outcome create(Granule& out) override;
  void destroy(Granule granule) override;
  Outcome map(std::uint64_t address, const Granule* granules, std::size_t count) override;
  Outcome unmap(std::uint64_t address, Bytes size) override;
  Outcome order(Stream earlier, Stream later) override;
  Outcome finish() override;
  Bytes available() override;

  /// Returns true if the driver and the device support virtual memory management.
  [[nodiscard]] static bool is_possible(const driver::Driver& driver, cuda::CUdevice device);

 private:
  Outcome outcome_of(cuda::CUresult result);

  const driver::Driver& driver_;
  cuda::CUdevice device_;
  cuda::CUcontext context_;
  std::uint64_t base_ = 0;
  Bytes reserved_;
};

/// Converts a driver's result to the pool's outcome.
[[nodiscard]] Outcome outcome_of_driver(cuda::CUresult result) noexcept;

}  // namespace ration::pool
