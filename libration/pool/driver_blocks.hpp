// Allocators without a pool of their own: `direct` makes one driver call per block (cuMemAlloc), `async` leaves pooling
// to the driver (cuMemAllocAsync), and `managed` gives memory that the driver moves between device and host
// (cuMemAllocManaged), so that there may be more of it than the device has. Used by libration/runtime if virtual memory
// management is unwanted or unavailable.
#pragma once

#include <mutex>
#include <unordered_map>

#include "driver/driver.hpp"
#include "pool/allocator.hpp"

namespace ration::pool {

class DriverBlocks final : public Allocator {
 public:
  enum class Kind { kDirect, kAsync, kManaged };
  DriverBlocks(const driver::Driver& driver, cuda::CUdevice device, cuda::CUcontext context, Kind kind, Bytes limit);
  ~DriverBlocks() override;

  Failure allocate(Stream stream, Bytes size, std::uint64_t alignment, std::uint64_t& address) override;
  Failure deallocate(Stream stream, std::uint64_t address) override;
  Bytes trim() override;
  void set_limit(Bytes limit) override;
  Statistics statistics() const override;
  void reset_peaks() override;
  int last_driver_error() const override;
  std::vector<Piece> pieces() const override;

 private:
  Failure failure_of(cuda::CUresult result);
  // These functions require the context and the mutex.
  [[nodiscard]] cuda::cuuint64_t of_pool(cuda::CUmemPool_attribute attribute) const;
  bool pool_may_grow(std::uint64_t bytes);
  Bytes trim_pool();
  cuda::CUresult take(cuda::CUdeviceptr& given, std::size_t bytes, cuda::CUstream stream);

  const driver::Driver& driver_;
  const cuda::CUcontext context_;
  const Kind kind_;
  cuda::CUmemoryPool pool_ = nullptr;  // the pool for kAsync; null if the driver has none: every request then fails
  mutable std::mutex mutex_;
  Bytes limit_;
  struct Block {
    cuda::CUdeviceptr address = 0;  // the address that the driver gave
    std::uint64_t bytes = 0;
  };
  std::unordered_map<std::uint64_t, Block> blocks_;  // by the address that was handed out
  bool is_over_limit_ = false;                       // true while the driver's pool exceeds a lowered limit
  Statistics statistics_;
  int last_error_ = 0;
};

}  // namespace ration::pool
