// The interface of every kind of pool: stream-ordered allocation with statistics, a limit that may change at any time,
// and memory that can be given back. Used by libration/runtime and, through it, by the C, C++ and Python interfaces.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "pool/backing.hpp"

namespace ration::pool {

enum class Failure : std::uint8_t {
  kNone,
  kOverLimit,       ///< the pool's limit does not allow it
  kDeviceFull,      ///< the device (or the workload's limit) has no more
  kDeviceLost,      ///< nothing will succeed any more
  kDriver,          ///< the driver reports another error; see `Allocator::last_driver_error()`
  kBadSize,         ///< more than any device has
  kBadAlignment,    ///< not a power of two, or more than a granule
  kForeignPointer,  ///< this pool did not hand it out
  kFreedPointer,    ///< it was freed already
  kForked,          ///< this process is a fork of the one that made the pool; the memory is the parent's
  kClosed,          ///< after shutdown
};

/// Returns a sentence for people. Never null.
[[nodiscard]] const char* describe(Failure failure) noexcept;

/// The figures of a pool under the names of TensorFlow's allocators, in bytes unless stated otherwise.
struct Statistics {
  std::uint64_t num_allocs = 0;  ///< requests granted so far
  std::uint64_t bytes_in_use = 0, peak_bytes_in_use = 0;
  std::uint64_t largest_alloc_size = 0;
  std::uint64_t bytes_limit = 0;
  std::uint64_t bytes_reserved = 0, peak_bytes_reserved = 0;  ///< taken from the device
  std::uint64_t bytes_reservable_limit = 0;
  std::uint64_t largest_free_block_bytes = 0;  ///< available without taking more from the device or moving anything
  std::uint64_t pool_bytes = 0, peak_pool_bytes = 0;
  std::uint64_t live_blocks = 0;   ///< a count
  std::uint64_t driver_calls = 0;  ///< a count
  std::uint64_t host_bytes = 0;    ///< memory of the host for bookkeeping

  /// Returns 1 - largest free block / free bytes, or 0 if nothing is free.
  [[nodiscard]] double fragmentation() const noexcept {
    const std::uint64_t free_bytes = bytes_reserved > bytes_in_use ? bytes_reserved - bytes_in_use : 0;
    if (free_bytes == 0 || largest_free_block_bytes >= free_bytes) return 0.0;
    return 1.0 - static_cast<double>(largest_free_block_bytes) / static_cast<double>(free_bytes);
  }
};

/// A source of device memory for one logical GPU. Thread-safe.
class Allocator {
 public:
  virtual ~Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  /// Allocates at least `size` bytes at a multiple of `alignment` (a power of two up to 2 MiB; less than 256 counts as
  /// 256), ready for use in `stream`'s order. A size of 0 gives address 0, which may be freed.
  [[nodiscard]] virtual Failure allocate(Stream stream, Bytes size, std::uint64_t alignment,
                                         std::uint64_t& address) = 0;
  /// Frees what allocate() handed out. Work that was put on `stream` before this call may still use the memory.
  virtual Failure deallocate(Stream stream, std::uint64_t address) = 0;

  /// Gives unused memory back to the device. Returns the bytes that it gave back.
  virtual Bytes trim() = 0;
  /// Sets the limit. While the pool holds more than a lowered limit, it takes nothing more from the device, and its
  /// free memory goes back at once.
  virtual void set_limit(Bytes limit) = 0;
  [[nodiscard]] virtual Statistics statistics() const = 0;
  /// Sets the peaks to the present use.
  virtual void reset_peaks() = 0;
  /// Returns the driver's number of the last kDriver or kDeviceLost failure.
  [[nodiscard]] virtual int last_driver_error() const = 0;

  /// A piece of the pool's memory, for maps and reports, in address order.
  struct Piece {
    std::uint64_t address = 0, size = 0;
    enum class State : std::uint8_t { kHeld, kFree, kSmallBlocks } state = State::kFree;
    std::uint64_t in_use = 0;  ///< bytes handed out of a kSmallBlocks piece
  };
  [[nodiscard]] virtual std::vector<Piece> pieces() const = 0;

 protected:
  Allocator() = default;
};

}  // namespace ration::pool
