// `ration plan`: checks whether tenants would fit on named hardware or on this machine. Changes nothing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/command.hpp"
#include "cli/verbs/verbs.hpp"
#include "config/values.hpp"
#include "node/queue/plan_json.hpp"

namespace ration::cli {
namespace {

constexpr std::size_t kBarColumns = 40;
constexpr const char* kPatterns[] = {"█", "▓", "▒", "░"};

Result<std::vector<node::PlanDevice>> devices_of(const Session& session, const PlanOptions& options) {
  if (!options.gpus.empty()) return node::parse_plan_devices(fmt::format("{}", fmt::join(options.gpus, ",")));
  RATION_TRY(const auto store, session.store());
  RATION_TRY(const auto machine, session.machine());
  std::vector<node::PlanDevice> devices;
  for (const auto& device : machine.devices) {
    const Bytes promised = admission::promises_on(device, store).total();
    devices.push_back({device.index, device.name, device.total > promised ? device.total - promised : Bytes{0}});
  }
  return devices;
}

std::string name_of(const node::PlacedGroup& group) {
  return group.count == 1 ? group.tenant : fmt::format("{}×{}", group.tenant, group.count);
}

/// Returns the bar of a device: a pattern for each tenant, a mark where the guarantees end, dots for spare memory.
std::string bar(const node::PlacedDevice& placed, std::map<std::string, const char*>& patterns) {
  const auto columns = [&](Bytes bytes) {
    const double share = static_cast<double>(bytes.count()) / static_cast<double>(placed.device.usable.count());
    return static_cast<std::size_t>(std::lround(share * static_cast<double>(kBarColumns)));
  };
  std::string text;
  Bytes sum;
  std::size_t at = 0;
  for (const auto& group : placed.groups) {
    const auto pattern = patterns.try_emplace(group.tenant, kPatterns[patterns.size() % std::size(kPatterns)]);
    sum += group.guarantee * static_cast<std::uint64_t>(group.count);
    for (; at < columns(sum); ++at) text += pattern.first->second;
  }
  text += "┊";
  for (; at < kBarColumns; ++at) text += "·";
  return text;
}

std::string groups_text(const Session& session, const std::vector<node::PlacedGroup>& groups) {
  std::string text;
  for (const auto& group : groups) {
    const Bytes together = group.guarantee * static_cast<std::uint64_t>(group.count);
    text += fmt::format("{}{} {}", text.empty() ? "" : " · ", name_of(group), session.size(together));
  }
  return text.empty() ? "no tenant" : text;
}

void show(const Session& session, const node::Placement& placement) {
  fmt::print("needs {} guaranteed on {}  → {}\n", session.size(placement.needed), session.size(placement.available),
             placement.fits ? "fits" : "does not fit");
  std::map<std::string, const char*> patterns;
  for (const auto& placed : placement.devices) {
    fmt::print("  GPU {}  {}  {}   {} spare\n", placed.device.gpu, bar(placed, patterns),
               groups_text(session, placed.groups), session.size(placed.spare));
  }
}

/// Returns the command of the same plan, with `instead` in place of the tenant of that name, and with --spread if
/// `spread`.
std::string plan_command(const PlanOptions& options, const std::optional<node::PlanTenant>& instead, bool spread) {
  std::string text = "ration plan";
  for (const std::string& gpu : options.gpus) text += " --gpu " + shell_word(gpu);
  for (const std::string& tenant : options.tenants) {
    const bool replaced = instead && tenant.substr(0, tenant.find('=')) == instead->name;
    text += " --tenant " + shell_word(replaced ? node::plan_tenant_text(*instead) : tenant);
  }
  return text + (spread ? " --spread" : "");
}

void show_notes(const Session& session, const PlanOptions& options, const node::Placement& placement,
                const node::Placement& spread, bool wanted) {
  const char* head = "note";
  for (const auto& burst : placement.bursts) {
    fmt::print("{:4}  {} cannot reach its limit of {} beside the others on its GPU ({} at most).\n", head, burst.tenant,
               session.size(burst.limit), session.size(burst.reachable));
    head = "";
  }
  if (wanted && !placement.spread)
    fmt::print("{:4}  they fit only packed tightly, not spread.\n", head);
  else if (spread.spread && spread.bursts.size() < placement.bursts.size()) {
    std::vector<std::string> places;
    for (const auto& placed : spread.devices)
      places.push_back(fmt::format("{} on GPU {}", groups_text(session, placed.groups), placed.device.gpu));
    fmt::print("{:4}  {}  → {}\n", "", session.hint(plan_command(options, {}, true)), fmt::join(places, ", "));
  }
}

std::string change_text(const Session& session, const PlanOptions& options, const node::Placement& placement,
                        const std::vector<node::PlanTenant>& tenants) {
  std::vector<std::string> ways;
  if (const auto& change = placement.change; change) {
    auto tenant = *std::find_if(tenants.begin(), tenants.end(),
                                [&](const node::PlanTenant& entry) { return entry.name == change->tenant; });
    if (tenant.limit == tenant.guarantee) tenant.limit = change->guarantee;
    tenant.guarantee = change->guarantee;
    tenant.count = change->count;
    ways.push_back(change->count == 0
                       ? fmt::format("Without {} it fits", change->tenant)
                       : fmt::format("{}   fits ({} less)", plan_command(options, tenant, options.spread),
                                     session.size(change->less)));
  }
  if (placement.more_devices > 0) {
    const auto largest =
        std::max_element(placement.devices.begin(), placement.devices.end(),
                         [](const auto& left, const auto& right) { return left.device.usable < right.device.usable; });
    ways.push_back(fmt::format("{} more {} would be enough", placement.more_devices, largest->device.name));
  }
  return ways.empty() ? "Use larger GPUs or fewer tenants: no change of a single tenant is enough."
                      : fmt::format("{}.", fmt::join(ways, "; "));
}

}  // namespace

Result<int> plan(const Session& session, const PlanOptions& options) {
  RATION_TRY(const auto devices, devices_of(session, options));
  std::vector<node::PlanTenant> tenants;
  for (const std::string& text : options.tenants) {
    const auto tenant = node::parse_plan_tenant(text, devices);
    if (tenant && !config::is_name(tenant->name)) return config::not_a_name(tenant->name);
    if (!tenant) return tl::unexpected(tenant.error());
    const bool twice = std::any_of(tenants.begin(), tenants.end(),
                                   [&](const node::PlanTenant& other) { return other.name == tenant->name; });
    if (twice) {
      return fail("E1307", fmt::format("tenant {} is given twice.", tenant->name),
                  fmt::format("--tenant {}=4GiB*6   plans several of the same size", tenant->name), 2);
    }
    tenants.push_back(*tenant);
  }
  const node::Placement placement = node::place(devices, tenants, options.spread);
  if (session.format() == Format::kJson) {
    session.print_json("plan", node::to_json(placement));
    return placement.fits ? 0 : 4;
  }
  show(session, placement);
  if (placement.fits) {
    show_notes(session, options, placement, node::place(devices, tenants, true), options.spread);
    return 0;
  }
  return fail("E1306",
              fmt::format("no room for {}: {} needed, {} available.", groups_text(session, placement.left_over),
                          session.size(placement.needed), session.size(placement.available)),
              change_text(session, options, placement, tenants), 4);
}

}  // namespace ration::cli
