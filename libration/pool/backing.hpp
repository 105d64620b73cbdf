// The operations that a pool needs from a device: reserve one address range, map physical granules into it, and order
// streams. Each kind of memory has one implementation: the driver's virtual memory management (vmm_backing.hpp), and
// host memory for tests and programs without a device (host_backing.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.hpp"

namespace ration::pool {

/// A CUstream as a number; 0 is the default stream.
using Stream = std::uint64_t;

/// A piece of physical memory of kGranule bytes that can be mapped anywhere in the range.
using Granule = std::uint64_t;

enum class Outcome : std::uint8_t {
  kOk,
  kOutOfMemory,  ///< the device (or the workload's limit) has no more
  kDeviceLost,   ///< the driver reports that the device is gone: nothing will succeed any more
  kFailed,       ///< any other failure; `Backing::last_error()` has the driver's number
};

/// A source of physical memory for one pool. The pool calls it under the pool's lock. Not thread-safe.
class Backing {
 public:
  virtual ~Backing() = default;
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;

  /// Reserves addresses without memory, aligned to a granule. The pool calls it once.
  virtual Outcome reserve(Bytes size, std::uint64_t& base) = 0;
  virtual Outcome create(Granule& out) = 0;
  virtual void destroy(Granule granule) = 0;
  /// Maps `count` granules side by side at `address`, readable and writable. Maps none of them if it fails.
  virtual Outcome map(std::uint64_t address, const Granule* granules, std::size_t count) = 0;
  /// Unmaps everything in [address, address + size), which consists of whole mappings.
  virtual Outcome unmap(std::uint64_t address, Bytes size) = 0;
  /// Makes all later work on `later` wait for the present work on `earlier`.
  virtual Outcome order(Stream earlier, Stream later) = 0;
  /// Waits until the present work on every stream is done, so that memory may be taken out of the range.
  virtual Outcome finish() = 0;
  /// Returns the bytes that the device could still give, or kUnlimited if unknown.
  [[nodiscard]] virtual Bytes available() = 0;

  /// Returns the driver's number of the last failure.
  [[nodiscard]] int last_error() const noexcept { return last_error_; }
  /// Returns the number of calls of the driver so far.
  [[nodiscard]] std::uint64_t calls() const noexcept { return calls_; }

 protected:
  Backing() = default;
  std::uint64_t calls_ = 0;
  int last_error_ = 0;
};

}  // namespace ration::pool
