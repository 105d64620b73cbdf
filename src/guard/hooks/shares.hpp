// Shares: parts of one program, each with a limit of its own inside the workload's (two models in one process). A
// thread enters a share; the plain and virtual memory that the thread takes is charged to the share until it is freed.
// Memory of the driver's pools, arrays, graphs, contexts and managed memory belongs to no share. Used by blocks.cpp and
// virtual_memory.cpp; libration enters shares through the functions that shares.cpp exports. A process without shares
// pays one load and one branch.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/bytes.hpp"
#include "driver/cuda_abi.hpp"

namespace ration::guard {

inline std::atomic<bool> any_share{false};

/// A charge to the calling thread's share, if it is in one, for memory that is about to be taken.
class ShareCharge {
 public:
  ShareCharge(std::uint32_t account, Bytes size) noexcept {
    if (any_share.load(std::memory_order_relaxed)) [[unlikely]]
      charge(account, size);
  }
  ~ShareCharge() {
    if (share_ != 0) [[unlikely]]
      give_back();
  }
  ShareCharge(const ShareCharge&) = delete;
  ShareCharge& operator=(const ShareCharge&) = delete;

  [[nodiscard]] bool fits() const noexcept { return fits_; }
  /// Records that the share had no room.
  [[nodiscard]] cuda::CUresult deny(const char* function) const noexcept;
  /// Keeps the charge for memory that was taken and is known by `key`: an address, or physical_key().
  void keep(std::uint64_t key) noexcept {
    if (share_ != 0) [[unlikely]]
      enter(key);
  }

 private:
  void charge(std::uint32_t account, Bytes size) noexcept;
  void give_back() noexcept;
  void enter(std::uint64_t key) noexcept;

  std::uint32_t share_ = 0, account_ = 0;
  Bytes size_;
  bool fits_ = true;
};

/// Returns the key of the physical memory with that number. The highest bit distinguishes the key from an address.
constexpr std::uint64_t physical_key(std::uint64_t number) noexcept { return number | std::uint64_t{1} << 63; }

void leave_share_now(std::uint64_t key) noexcept;
/// Ends the charge of the memory known by `key`, which was freed.
inline void leave_share(std::uint64_t key) noexcept {
  if (any_share.load(std::memory_order_relaxed)) [[unlikely]]
    leave_share_now(key);
}

}  // namespace ration::guard
