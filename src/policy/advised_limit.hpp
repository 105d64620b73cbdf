// Which limit to suggest to a workload that was denied memory. Used by `ration why` and the daemon's events. Pure.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "base/bytes.hpp"

namespace ration::policy {

/// A limit that would admit `needed` bytes, with an eighth of headroom where there is room for it, in a round size
/// (steps of 256 MiB, 512 MiB above 4 GiB, 1 GiB above 16 GiB). `grantable`: the most that would be in force. Absent:
/// not even `needed` would be.
[[nodiscard]] std::optional<Bytes> advised_limit(Bytes needed, Bytes grantable);

/// The largest size not above `most` that somebody would type, in the same steps; whole granules where that is nothing.
[[nodiscard]] Bytes round_size(Bytes most);

/// Who is promised memory that stands in the way, on one device.
struct Promise {
  std::string name;  ///< as `ration set` takes it; empty: nobody's, or giving it up would not help
  Bytes guarantee;
  Bytes used;  ///< of the guarantee, by its holder

  [[nodiscard]] Bytes unused() const { return guarantee - std::min(guarantee, used); }
};

/// The limit of the workload's tenant, on one device.
struct TenantLimit {
  std::string name;  ///< as `ration set` takes it; empty: it does not stand in the way
  Bytes limit;
};

/// What a running workload could be granted on one device.
struct LimitRoom {
  Bytes grantable;            ///< the most that its limit could be, and be in force
  Promise promise;            ///< what stands in the way of more
  std::optional<int> gpu;     ///< the device's number
  bool several_gpus = false;  ///< the workload has a limit on others, too
  TenantLimit tenant{};       ///< instead of a promise
  std::string policy{};       ///< the policy that sets the limit, as a sentence: nobody can set another; empty: none
};

/// What `ration set` changes by a fix.
enum class Changes {
  kNothing,  ///< it is another command
  kLimit,    ///< of the workload itself
  kTenantLimit,
  kGuarantee,  ///< of the holder of a promise
};

/// Something to type.
struct Fix {
  std::string text;
  Changes changes = Changes::kNothing;
};

/// What to type so that `workload` is admitted `needed` bytes: its new limit, or, where none would do, the promise that
/// would have to be smaller or the tenant's limit that would have to be larger.
[[nodiscard]] Fix limit_fix(const std::string& workload, Bytes needed, const LimitRoom& room);

}  // namespace ration::policy
