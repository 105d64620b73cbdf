// Computes the limit to suggest to a workload that was denied memory. Used by `ration why` and the daemon's events.
// Pure.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "base/bytes.hpp"

namespace ration::admission {

/// Returns a limit that would admit `needed` bytes, with an eighth of headroom if there is room for it, in a round size
/// (steps of 256 MiB, 512 MiB above 4 GiB, 1 GiB above 16 GiB). `grantable` is the highest limit that would be in
/// force. Absent: even `needed` exceeds that.
[[nodiscard]] std::optional<Bytes> advised_limit(Bytes needed, Bytes grantable);

/// Returns the largest round size not above `most`, in the same steps; in whole granules if that is zero.
[[nodiscard]] Bytes round_size(Bytes most);

/// A promise on one device that stands in the way.
struct Promise {
  std::string name;  ///< as `ration set` takes it; empty: there is none, or giving it up would not help
  Bytes guarantee;
  Bytes used;  ///< the part of the guarantee that its holder uses

  [[nodiscard]] Bytes unused() const { return guarantee - std::min(guarantee, used); }
};

/// The limit of the workload's tenant, on one device.
struct TenantLimit {
  std::string name;  ///< as `ration set` takes it; empty: it does not stand in the way
  Bytes limit;
};

/// The limit that a running workload could be granted on one device.
struct LimitRoom {
  Bytes grantable;            ///< the highest limit that would be in force
  Promise promise;            ///< the promise that prevents a higher one
  std::optional<int> gpu;     ///< the device's number
  bool several_gpus = false;  ///< the workload has a limit on other devices, too
  TenantLimit tenant{};       ///< set instead of a promise
  std::string policy{};  ///< the policy that sets the limit, as a sentence, so that `ration set` cannot; empty: none
};

/// The setting that a fix changes by `ration set`.
enum class Changes {
  kNothing,  ///< the fix is another command
  kLimit,    ///< the workload's own limit
  kTenantLimit,
  kGuarantee,  ///< the guarantee of another holder
};

/// A command to type.
struct Fix {
  std::string text;
  Changes changes = Changes::kNothing;
};

/// Returns the command after which `workload` is admitted `needed` bytes: a new limit of its own, or, if none would
/// suffice, a lower guarantee of the holder or a higher limit of the tenant.
[[nodiscard]] Fix limit_fix(const std::string& workload, Bytes needed, const LimitRoom& room);

}  // namespace ration::admission
