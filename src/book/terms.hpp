// The terms of a book: the values that its fields can have. Used by everything that opens, fills or reads one.
#pragma once

#include <array>
#include <cstdint>

namespace ration::book {

using DeviceUuid = std::array<std::uint8_t, 16>;

/// Stands for bytes that the driver did not report: printed as n/a, never as a number.
inline constexpr std::uint64_t kUnknownBytes = ~std::uint64_t{0};

/// The account of pinned host memory, beside those of devices. No book has as many devices.
inline constexpr std::uint32_t kHostAccount = 64;

enum class OnDeny : std::uint32_t { kFail = 0, kWait = 1 };

/// The memory that counts against the limit: everything that the driver attributes to the process, or only allocations,
/// without contexts.
enum class AccountMode : std::uint32_t { kDevice = 0, kHeap = 1 };

/// Memory that drivers do not move to the host, or only in part: a program that has it may be lost in the attempt.
/// Flags.
enum class Unmovable : std::uint32_t {
  kManaged = 1,
  kShared = 2,  ///< exported to other processes, or imported
};

/// The use of charged bytes, for `ration explain`.
enum class Kind : std::uint32_t { kHeap, kContext, kPool, kManaged };

/// The part of managed memory that counts against the limit: all of it; only what may be on the device, the rest being
/// kept on the host; nothing.
enum class ManagedPolicy : std::uint32_t { kResident = 0, kCharge = 1, kIgnore = 2 };

}  // namespace ration::book
