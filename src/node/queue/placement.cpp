#include "node/queue/placement.hpp"

#include <algorithm>
#include <functional>

namespace ration::node {
namespace {

/// One instance of a tenant.
struct Item {
  std::size_t tenant;
  Bytes guarantee, limit;
};

/// The device index of each item; kUnplaced if it has no room.
using Assignment = std::vector<std::size_t>;
constexpr std::size_t kUnplaced = ~std::size_t{0};
constexpr int kMaxSteps = 200'000;       // steps of the exact search; tens of milliseconds
constexpr Bytes kChangeStep{256 << 20};  // a size that is easy to type
constexpr int kMaxMoreDevices = 64;

std::vector<Item> items_of(const std::vector<PlanTenant>& tenants, bool by_limit) {
  std::vector<Item> items;
  for (std::size_t t = 0; t < tenants.size(); ++t) {
    const Item item{t, round_up(tenants[t].guarantee, kGranule), tenants[t].limit};
    items.insert(items.end(), static_cast<std::size_t>(std::max(tenants[t].count, 0)), item);
  }
  std::stable_sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
    return by_limit && a.limit != b.limit ? a.limit > b.limit : a.guarantee > b.guarantee;
  });
  return items;
}

bool complete(const Assignment& assignment) {
  return std::find(assignment.begin(), assignment.end(), kUnplaced) == assignment.end();
}

/// Packs by best fit, largest first.
Assignment pack(const std::vector<PlanDevice>& devices, const std::vector<Item>& items) {
  std::vector<Bytes> room;
  for (const PlanDevice& device : devices) room.push_back(device.usable);
  Assignment assignment(items.size(), kUnplaced);
  for (std::size_t i = 0; i < items.size(); ++i) {
    for (std::size_t d = 0; d < devices.size(); ++d) {
      if (room[d] >= items[i].guarantee && (assignment[i] == kUnplaced || room[d] < room[assignment[i]]))
        assignment[i] = d;
    }
    if (assignment[i] != kUnplaced) room[assignment[i]] -= items[i].guarantee;
  }
  return assignment;
}

/// Searches exhaustively until a packing fits or the steps run out.
class Search {
 public:
  Search(const std::vector<PlanDevice>& devices, const std::vector<Item>& items) : items_(items) {
    for (const PlanDevice& device : devices) room_.push_back(device.usable);
    assignment_.assign(items.size(), kUnplaced);
  }
  bool run() { return from(0); }
  [[nodiscard]] const Assignment& assignment() const { return assignment_; }

 private:
  bool from(std::size_t item) {
    if (item == items_.size()) return true;
    if (++steps_ > kMaxSteps) return false;
    for (std::size_t d = 0; d < room_.size(); ++d) {
      // Devices with equal room are interchangeable.
      const auto end = room_.begin() + static_cast<std::ptrdiff_t>(d);
      if (room_[d] < items_[item].guarantee || std::find(room_.begin(), end, room_[d]) != end) continue;
      room_[d] -= items_[item].guarantee;
      assignment_[item] = d;
      if (from(item + 1)) return true;
      room_[d] += items_[item].guarantee;
    }
    assignment_[item] = kUnplaced;
    return false;
  }

  const std::vector<Item>& items_;
  std::vector<Bytes> room_;
  Assignment assignment_;
  int steps_ = 0;
};

Assignment tight(const std::vector<PlanDevice>& devices, const std::vector<Item>& items) {
  const Assignment packed = pack(devices, items);
  if (complete(packed) || items.size() > kExactItems) return packed;
  Search search(devices, items);
  return search.run() ? search.assignment() : packed;
}

/// Puts each item on the device whose room exceeds its limits the most; among equal ones, beside the same tenant.
Assignment spread_out(const std::vector<PlanDevice>& devices, const std::vector<Item>& items) {
  std::vector<Bytes> room;
  std::vector<std::int64_t> headroom;
  std::vector<std::vector<bool>> has(devices.size());
  for (const PlanDevice& device : devices) {
    room.push_back(device.usable);
    headroom.push_back(static_cast<std::int64_t>(device.usable.count()));
  }
  Assignment assignment(items.size(), kUnplaced);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto here = [&](std::size_t d) { return items[i].tenant < has[d].size() && has[d][items[i].tenant]; };
    std::size_t& best = assignment[i];
    for (std::size_t d = 0; d < devices.size(); ++d) {
      if (room[d] < items[i].guarantee) continue;
      if (best == kUnplaced || headroom[d] > headroom[best] ||
          (headroom[d] == headroom[best] && here(d) && !here(best)))
        best = d;
    }
    if (best == kUnplaced) continue;
    room[best] -= items[i].guarantee;
    // An unlimited item counts as one device, so that the next one still finds the emptiest device.
    headroom[best] -= static_cast<std::int64_t>(std::min(items[i].limit, devices[best].usable).count());
    has[best].resize(std::max(has[best].size(), items[i].tenant + 1));
    has[best][items[i].tenant] = true;
  }
  return assignment;
}

void add(std::vector<PlacedGroup>& groups, const PlanTenant& tenant) {
  for (PlacedGroup& group : groups) {
    if (group.tenant == tenant.name && group.guarantee == tenant.guarantee && group.limit == tenant.limit) {
      ++group.count;
      return;
    }
  }
  groups.push_back({tenant.name, 1, tenant.guarantee, tenant.limit});
}

bool fits(const std::vector<PlanDevice>& devices, const std::vector<PlanTenant>& tenants) {
  return complete(tight(devices, items_of(tenants, false)));
}

/// Returns the largest number of steps, up to `most`, with which everything fits. If a number fits, all lower ones must
/// fit too. Returns 0 if not even one step fits.
std::uint64_t largest(std::uint64_t most, const std::function<bool(std::uint64_t)>& good) {
  std::uint64_t low = 0, high = most;
  while (low < high) {
    const std::uint64_t middle = low + (high - low + 1) / 2;
    if (good(middle))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

void consider(std::optional<PlanChange>& best, const PlanChange& change) {
  if (!best || change.less < best->less) best = change;
}

std::optional<PlanChange> smallest_change(const std::vector<PlanDevice>& devices,
                                          const std::vector<PlanTenant>& tenants) {
  std::optional<PlanChange> best;
  for (std::size_t t = 0; t < tenants.size(); ++t) {
    const PlanTenant& tenant = tenants[t];
    if (tenant.guarantee == Bytes{0}) continue;
    auto changed = tenants;
    const auto times = static_cast<std::uint64_t>(tenant.count);
    const std::uint64_t steps = largest((tenant.guarantee.count() - 1) / kChangeStep.count(), [&](std::uint64_t n) {
      changed[t].guarantee = kChangeStep * n;
      return fits(devices, changed);
    });
    changed[t].guarantee = kChangeStep * steps;
    if (steps > 0 && fits(devices, changed)) {
      consider(best,
               {tenant.name, changed[t].guarantee, tenant.count, (tenant.guarantee - changed[t].guarantee) * times});
    }
    changed[t].guarantee = tenant.guarantee;
    const std::uint64_t fewer = largest(times - 1, [&](std::uint64_t n) {
      changed[t].count = static_cast<int>(n);
      return fits(devices, changed);
    });
    changed[t].count = static_cast<int>(fewer);
    if (fits(devices, changed))
      consider(best, {tenant.name, tenant.guarantee, changed[t].count, tenant.guarantee * (times - fewer)});
  }
  return best;
}

int more_devices(std::vector<PlanDevice> devices, const std::vector<PlanTenant>& tenants) {
  if (devices.empty()) return 0;
  const PlanDevice largest_device = *std::max_element(
      devices.begin(), devices.end(), [](const PlanDevice& a, const PlanDevice& b) { return a.usable < b.usable; });
  for (int more = 1; more <= kMaxMoreDevices; ++more) {
    devices.push_back(largest_device);
    if (fits(devices, tenants)) return more;
  }
  return 0;
}

void note_bursts(Placement& placement) {
  for (const PlacedDevice& placed : placement.devices) {
    for (const PlacedGroup& group : placed.groups) {
      const Bytes reachable = group.guarantee + placed.spare;
      if (group.limit <= reachable) continue;
      const auto known = std::find_if(placement.bursts.begin(), placement.bursts.end(),
                                      [&](const UnreachableBurst& burst) { return burst.tenant == group.tenant; });
      if (known == placement.bursts.end())
        placement.bursts.push_back({group.tenant, placed.device.gpu, group.limit, reachable});
      else if (reachable < known->reachable)
        *known = {group.tenant, placed.device.gpu, group.limit, reachable};
    }
  }
}

}  // namespace

Placement place(const std::vector<PlanDevice>& devices, const std::vector<PlanTenant>& tenants, bool spread) {
  Placement placement;
  auto items = items_of(tenants, spread);
  Assignment assignment = spread ? spread_out(devices, items) : tight(devices, items);
  placement.spread = spread;
  if (spread && !complete(assignment)) {
    items = items_of(tenants, false);
    assignment = tight(devices, items);
    placement.spread = false;
  }
  for (const PlanDevice& device : devices) {
    placement.devices.push_back({device, {}, Bytes{0}, device.usable});
    placement.available += device.usable;
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    placement.needed += items[i].guarantee;
    if (assignment[i] == kUnplaced) {
      add(placement.left_over, tenants[items[i].tenant]);
      continue;
    }
    PlacedDevice& placed = placement.devices[assignment[i]];
    add(placed.groups, tenants[items[i].tenant]);
    placed.guaranteed += items[i].guarantee;
    placed.spare -= items[i].guarantee;
  }
  placement.fits = placement.left_over.empty();
  note_bursts(placement);
  if (placement.fits) return placement;
  placement.change = smallest_change(devices, tenants);
  placement.more_devices = more_devices(devices, tenants);
  return placement;
}

}  // namespace ration::node
