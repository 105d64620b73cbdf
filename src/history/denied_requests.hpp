// Determines from a run's denied requests how much memory it needed. Used by recommendations and by the report of one
// run, which therefore agree with `ration why`. Promise: the computed need is a lower bound, since the requests that
// the run would have made later are unknown.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/bytes.hpp"
#include "history/amount.hpp"
#include "history/database.hpp"

namespace ration::history {

/// The step of advised limits: they are rounded up to a multiple of it.
inline constexpr Bytes kAdviceStep{std::uint64_t{256} << 20};

struct DeniedRequests {
  /// The number of recorded requests; the books may count more.
  std::int64_t known = 0;
  /// The request with the greatest need that a device could meet: the bytes held, and the bytes requested on top of
  /// them.
  Bytes held, requested;
  /// The greatest need that exceeds even the largest device, so that no limit can meet it; 0 if no need does.
  Bytes impossible;

  [[nodiscard]] Bytes need() const { return held + requested; }
  void add(const DeniedRequests& other);
};

/// Returns the lowest advised limit that meets the need.
[[nodiscard]] constexpr Bytes least_limit(Bytes need) noexcept { return round_up(need, kAdviceStep); }

/// Reads the requests since `from` that were denied because memory was lacking, by the id of their run. `workload` is
/// `train` or `nlp/train`; `capacity` is the capacity of the workload's largest device. Requires that the caller has
/// begun a transaction.
[[nodiscard]] std::map<std::int64_t, DeniedRequests> read_denied_requests(Database& database,
                                                                          const std::string& workload, TimeMs from,
                                                                          Bytes capacity);

/// Returns `1.53 GiB (1.00 GiB on top of the 540 MiB it held)`.
[[nodiscard]] std::string to_text(const DeniedRequests& denied);

}  // namespace ration::history
