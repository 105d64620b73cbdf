// Finds out whether tenants fit on devices, and where. Changes nothing.
//
// Promises (tests/unit/decisions/placement_test.cpp): no device gets more guarantees than it holds; every tenant is
// placed as often as asked, or listed as left over; with up to kExactItems items "does not fit" is certain, with more
// it is the result of best-fit-decreasing; a proposed change has been tried and fits.
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
  Bytes guarantee, limit;  ///< size of each instance; limit >= guarantee
  int count = 1;
};

/// Several instances of a tenant.
struct PlacedGroup {
  std::string tenant;
  int count = 0;
  Bytes guarantee, limit;  ///< size of each instance
};

struct PlacedDevice {
  PlanDevice device;
  std::vector<PlacedGroup> groups;
  Bytes guaranteed, spare;
};

/// A limit that the neighbours' guarantees make unreachable: `reachable` is the most on the worst of its devices.
struct UnreachableBurst {
  std::string tenant;
  int gpu = 0;
  Bytes limit, reachable;
};

/// A change that makes everything fit: a lower guarantee for each instance of a tenant, or fewer instances.
struct PlanChange {
  std::string tenant;
  Bytes guarantee;
  int count = 0;
  Bytes less;  ///< bytes saved by all instances together
};

struct Placement {
  bool fits = false;
  bool spread = false;  ///< true if placed by limits; false also if only a tight packing fits
  Bytes needed, available;
  std::vector<PlacedDevice> devices;
  std::vector<PlacedGroup> left_over;
  std::vector<UnreachableBurst> bursts;
  // The fields below are set if the tenants do not fit.
  std::optional<PlanChange> change;  ///< the change that removes the fewest bytes
  int more_devices = 0;  ///< additional devices of the largest kind that would suffice; 0 if no number would
};

/// Places the tenants. With `spread`, places them side by side, with as much room above the guarantees as possible;
/// else tightly, so that devices stay empty.
[[nodiscard]] Placement place(const std::vector<PlanDevice>& devices, const std::vector<PlanTenant>& tenants,
                              bool spread);

/// Parses `A100-40:2` or `T4:15GiB*3,H100`: model, memory if different, count. Fails with E1308.
[[nodiscard]] Result<std::vector<PlanDevice>> parse_plan_devices(const std::string& text);

/// Parses `nlp=16GiB:30GiB` or `jup=4GiB*6`: guarantee, limit (default: the same), count. Fails with E1307, for example
/// for a share (`50%`) of devices of different sizes, with E1305, and as parse_size() does.
[[nodiscard]] Result<PlanTenant> parse_plan_tenant(const std::string& text, const std::vector<PlanDevice>& devices);

/// Returns the argument that parses to this tenant: `jup=3584MiB:4GiB*6`.
[[nodiscard]] std::string plan_tenant_text(const PlanTenant& tenant);

}  // namespace ration::node
