// Shares of this process: parts of one program with limits of their own inside the workload's. The shim keeps them,
// since it sees what frameworks take; here they have names, and what ration's own pool hands out is charged to them
// block by block. Used by runtime_memory.cpp and tags.cpp. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.hpp"

namespace ration::runtime {

/// The number of the share of that name, made if there is none. ValueError: this process is not governed, or there are
/// too many, or the name is too long.
[[nodiscard]] std::uint32_t share_named(const std::string& name);

void limit_share(std::uint32_t share, std::uint32_t account, Bytes limit);

struct ShareAmounts {
  Bytes used, peak, limit;
};
[[nodiscard]] ShareAmounts amounts_of_share(std::uint32_t share, std::uint32_t account);

/// Where a thread was before it entered a share.
struct FormerShare {
  std::uint32_t own = 0, common = 0;
};
/// Puts the calling thread into a share, and those that have not entered one themselves: a framework's helpers work for
/// whoever entered last.
FormerShare enter_share(std::uint32_t share);
void leave_share(const FormerShare& former);

/// The share of the calling thread; 0: none, or no share was ever made.
[[nodiscard]] std::uint32_t current_share();
/// False: it has no room.
[[nodiscard]] bool charge_share(std::uint32_t share, std::uint32_t account, Bytes size);
void refund_share(std::uint32_t share, std::uint32_t account, Bytes size);

/// While one lives, what the calling thread takes of the driver is charged to no share: a pool's region is nobody's.
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
