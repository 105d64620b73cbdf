// The terms of a book: the values that its fields can have. Used by everything that opens, fills or reads one.
#pragma once

#include <array>
#include <cstdint>

namespace ration::book {

using DeviceUuid = std::array<std::uint8_t, 16>;

/// The value for bytes that the driver did not report. It is printed as n/a.
inline constexpr std::uint64_t kUnknownBytes = ~std::uint64_t{0};

/// The account of pinned host memory. Its number is higher than that of any device's account.
inline constexpr std::uint32_t kHostAccount = 64;

enum class OnDeny : std::uint32_t { kFail = 0, kWait = 1 };

/// The memory that counts against the limit: with kDevice all that the driver attributes to the process, with kHeap
/// only allocations, without contexts.
enum class AccountMode : std::uint32_t { kDevice = 0, kHeap = 1 };

/// Flags for memory that drivers do not move to the host, or move only in part. A program that has such memory might
/// not survive a suspension.
enum class Unmovable : std::uint32_t {
  kManaged = 1,
  kShared = 2,  ///< memory exported to other processes, or imported
};

/// The use of charged bytes, for `ration explain`.
enum class Kind : std::uint32_t { kHeap, kContext, kPool, kManaged };

/// The part of managed memory that counts against the limit. With kResident the part that may be on the device counts,
/// and the rest is kept on the host; with kCharge all of it counts, with kIgnore none.
enum class ManagedPolicy : std::uint32_t { kResident = 0, kCharge = 1, kIgnore = 2 };

}  // namespace ration::book
