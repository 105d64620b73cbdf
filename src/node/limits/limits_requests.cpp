#include "node/limits/limits_requests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "admission/plan.hpp"
#include "base/command.hpp"
#include "base/strings.hpp"
#include "machine/user_names.hpp"
#include "node/limits/limit_events.hpp"

namespace ration::node {

using machine::Device;

namespace {

Result<void> may_change(const Workload& workload, const Caller& caller, bool raises) {
  if (caller.is_operator) return {};
  const bool own = caller.user && *caller.user == workload.owner;
  if (own && !raises) return {};
  return fail("E1502",
              fmt::format("you may not {} {} (owner {}).", own ? "raise the limit of" : "change workload",
                          workload.book.name, workload.user),
              own ? "Ask root or a member of group ration to raise it; you may lower it yourself."
                  : "Ask root or a member of group ration, or change a workload of your own: ration ps   shows them",
              5);
}

/// Describes a device by the facts that the book recorded about it.
Device as_remembered(const book::AccountSnapshot& entry) {
  Device device;
  device.bytes = entry.device;
  device.name = entry.device_name;
  device.total = entry.device_total;
  return device;
}

std::vector<TenantChange::Over> over_limit(const Snapshot& snapshot, const std::string& tenant,
                                           const config::Amount& limit) {
  std::vector<TenantChange::Over> over;
  for (const DeviceView& device : snapshot.devices) {
    const auto most = limit.on(device.device.total, device.device.room());
    Bytes used;
    for (const AccountView& account : snapshot.accounts)
      if (account.tenant == tenant && account.gpu == device.device.index) used += account.used;
    if (most && used > *most) over.push_back({device.device.index, used, *most});
  }
  return over;
}

/// Fails with E1305 if the guarantee exceeds the limit.
Result<void> check_amounts(const LimitChanged& change) {
  if (change.guarantee <= change.limit) return {};
  return fail("E1305",
              fmt::format("the guarantee {} is more than the limit {}.", format_size(change.guarantee),
                          format_size(change.limit)),
              command({"set", change.workload, "--limit", exact_size(change.guarantee)}), 2);
}

/// Fails with E1104 if the limit exceeds the workload's slice.
Result<void> check_slice(const LimitSubjects& node, const Workload& workload, const Device& device, Bytes limit) {
  for (const admission::Slice& slice : node.moment.slices)
    if (slice.name == workload.book.slice && slice.uuid == device.uuid && limit > slice.size)
      return fail("E1104",
                  fmt::format("{} is more than its slice {} has ({}).", format_size(limit), slice.name,
                              format_size(slice.size)),
                  command({"set", workload.book.name, "--limit", exact_size(slice.size)}), 2);
  return {};
}

/// Sets the limit and the guarantee of one account in `mine`, as `request` asks. Returns nothing if `request` names
/// another GPU than the account's.
Result<std::optional<LimitChanged>> change_account(const LimitSubjects& node, const Workload& workload,
                                                   const LimitRequest& request, const Caller& caller,
                                                   std::uint32_t account, OwnedLimit& mine) {
  const book::AccountSnapshot& entry = workload.book.accounts[account];
  const Device* present = device_of(node.moment, entry.device);
  if (!request.gpu.empty() && (present == nullptr || !present->is_named(request.gpu))) return std::nullopt;
  const Device remembered = as_remembered(entry);
  const Device& device = present != nullptr ? *present : remembered;
  LimitChanged change{.path = workload.path,
                      .workload = workload.book.name,
                      .gpu = present != nullptr ? std::optional(present->index) : std::nullopt,
                      .old_limit = mine.configured,
                      .limit = mine.configured,
                      .in_force = mine.in_force,
                      .old_guarantee = mine.guarantee,
                      .guarantee = mine.guarantee,
                      .used = workload.used[account],
                      .host = {},
                      .device_free = present != nullptr ? present->free : std::nullopt,
                      .held_back_by = {}};
  if (!request.limit.empty()) {
    RATION_TRY(change.limit, admission::changed_limit(device, request.limit, mine.configured));
    RATION_TRY(check_slice(node, workload, device, change.limit));
  }
  if (!request.guarantee.empty()) {
    RATION_TRY(change.guarantee, admission::guarantee_on(device, request.guarantee));
    for (const DeviceView& view : node.moment.snapshot.devices) {
      if (view.device.bytes != entry.device || change.guarantee <= mine.guarantee) continue;
      RATION_TRY(node.promises.can_promise(node.moment, view, workload.book.tenant, change.guarantee, workload.path));
    }
  }
  RATION_TRY(check_amounts(change));
  RATION_TRY(may_change(workload, caller, change.limit > change.old_limit || change.guarantee > mine.guarantee));
  mine.configured = change.limit;
  mine.granted = mine.reach = Bytes{0};  // the next tick computes them
  // A higher limit takes effect at the next tick if a guarantee of others may need the room. Any other change takes
  // effect now.
  mine.in_force = mine.held_back_by.empty() ? change.limit : std::min(mine.in_force, change.limit);
  mine.guarantee = change.guarantee;
  change.in_force = mine.in_force;
  change.held_back_by = mine.held_back_by;
  return change;
}

/// Sets the limit of pinned host memory, as `request` asks. Fails with E1502, E1104 or E1105, and with E1411 if the
/// book does not count pinned memory.
Result<LimitChanged::Host> change_host(const Workload& workload, const LimitRequest& request, const Caller& caller,
                                       OwnedWorkload& owned) {
  if (!workload.book.host.counted)
    return fail(
        "E1411",
        fmt::format("the book of {} does not count pinned memory: an older version of ration started the workload.",
                    workload.book.name),
        "Start the workload again, with --host-limit.", 4);
  RATION_TRY(const Bytes wanted, admission::host_limit_of(request.host_limit, owned.host_configured));
  RATION_TRY(may_change(workload, caller, wanted > owned.host_configured));
  const LimitChanged::Host change{owned.host_configured, wanted, workload.host_used};
  owned.host_configured = wanted;
  return change;
}

/// Returns the event of one account's change.
Event change_event(const LimitSubjects& node, const Workload& workload, const LimitRequest& request,
                   const Caller& caller, const LimitChanged& change) {
  LimitChangeFacts facts;
  if (!request.limit.empty()) facts.limit = {change.old_limit, change.limit};
  if (!request.guarantee.empty()) facts.guarantee = {change.old_guarantee, change.guarantee};
  if (change.host) facts.host_limit = {change.host->before, change.host->after};
  const bool of_device = facts.limit || facts.guarantee;
  if (of_device) facts.gpu = change.gpu;
  if (of_device) facts.over = change.used - std::min(change.used, change.limit);
  facts.by = caller.name;
  Event event = resized_event(event_subject(node.moment, workload), facts);
  event.old_value = std::to_string((of_device ? change.old_limit : change.host->before).count());
  event.new_value = std::to_string((of_device ? change.limit : change.host->after).count());
  return event;
}

}  // namespace

Result<std::vector<LimitChanged>> change_limits(const LimitSubjects& node, const Workload& workload,
                                                const LimitRequest& request, const Caller& caller, Events& events) {
  OwnedWorkload* owned = node.limits.find(workload.path);
  if (owned == nullptr)
    return fail("E1801", fmt::format("{} is still starting.", request.workload), "Retry in a second.", 3);
  if (request.expected_changes && *request.expected_changes != owned->changes) {
    return fail("E1503",
                fmt::format("{} was changed by {} meanwhile (its limit is {} now).", workload.book.name,
                            owned->changed_by, format_size(owned->accounts.front().configured)),
                "ration ps   shows the limit; then repeat the change.", 4);
  }
  RATION_TRY(may_change(workload, caller, false));
  if (!node.moment.machine && !request.gpu.empty())
    return tl::unexpected(node.moment.machine.error());  // only the driver tells which account belongs to a GPU

  std::vector<LimitChanged> changes;
  std::vector<OwnedLimit> fresh = owned->accounts;
  for (std::uint32_t account = 0; account < fresh.size(); ++account) {
    RATION_TRY(auto change, change_account(node, workload, request, caller, account, fresh[account]));
    if (change) changes.push_back(*std::move(change));
  }
  if (changes.empty())
    return fail("E1801", fmt::format("{} has no account on GPU {}.", workload.book.name, request.gpu), "ration ps", 3);
  OwnedWorkload with_host = *owned;
  if (!request.host_limit.empty()) {
    RATION_TRY(changes.front().host, change_host(workload, request, caller, with_host));
  }
  const bool nothing_new = with_host.host_configured == owned->host_configured &&
                           std::all_of(changes.begin(), changes.end(), [](const LimitChanged& change) {
                             return change.limit == change.old_limit && change.guarantee == change.old_guarantee;
                           });
  if (request.dry_run || nothing_new) return changes;

  with_host.accounts = std::move(fresh);
  const OwnedWorkload before = std::exchange(*owned, std::move(with_host));
  if (auto written = node.limits.write(workload); !written) {
    *owned = before;
    return tl::unexpected(written.error());
  }
  ++owned->changes;
  owned->changed_by = caller.name;
  owned->changed_ns = node.moment.now_ns;
  node.limits.changed();
  report_limit_moves(node.moment, node.moves, workload, events);
  node.moves.forget(workload.path);
  for (const LimitChanged& change : changes)
    if (change.host || !request.limit.empty() || !request.guarantee.empty())
      events.push_back(change_event(node, workload, request, caller, change));
  // The change is in force even if it cannot be saved for the daemon's next start.
  if (const auto problem = node.limits.save_or_tell()) events.push_back(daemon_event(problem->what));
  return changes;
}

Result<std::vector<LimitChanged>> change_workload(const LimitSubjects& node, const LimitRequest& request,
                                                  const Caller& caller, Events& events) {
  if (request.limit.empty() && request.host_limit.empty() && request.guarantee.empty()) {
    return fail("E1420", "nothing to change.", command({"set", request.workload, "--limit", "6GiB"}), 2);
  }
  RATION_TRY(const auto named, node.moment.registry.named(request.workload, caller.user));
  return change_limits(node, *named, request, caller, events);
}

void refresh(const Snapshot& snapshot, std::vector<LimitChanged>& changes) {
  for (LimitChanged& change : changes) {
    for (const AccountView& account : snapshot.accounts) {
      if (account.path != change.path || account.gpu != change.gpu) continue;
      change.in_force = account.limit;
      change.held_back_by = account.held_back_by;
    }
  }
}

namespace {

/// Returns the tenant if the caller may change it. Fails with E1420, E1502, E1503 or E1801.
Result<const TenantStatus*> tenant_to_change(const Tenants& tenants, const LimitRequest& request,
                                             const Caller& caller) {
  const TenantStatus* tenant = tenants.find(request.workload);
  if (tenant == nullptr) {
    std::vector<std::string> names;
    for (const TenantStatus& each : tenants.all()) names.push_back(each.name);
    return fail("E1801",
                fmt::format("no tenant is named '{}' in the configuration.{}", request.workload,
                            suggestion(request.workload, names)),
                "ration config print", 3);
  }
  if (!caller.is_operator)
    return fail("E1502", fmt::format("you may not change tenant {}.", request.workload),
                "Ask root or a member of group ration, or change only your own workloads: ration ps   shows them", 5);
  if (!request.host_limit.empty())
    return fail("E1420", "a tenant has no limit of pinned host memory.",
                "[[policy]] host_limit   limits the workloads that it matches; ration set WORKLOAD --host-limit SIZE",
                2);
  if (request.limit.empty() && request.guarantee.empty())
    return fail("E1420", "nothing to change.", command({"set", tenant->name, "--limit", "6GiB"}), 2);
  if (!request.gpu.empty())
    return fail("E1420", "a tenant's limit applies to every GPU.",
                "Leave --gpu out, or change the limits of its workloads.", 2);
  if (request.expected_changes && *request.expected_changes != tenant->changes)
    return fail("E1503",
                fmt::format("tenant {} was changed by {} meanwhile (its limit is {} now).", tenant->name,
                            tenant->limit_from, tenant->limit.is_set() ? tenant->limit.text : "none"),
                "ration ps   shows the limit; then repeat the change.", 4);
  return tenant;
}

/// Fails with E1104 if a size exceeds the largest GPU.
Result<void> check_sizes(const machine::Machine& machine, const TenantStatus& tenant, const LimitRequest& request) {
  Bytes largest;
  for (const machine::Device& device : machine.devices) largest = std::max(largest, device.total);
  const auto is_too_large = [&](const std::string& text) {
    const auto size = parse_size(text, largest, largest);
    return !text.empty() && size && *size > largest && *size < kUnlimited;
  };
  const auto too_large = [&](const std::string& text, std::string fix) {
    return fail("E1104", fmt::format("{} is more than the largest GPU has ({}).", text, format_size(largest)),
                std::move(fix), 2);
  };
  if (is_too_large(request.limit)) return too_large(request.limit, command({"set", tenant.name, "--limit", "max"}));
  if (is_too_large(request.guarantee))
    return too_large(request.guarantee, command({"set", tenant.name, "--guarantee", exact_size(largest)}));
  return {};
}

/// Checks on one GPU that the guarantee is within the limit and that the node can keep it. Fails with E1305 if the
/// guarantee exceeds the limit, and as can_guarantee() does.
Result<void> check_tenant_on(const Moment& moment, const DevicePromises& promises, const machine::Device& device,
                             const TenantStatus& tenant, const LimitRequest& request) {
  const config::Amount limit{request.limit.empty() ? tenant.limit.text : request.limit},
      guarantee{request.guarantee.empty() ? tenant.guarantee.text : request.guarantee};
  RATION_TRY(const auto most, limit.on(device.total, device.room()));
  if (!guarantee.is_set()) return {};
  RATION_TRY(const auto kept, guarantee.on(device.total, device.room()));
  if (kept > most)
    return fail("E1305",
                fmt::format("the guarantee {} is more than the limit {}.", format_size(kept), format_size(most)),
                command({"set", tenant.name, "--limit", guarantee.text}), 2);
  const auto before =
      tenant.guarantee.is_set() ? tenant.guarantee.on(device.total, device.room()) : Result<Bytes>(Bytes{0});
  if (request.guarantee.empty() || (before && kept <= *before)) return {};  // it does not grow
  for (const DeviceView& view : moment.snapshot.devices)
    if (view.device.index == device.index) RATION_TRY(promises.can_guarantee(moment, view, tenant.name, kept));
  return {};
}

}  // namespace

Result<std::vector<TenantChange>> change_tenant(const Moment& moment, Tenants& tenants, const DevicePromises& promises,
                                                const LimitRequest& request, const Caller& caller, Events& events) {
  RATION_TRY(const TenantStatus* tenant, tenant_to_change(tenants, request, caller));
  if (!moment.machine) return tl::unexpected(moment.machine.error());
  RATION_TRY(check_sizes(*moment.machine, *tenant, request));
  for (const machine::Device& device : moment.machine->devices)
    RATION_TRY(check_tenant_on(moment, promises, device, *tenant, request));
  const std::string name = tenant->name;
  std::vector<TenantChange> would;
  if (!request.limit.empty()) would.push_back({name, "limit", tenant->limit.text, request.limit, caller.name, {}});
  if (!request.guarantee.empty())
    would.push_back({name, "guarantee", tenant->guarantee.text, request.guarantee, caller.name, {}});
  auto changes = request.dry_run ? Result<std::vector<TenantChange>>(std::move(would))
                                 : tenants.change(name, request.limit, request.guarantee, caller.name);
  if (!changes) return changes;
  for (TenantChange& change : *changes) {
    if (change.what == "limit") change.over = over_limit(moment.snapshot, name, config::Amount{change.new_text});
    if (!request.dry_run) events.push_back(tenant_resized_event(change));
  }
  return changes;
}

}  // namespace ration::node
