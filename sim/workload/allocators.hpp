// The ways in which programs take device memory from the driver: one call per block, or an allocator of their own that
// keeps memory. They are small models of the frameworks' allocators, for demos, tests and benchmarks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "driver/cuda_abi.hpp"

namespace ration::workload {

/// An allocator of blocks on the current context's device. Not thread-safe.
class Allocator {
 public:
  virtual ~Allocator() = default;
  /// Allocates a block. Returns null if the driver gives no memory; `last_refusal()` then returns the driver's error.
  [[nodiscard]] virtual std::optional<cuda::CUdeviceptr> allocate(std::size_t size) = 0;
  virtual void free(cuda::CUdeviceptr address) = 0;
  /// Returns the bytes that the allocator has taken from the driver and holds; peak_held() returns the most so far.
  [[nodiscard]] std::size_t held() const { return held_; }
  [[nodiscard]] std::size_t peak_held() const { return peak_held_; }
  [[nodiscard]] cuda::CUresult last_refusal() const { return last_refusal_; }

 protected:
  void took(std::size_t size) {
    held_ += size;
    peak_held_ = held_ > peak_held_ ? held_ : peak_held_;
  }
  void gave(std::size_t size) { held_ -= size; }
  std::size_t held_ = 0, peak_held_ = 0;
  cuda::CUresult last_refusal_ = cuda::CUDA_SUCCESS;
};

/// Makes an allocator with one driver call per block: cuMemAlloc (`malloc`), cuMemAllocAsync (`async`) or create and
/// map (`vmm`). Returns null for any other name.
[[nodiscard]] std::unique_ptr<Allocator> make_direct(const std::string& via);

/// An allocator that takes regions from the driver and cuts them by best fit, with splitting and coalescing. The kinds
/// differ in how they take regions.
class RegionAllocator : public Allocator {
 public:
  enum class Kind {
    kGrab,   ///< one region at the start, like TensorFlow by default: all free memory but a reserve; never returned
    kGrow,   ///< regions that double, or a tenth less after each denial, like TensorFlow with growth; never returned
    kCache,  ///< segments of 2 MiB, 20 MiB or the request's size, like PyTorch; a denial returns free segments
  };
  /// Makes an allocator. kGrab leaves `reserve` bytes free.
  RegionAllocator(Kind kind, std::size_t reserve);
  ~RegionAllocator() override;
  [[nodiscard]] std::optional<cuda::CUdeviceptr> allocate(std::size_t size) override;
  void free(cuda::CUdeviceptr address) override;

 private:
  struct Part {
    std::size_t size = 0;
    bool used = false;
    cuda::CUdeviceptr region = 0;
  };
  bool grow(std::size_t size);
  bool take_region(std::size_t size);
  bool return_free_regions();
  std::optional<cuda::CUdeviceptr> best_fit(std::size_t size);
  auto& free_parts_of(cuda::CUdeviceptr region) {
    return free_parts_[kind_ == Kind::kCache && regions_[region] == kSmallSegment ? 1 : 0];
  }
  static constexpr std::size_t kSmallSegment = std::size_t{2} << 20;

  Kind kind_;
  std::size_t next_region_ = std::size_t{2} << 20;
  std::map<cuda::CUdeviceptr, Part> parts_;  // all parts by address
  // The free parts by size. Those of the cache's 2 MiB segments are separate, so that a small block never pins a large
  // segment.
  std::set<std::pair<std::size_t, cuda::CUdeviceptr>> free_parts_[2];
  std::map<cuda::CUdeviceptr, std::size_t> regions_;
};

/// Returns the memory that TensorFlow leaves to the system, given the free bytes and the device's compute capability
/// (its gpu_device.cc).
[[nodiscard]] std::size_t tensorflow_reserve(std::size_t free, int capability_major);

}  // namespace ration::workload
