// What the denied requests of a run say about what it needed. Used by recommendations and the look back at one run,
// which therefore say the same as `ration why`.
// Promises: a need is a least one. What a run would have asked for next is not known.
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
  /// Whose record is kept; the books may count more.
  std::int64_t known = 0;
  /// Of the request that would have needed most, of those that a device could have met: what was held, and what was
  /// asked for on top of it.
  Bytes held, requested;
  /// The most that was needed beyond what any device has: no limit gives that. 0: nothing.
  Bytes impossible;

  [[nodiscard]] Bytes need() const { return held + requested; }
  void add(const DeniedRequests& other);
};

/// The least limit at which that need would have been met.
[[nodiscard]] constexpr Bytes least_limit(Bytes need) noexcept { return round_up(need, kAdviceStep); }

/// By the id of the run: requests since `from` that were denied for want of memory. `workload` is `train` or
/// `nlp/train`; `capacity` is that of its largest device. Inside a transaction of the caller.
[[nodiscard]] std::map<std::int64_t, DeniedRequests> read_denied_requests(Database& database,
                                                                          const std::string& workload, TimeMs from,
                                                                          Bytes capacity);

/// `1.53 GiB (1.00 GiB on top of the 540 MiB it held)`.
[[nodiscard]] std::string to_text(const DeniedRequests& denied);

}  // namespace ration::history
