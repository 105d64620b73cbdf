// Finds what a recorded run needed of each device, from the run's charges alone: the smallest limit that would have
// denied nothing that the run got, and the first request that a given limit denies. Reads a recording once.
// Promises: the figures are sums of recorded charges, to the byte. Not promised: what a program does after a denial, or
// in its next run.
#pragma once

#include <optional>
#include <vector>

#include "base/bytes.hpp"
#include "trace/event.hpp"
#include "trace/whatif/grade.hpp"

namespace ration::trace {

/// A request that a limit denies, or that was denied.
struct DeniedRequest {
  std::uint64_t event = 0;  ///< its number in the recording, from 0
  std::int64_t time = 0;    ///< nanoseconds since the recording began
  Bytes requested, charged, held;
  Kind kind = Kind::kAllocate;
  std::uint32_t process = 0;

  [[nodiscard]] Bytes need() const { return held + requested; }
};

struct DeviceCharges {
  Bytes peak;                  ///< the most bytes held at once, which is the smallest limit that denies nothing
  std::int64_t peak_time = 0;  ///< time at which the peak was first reached
  Bytes contexts;              ///< the most bytes that contexts of the driver held
  std::optional<DeniedRequest> denied;  ///< the first request that the given limit denies
  std::uint64_t denials = 0;            ///< number of requests that were denied during the recording
  std::optional<DeniedRequest> first_recorded, greatest_recorded;  ///< the first denial, and the one that needed most
};

/// The facts of a recording besides its charges: reasons to doubt an answer.
struct Circumstances {
  std::uint64_t events = 0;
  std::int64_t length = 0;  ///< nanoseconds from the beginning to the last event
  std::uint64_t asked = 0;  ///< number of times that programs asked how much memory there is
  std::uint64_t waited = 0, denied = 0, refused = 0;
};

struct Charges {
  Circumstances circumstances;
  std::vector<DeviceCharges> devices;  ///< by index in Header::devices
};

/// Adds up the charges of each device, managed memory included, and finds what `limit` denies first on each.
[[nodiscard]] Charges add_up(const Recording& recording, std::optional<Bytes> limit);

/// Judges the figures of add_up(): exact, unless the recording has no book, has lost events, or has a denied request.
[[nodiscard]] Judgement judge(const Header& header, const DeviceCharges& device);

}  // namespace ration::trace
