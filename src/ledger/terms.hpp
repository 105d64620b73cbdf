// The words of a book: what its fields can say. Used by whoever opens, fills or reads one.
#pragma once

#include <array>
#include <cstdint>

namespace ration::ledger {

using DeviceUuid = std::array<std::uint8_t, 16>;

/// "The driver did not say": printed as n/a, never as a number.
inline constexpr std::uint64_t kUnknownBytes = ~std::uint64_t{0};

enum class OnDeny : std::uint32_t { kFail = 0, kWait = 1 };

/// What counts against the limit: everything the driver attributes to the process, or allocations without contexts.
enum class AccountMode : std::uint32_t { kDevice = 0, kHeap = 1 };

enum class DenialReason : std::uint16_t {
  kLimit = 1,
  kDeviceFull = 2,
  kNoAccount = 3,
  kUngoverned = 4,
  kBook = 5,
  kTableFull = 7,  ///< a table of the guard has no entry left; `limit` of the denial is how many it has
  kShare = 6,      ///< a part of the program had all of its share; `used` and `limit` of the denial are the share's
};

/// Memory that drivers do not move to the host, or not all of them: a program that has it may be lost at the attempt.
/// Flags.
enum class Unmovable : std::uint32_t {
  kManaged = 1,
  kShared = 2,  ///< exported to other processes, or imported
};

/// What the bytes of a charge are, for `ration explain`.
enum class Kind : std::uint32_t { kHeap, kContext, kPool, kManaged };

/// What of managed memory counts against the limit: all of it; what may be on the device, the rest being kept on the
/// host; nothing.
enum class ManagedPolicy : std::uint32_t { kResident = 0, kCharge = 1, kIgnore = 2 };

}  // namespace ration::ledger
