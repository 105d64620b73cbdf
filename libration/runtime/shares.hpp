// The shares of this process: parts of one program with limits of their own inside the workload's. The guard keeps
// their accounts, since it sees what frameworks take. This file gives shares names and charges each block of ration's
// own pool to one. Used by runtime_memory.cpp and tags.cpp. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.hpp"

namespace ration::runtime {

/// Returns the number of the share with that name, and makes it if it is new. Throws ValueError if this process is not
/// governed, there are too many shares, or the name is empty or too long.
[[nodiscard]] std::uint32_t share_named(const std::string& name);

void limit_share(std::uint32_t share, std::uint32_t account, Bytes limit);

struct ShareAmounts {
  Bytes used, peak, limit;
};
[[nodiscard]] ShareAmounts amounts_of_share(std::uint32_t share, std::uint32_t account);

/// The share of a thread before it entered another one.
struct FormerShare {
  std::uint32_t own = 0, common = 0;
};
/// Puts the calling thread, and all threads that have entered no share, into a share. The other threads may be helpers
/// of a framework, which work for the share entered last.
FormerShare enter_share(std::uint32_t share);
void leave_share(const FormerShare& former);

/// Returns the share of the calling thread, or 0 if it is in none.
[[nodiscard]] std::uint32_t current_share();
/// Charges `size` to the share. Returns false if the share has no room.
[[nodiscard]] bool charge_share(std::uint32_t share, std::uint32_t account, Bytes size);
void refund_share(std::uint32_t share, std::uint32_t account, Bytes size);

/// A scope in which memory that the calling thread takes from the driver is charged to no share, because a region of
/// the pool belongs to no share.
class OutsideShares {
 public:
  explicit OutsideShares(bool needed);
  ~OutsideShares();
  OutsideShares(const OutsideShares&) = delete;
  OutsideShares& operator=(const OutsideShares&) = delete;

 private:
  bool entered_;
  std::uint32_t before_ = 0;
};

}  // namespace ration::runtime
