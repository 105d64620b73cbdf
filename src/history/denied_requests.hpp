// Determines from the denied requests of a run how much memory it needed. Used by recommendations and the report of one
// run, which therefore say the same as `ration why`. Promise: a need is a lower bound, since later requests of the run
// are unknown.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/bytes.hpp"
#include "history/amount.hpp"
#include "history/database.hpp"

namespace ration::history {

/// Limits are advised in steps of this.
inline constexpr Bytes kAdviceStep{std::uint64_t{256} << 20};

struct DeniedRequests {
  /// Requests that are recorded; the books may count more.
  std::int64_t known = 0;
  /// The request with the greatest need that a device could have met: what was held, and what was asked for on top of
  /// it.
  Bytes held, requested;
  /// The greatest need beyond what any device has, which no limit satisfies. 0: none.
  Bytes impossible;

  [[nodiscard]] Bytes need() const { return held + requested; }
  void add(const DeniedRequests& other);
};

/// Returns the least limit at which that need would have been met.
[[nodiscard]] constexpr Bytes least_limit(Bytes need) noexcept { return round_up(need, kAdviceStep); }

/// Reads the requests since `from` that were denied for want of memory, by the id of the run. `workload` is `train` or
/// `nlp/train`; `capacity` is that of its largest device. Requires a transaction of the caller.
[[nodiscard]] std::map<std::int64_t, DeniedRequests> read_denied_requests(Database& database,
                                                                          const std::string& workload, TimeMs from,
                                                                          Bytes capacity);

/// Returns `1.53 GiB (1.00 GiB on top of the 540 MiB it held)`.
[[nodiscard]] std::string to_text(const DeniedRequests& denied);

}  // namespace ration::history
