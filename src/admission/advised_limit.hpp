// Computes the limit to suggest to a workload that was denied memory. Used by `ration why` and the daemon's events. The
// results depend on the arguments alone.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "base/bytes.hpp"

namespace ration::admission {

/// Returns a limit that would admit `needed` bytes, with an eighth of headroom if there is room for it, in a round size
/// (steps of 256 MiB, 512 MiB from 4 GiB, 1 GiB from 16 GiB). `grantable` is the highest limit that would be in force.
/// Returns nothing if `needed` exceeds `grantable`.
[[nodiscard]] std::optional<Bytes> advised_limit(Bytes needed, Bytes grantable);

/// Returns the largest round size up to `most`, in the same steps. If that is zero, returns the largest multiple of a
/// granule up to `most`.
[[nodiscard]] Bytes round_size(Bytes most);

/// A promise on one device that prevents a higher limit.
struct Promise {
  std::string name;  ///< as typed after `ration set`; empty if there is no promise, or if giving it up would not help
  Bytes guarantee;
  Bytes used;  ///< the part of the guarantee that its holder uses

  [[nodiscard]] Bytes unused() const { return guarantee - std::min(guarantee, used); }
};

/// The limit of the workload's tenant, on one device.
struct TenantLimit {
  std::string name;  ///< as typed after `ration set`; empty if the tenant's limit prevents nothing
  Bytes limit;
};

/// The limit that a running workload could be granted on one device.
struct LimitRoom {
  Bytes grantable;            ///< the highest limit that would be in force
  Promise promise;            ///< the promise that prevents a higher limit
  std::optional<int> gpu;     ///< the device's number
  bool several_gpus = false;  ///< the workload has a limit on other devices, too
  TenantLimit tenant{};       ///< set instead of a promise
  std::string policy{};       ///< the policy or claim that sets the limit; `ration set` cannot change such a limit
  bool of_claim = false;      ///< `policy` is a claim
};

/// The setting that a fix changes by `ration set`.
enum class Changes {
  kNothing,  ///< the fix changes no setting
  kLimit,    ///< the workload's own limit
  kTenantLimit,
  kGuarantee,  ///< the guarantee of another holder
};

/// A command to type.
struct Fix {
  std::string text;
  Changes changes = Changes::kNothing;
};

/// Returns the command that makes room for `needed` bytes of `workload`: a higher limit of its own, a higher limit of
/// its tenant, or a lower guarantee of another holder. If none of these suffices, returns a command that shows the
/// reason.
[[nodiscard]] Fix limit_fix(const std::string& workload, Bytes needed, const LimitRoom& room);

}  // namespace ration::admission
