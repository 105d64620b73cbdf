// Finds out if tenants fit on devices, and where. Changes nothing.
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
  Bytes guarantee, limit;  ///< of each instance; limit >= guarantee
  int count = 1;
};

/// Several instances of a tenant.
struct PlacedGroup {
  std::string tenant;
  int count = 0;
  Bytes guarantee, limit;  ///< of each instance
};

struct PlacedDevice {
  PlanDevice device;
  std::vector<PlacedGroup> groups;
  Bytes guaranteed, spare;
};

/// A limit that the neighbours' guarantees make unreachable: at most `reachable`, on the worst of its devices.
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
  Bytes less;  ///< bytes saved, all instances together
};

struct Placement {
  bool fits = false;
  bool spread = false;  ///< placed by limits; false also where that was requested, but only a tight packing fits
  Bytes needed, available;
  std::vector<PlacedDevice> devices;
  std::vector<PlacedGroup> left_over;
  std::vector<UnreachableBurst> bursts;
  // If it does not fit.
  std::optional<PlanChange> change;  ///< the change that removes the fewest bytes
  int more_devices = 0;              ///< additional devices of the largest kind that would suffice; 0: no number would
};

/// Places the tenants. `spread`: side by side, with as much room above the guarantees as possible; else tightly, so
/// that devices stay empty.
[[nodiscard]] Placement place(const std::vector<PlanDevice>& devices, const std::vector<PlanTenant>& tenants,
                              bool spread);

/// Parses `A100-40:2` or `T4:15GiB*3,H100`: model, memory if different, count. E1308.
[[nodiscard]] Result<std::vector<PlanDevice>> parse_plan_devices(const std::string& text);

/// Parses `nlp=16GiB:30GiB` or `jup=4GiB*6`: guarantee, limit (default: the same), count. A share (`50%`) needs devices
/// of one size. E1307, E1305 and errors of parse_size.
[[nodiscard]] Result<PlanTenant> parse_plan_tenant(const std::string& text, const std::vector<PlanDevice>& devices);

/// Returns the argument that parses to this tenant: `jup=3584MiB:4GiB*6`.
[[nodiscard]] std::string plan_tenant_text(const PlanTenant& tenant);

}  // namespace ration::node
