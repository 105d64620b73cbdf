// Will these tenants fit on these devices, and where? Used by `ration plan` and POST /plan. Changes nothing.
//
// Promises (tests/unit/decisions/placement_test.cpp): no device is given more guarantees than it can hold; every tenant
// is placed as often as asked, or said to be left over; with up to kExactItems of them "does not fit" is certain, with
// more it is what best-fit-decreasing found; a change that is proposed has been tried and fits.
// Not promised: the fewest devices, or that limits above the guarantees can be reached (see `bursts`).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace ration::node {

inline constexpr std::size_t kExactItems = 16;
inline constexpr int kMaxPerTenant = 1000;

struct PlanDevice {
  int gpu = 0;
  std::string name;
  Bytes usable;
};

struct PlanTenant {
  std::string name;
  Bytes guarantee, limit;  ///< of each one; limit >= guarantee
  int count = 1;
};

/// So many of a tenant.
struct PlacedGroup {
  std::string tenant;
  int count = 0;
  Bytes guarantee, limit;  ///< of each
};

struct PlacedDevice {
  PlanDevice device;
  std::vector<PlacedGroup> groups;
  Bytes guaranteed, spare;
};

/// A limit that cannot be reached beside the neighbours' guarantees: `reachable` at most, on the worst of its devices.
struct UnreachableBurst {
  std::string tenant;
  int gpu = 0;
  Bytes limit, reachable;
};

/// What would make it fit: a lower guarantee for each of a tenant, or fewer of them.
struct PlanChange {
  std::string tenant;
  Bytes guarantee;
  int count = 0;
  Bytes less;  ///< by so much together
};

struct Placement {
  bool fits = false;
  bool spread = false;  ///< placed by limits; false also where that was asked for and only a tight packing fits
  Bytes needed, available;
  std::vector<PlacedDevice> devices;
  std::vector<PlacedGroup> left_over;
  std::vector<UnreachableBurst> bursts;
  // Where it does not fit.
  std::optional<PlanChange> change;  ///< the one that takes the fewest bytes away
  int more_devices = 0;              ///< so many more of the largest device would do; 0: no number would
};

/// `spread`: side by side with as much room above the guarantees as can be; else tight, so that devices stay empty.
[[nodiscard]] Placement place(const std::vector<PlanDevice>& devices, const std::vector<PlanTenant>& tenants,
                              bool spread);

/// `A100-40:2`, `T4:15GiB*3,H100`: a model, its memory where that differs, how many. E1308.
[[nodiscard]] Result<std::vector<PlanDevice>> parse_plan_devices(const std::string& text);

/// `nlp=16GiB:30GiB`, `jup=4GiB*6`: guarantee, limit (the same if left out), how many. Shares (`50%`) are of the
/// device, if all are alike. E1307, E1305 and those of parse_size.
[[nodiscard]] Result<PlanTenant> parse_plan_tenant(const std::string& text, const std::vector<PlanDevice>& devices);

/// As it would be typed: `jup=3584MiB:4GiB*6`.
[[nodiscard]] std::string plan_tenant_text(const PlanTenant& tenant);

}  // namespace ration::node
