// What the configuration says beyond limits of workloads: tenants by the hour, soft limits, limits of policies, and
// what is done about processes that nobody governs.
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "base/command.hpp"
#include "base/strings.hpp"
#include "node/decisions/balance.hpp"
#include "node/node.hpp"
#include "policy/configured_promises.hpp"

namespace ration::node {
namespace {

using history::Event;
using history::plain_event;

/// Between the request to end and the end.
constexpr std::uint64_t kTimeToEnd = 5'000'000'000;

Event changed_event(const TenantChange& change) {
  const auto shown = [](const std::string& text) { return text.empty() ? std::string("none") : text; };
  std::string over;
  for (const TenantChange::Over& each : change.over)
    over += fmt::format("; over by {} on GPU {}", format_size(each.used - each.limit), each.gpu);
  Event event = plain_event("resized", fmt::format("tenant {}: {} {} → {}, by {}{}", change.tenant, change.what,
                                                   shown(change.old_text), shown(change.new_text), change.by, over));
  event.tenant = change.tenant;
  event.by = change.by;
  event.old_value = change.old_text;
  event.new_value = change.new_text;
  return event;
}

/// Whether all of that can be kept on the device. `asked` of it are new, for `tenant`; less of it might be possible
/// unless the tenant has a larger promise of its own.
Result<void> can_keep(const DeviceView& device, const std::map<std::string, Bytes>& promised, Bytes reserved,
                      const std::string& tenant, Bytes asked, bool less_would_do) {
  Bytes sum = reserved;
  for (const auto& [name, bytes] : promised) sum += bytes;
  const Bytes total = device.device.total;
  if (sum <= total) return {};
  std::string taken;
  const auto add = [&](Bytes bytes, const std::string& what) {
    if (bytes > Bytes{0}) taken += fmt::format("{}{} {}", taken.empty() ? "" : ", ", format_size(bytes), what);
  };
  for (const auto& [name, bytes] : promised)
    add(name == tenant ? bytes - std::min(bytes, asked) : bytes,
        name == tenant ? "to what else runs of " + name : "to " + name);
  add(reserved, "are sliced or kept free");
  const Bytes left = asked - std::min(asked, sum - total);
  return fail("E1304",
              fmt::format("{} cannot be promised to {}: GPU {} has {}, of which {}.", format_size(asked), tenant,
                          device.device.index, format_size(total),
                          taken.empty() ? "nothing else is promised" : "promised already: " + taken),
              left < kGranule || !less_would_do ? command({"explain", "--gpu", std::to_string(device.device.index)}) +
                                                      "   shows who is there; lower another guarantee first"
                                                : fmt::format("--guarantee {}, at most", exact_size(left)),
              4);
}

}  // namespace

void Node::follow_the_clock(std::vector<Event>& events) {
  for (const TenantChange& change : tenants_.update(configuration_, local_time(now_ns_)))
    events.push_back(changed_event(change));
}

// --------------------------------------------------------------------------------------------------- tenants' numbers

Result<std::vector<TenantChange>> Node::change_tenant(const LimitRequest& request, const Caller& caller,
                                                      std::vector<Event>& events) {
  if (!caller.is_operator)
    return fail("E1502", fmt::format("you may not change tenant {}.", request.workload),
                "Ask root or a member of group ration, or change your own workloads: ration ps", 5);
  const TenantNow* tenant = tenants_.find(request.workload);
  if (tenant == nullptr) {
    std::vector<std::string> names;
    for (const TenantNow& each : tenants_.all()) names.push_back(each.name);
    return fail("E1801",
                fmt::format("no tenant is named '{}' in the configuration.{}", request.workload,
                            suggestion(request.workload, names)),
                "ration config print", 3);
  }
  if (request.limit.empty() && request.guarantee.empty())
    return fail("E1420", "nothing to change.", command({"set", tenant->name, "--limit", "6GiB"}), 2);
  if (!request.gpu.empty())
    return fail("E1420", "what a tenant may have holds on every GPU.", "Leave --gpu out, or set its workloads.", 2);
  if (request.expected_changes && *request.expected_changes != tenant->changes)
    return fail("E1503",
                fmt::format("tenant {} was changed by {} meanwhile (limit now {}).", tenant->name, tenant->limit_from,
                            tenant->limit.is_set() ? tenant->limit.text : "none"),
                "ration ps, then say it again.", 4);
  if (!machine_) return tl::unexpected(machine_.error());
  Bytes largest;
  for (const machine::Device& device : machine_->devices) largest = std::max(largest, device.total);
  for (const std::string& text : {request.limit, request.guarantee}) {
    const auto size = parse_size(text, largest, largest);
    if (!text.empty() && size && *size > largest && *size < kUnlimited)
      return fail("E1104", fmt::format("{} is more than the largest GPU has ({}).", text, format_size(largest)),
                  command({"set", tenant->name, "--limit", "max"}), 2);
  }
  for (const machine::Device& device : machine_->devices) {
    const config::Amount limit{request.limit.empty() ? tenant->limit.text : request.limit},
        guarantee{request.guarantee.empty() ? tenant->guarantee.text : request.guarantee};
    const auto most = limit.on(device.total, device.room());
    if (!most) return tl::unexpected(most.error());
    if (!guarantee.is_set()) continue;
    const auto kept = guarantee.on(device.total, device.room());
    if (!kept) return tl::unexpected(kept.error());
    if (*kept > *most)
      return fail("E1305",
                  fmt::format("the guarantee {} is more than the limit {}.", format_size(*kept), format_size(*most)),
                  command({"set", tenant->name, "--limit", guarantee.text}), 2);
    const auto before =
        tenant->guarantee.is_set() ? tenant->guarantee.on(device.total, device.room()) : Result<Bytes>(Bytes{0});
    if (request.guarantee.empty() || (before && *kept <= *before)) continue;  // nothing more is promised
    for (const DeviceView& view : snapshot_.devices)
      if (view.device.index == device.index)
        if (auto good = can_guarantee(view, tenant->name, *kept); !good) return tl::unexpected(good.error());
  }
  const std::string name = tenant->name;
  std::vector<TenantChange> would;
  if (!request.limit.empty()) would.push_back({name, "limit", tenant->limit.text, request.limit, caller.name, {}});
  if (!request.guarantee.empty())
    would.push_back({name, "guarantee", tenant->guarantee.text, request.guarantee, caller.name, {}});
  auto changes = request.dry_run ? Result<std::vector<TenantChange>>(std::move(would))
                                 : tenants_.change(name, request.limit, request.guarantee, caller.name);
  if (!changes) return changes;
  for (TenantChange& change : *changes) {
    if (change.what == "limit") change.over = over_limit(name, config::Amount{change.new_text});
    if (!request.dry_run) events.push_back(changed_event(change));
  }
  return changes;
}

std::vector<TenantChange::Over> Node::over_limit(const std::string& tenant, const config::Amount& limit) const {
  std::vector<TenantChange::Over> over;
  for (const DeviceView& device : snapshot_.devices) {
    const auto most = limit.on(device.device.total, device.device.room());
    Bytes used;
    for (const AccountView& account : snapshot_.accounts)
      if (account.tenant == tenant && account.gpu == device.device.index) used += account.used;
    if (most && used > *most) over.push_back({device.device.index, used, *most});
  }
  return over;
}

Leases::Shares Node::shares() const {
  Leases::Shares shares;
  for (const TenantNow& tenant : tenants_.all()) {
    for (const DeviceView& device : snapshot_.devices) {
      Leases::Share share;
      if (tenant.limit.is_set())
        share.limit = tenant.limit.on(device.device.total, device.device.room()).value_or(kUnlimited);
      if (tenant.guarantee.is_set())
        share.guarantee = tenant.guarantee.on(device.device.total, device.device.room()).value_or(Bytes{0});
      if (share.limit < kUnlimited || share.guarantee > Bytes{0}) shares[{tenant.name, device.device.index}] = share;
    }
  }
  return shares;
}

bool Node::is_taken(const policy::Slice& slice) const {
  return std::any_of(registry_.workloads().begin(), registry_.workloads().end(),
                     [&](const auto& each) { return each.second.book.slice == slice.name; });
}

Bytes Node::reserved_on(const machine::Device& device) const {
  Bytes reserved = policy::kept_free(configuration_, device);
  for (const policy::Slice& slice : slices_)
    if (slice.uuid == device.uuid && !is_taken(slice)) reserved += slice.size;
  return reserved;
}

void Node::note_slices() {
  for (DeviceView& device : snapshot_.devices) {
    device.keep_free = policy::kept_free(configuration_, device.device);
    device.sliced = reserved_on(device.device) - device.keep_free;
  }
}

Bytes Node::slice_on(const DeviceView& device, const std::string& name) const {
  for (const policy::Slice& slice : slices_)
    if (!name.empty() && slice.name == name && slice.uuid == device.device.uuid)
      return std::min(slice.size, device.sliced);
  return Bytes{0};
}

std::map<std::string, Bytes> Node::promises_on(const DeviceView& device, const std::string& except) const {
  std::map<std::string, Bytes> promised;
  for (const AccountView& account : snapshot_.accounts)
    if (account.gpu == device.device.index && account.path != except && !account.suspended)
      promised[account.tenant] += account.guarantee;
  return promised;
}

Result<void> Node::can_promise(const DeviceView& device, const std::string& tenant, Bytes more,
                               const std::string& except, const std::string& slice) const {
  std::map<std::string, Bytes> promised = promises_on(device, except);
  const Bytes own = promised[tenant] += more;
  for (const auto& [name, bytes] : guarantees_on(device.device)) promised[name] = std::max(promised[name], bytes);
  return can_keep(device, promised, device.keep_free + device.sliced - slice_on(device, slice), tenant, more,
                  promised[tenant] == own);
}

Result<void> Node::may_promise(const DeviceView& device, const std::string& tenant, Bytes more,
                               const std::string& slice) const {
  if (more <= slice_on(device, slice)) return {};
  std::map<std::string, Bytes> promised = promises_on(device, ""), configured = guarantees_on(device.device);
  const Bytes own = promised[tenant], most = configured[tenant];
  if (own + more <= most) return {};
  const std::string kept = own == Bytes{0} ? "" : fmt::format(", of which {} is taken", format_size(own));
  return fail(
      "E1502",
      fmt::format("{} of GPU {} may not be kept from others for {}: it is guaranteed {} there{}.", format_size(more),
                  device.device.index, tenant, most == Bytes{0} ? "nothing" : format_size(most), kept),
      fmt::format(
          "Leave --guarantee or --slice out, or ask root or a member of group ration for a [[tenant]] in ration.toml "
          "with guarantee = \"{}\" and match = {{ users }} that names you",
          exact_size(own + more)),
      5);
}

Result<void> Node::can_guarantee(const DeviceView& device, const std::string& tenant, Bytes guarantee) const {
  std::map<std::string, Bytes> promised = promises_on(device, "");
  const bool less_would_do = guarantee >= promised[tenant];
  promised[tenant] = std::max(promised[tenant], guarantee);
  for (const auto& [name, bytes] : guarantees_on(device.device))
    if (name != tenant) promised[name] = std::max(promised[name], bytes);
  return can_keep(device, promised, device.keep_free + device.sliced, tenant, guarantee, less_would_do);
}

std::map<std::string, Bytes> Node::guarantees_on(const machine::Device& device) const {
  std::map<std::string, Bytes> guarantees;
  for (const auto& [where, share] : shares())
    if (where.second == device.index && share.guarantee > Bytes{0}) guarantees[where.first] = share.guarantee;
  return guarantees;
}

// ------------------------------------------------------------------------------------------------- limits of policies

// Within each group (one workload, one user's, all that fit) what is left goes to those who want more, else to all, in
// equal parts: together they never exceed the limit, between two looks either.
void Node::apply_policies(const machine::Device& device, const std::vector<const Workload*>& workloads,
                          BalanceInput& input, std::vector<std::string>& because) {
  because.assign(input.accounts.size(), {});
  std::map<std::pair<const config::Policy*, std::string>, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    const config::Policy* policy = policy_of(*workloads[i]);
    if (policy == nullptr || !policy->limit.value.is_set()) continue;
    const bool each = policy->per.value == config::Per::kWorkload, user = policy->per.value == config::Per::kUser;
    groups[{policy, each ? workloads[i]->path : user ? workloads[i]->user : std::string()}].push_back(i);
  }
  for (const auto& [key, members] : groups) {
    const config::Policy& policy = *key.first;
    const auto limit = policy.limit.value.on(device.total, device.room());
    if (!limit) continue;
    Bytes used;
    std::size_t askers = 0;
    for (const std::size_t member : members) {
      used += input.accounts[member].used;
      askers += input.accounts[member].wants > Bytes{0} ? 1 : 0;
    }
    const Bytes left = *limit - std::min(*limit, used);
    for (const std::size_t member : members) {
      BalanceAccount& account = input.accounts[member];
      const bool shares = askers == 0 || account.wants > Bytes{0};
      const Bytes part = shares ? Bytes{left.count() / (askers == 0 ? members.size() : askers)} : Bytes{0};
      if (account.used + part >= account.limit) continue;
      account.limit = account.used + part;
      account.guarantee = std::min(account.guarantee, account.limit);
      because[member] = policy.per.value == config::Per::kUser
                            ? fmt::format("{} has {} by the policy at {}", workloads[member]->user, format_size(*limit),
                                          policy.limit.origin.text())
                            : fmt::format("the policy at {} gives {}", policy.limit.origin.text(), format_size(*limit));
    }
  }
}

// -------------------------------------------------------------------------------------------------- held by the driver

void Node::hold_by_driver(std::vector<Event>& events) {
  for (const auto& [path, workload] : registry_.workloads()) {
    const OwnedWorkload* owned = limits_.find(path);
    if (owned == nullptr) continue;
    std::map<int, Bytes> limits;
    for (std::size_t i = 0; i < std::min(owned->accounts.size(), workload.book.accounts.size()); ++i) {
      const auto gpu = gpu_of(workload.book.accounts[i].device);
      if (gpu && owned->accounts[i].effective < kUnlimited) limits[*gpu] = owned->accounts[i].effective;
    }
    driver_limits_.hold(
        path, [&workload = workload] { return creator_of(workload); }, limits);
  }
  for (const std::string& problem : driver_limits_.take_problems()) {
    events.push_back(plain_event("guard_lost", "the driver holds no limits, the shim does: " + problem));
  }
}

// ------------------------------------------------------------------------------------------------ who is not governed

// A pidfd is taken when the process is first seen: whoever has the number later is not meant.
void Node::deal_with_ungoverned(std::vector<Event>& events) {
  const config::Ungoverned rule = configuration_.defaults.ungoverned.value;
  if (rule == config::Ungoverned::kReport) {
    outsiders_.clear();
    return;
  }
  const auto grace = static_cast<std::uint64_t>(configuration_.defaults.grace.value.count());
  std::map<std::int32_t, Outsider> present;
  for (const UngovernedView& view : snapshot_.ungoverned) {
    const std::int32_t pid = view.process.pid;
    if (present.count(pid) != 0) continue;
    auto known = outsiders_.find(pid);
    const bool fresh = known == outsiders_.end();
    Outsider outsider = fresh ? Outsider{} : std::move(known->second);
    const auto tell = [&](std::string text) {
      Event event = plain_event("alert", std::move(text));
      event.pid = pid;
      event.user = view.process.user;
      event.gpu = view.gpu;
      event.fix = "ration run --limit SIZE -- …";
      events.push_back(std::move(event));
    };
    const std::string who = fmt::format("pid {} ({}, {})", pid,
                                        view.process.command.empty() ? "n/a" : view.process.command, view.process.user);
    if (fresh) {
      outsider.seen_ns = now_ns_;
      outsider.handle = FileDescriptor{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
      tell(rule == config::Ungoverned::kWarn ? fmt::format("{} is under no limit on GPU {}", who, view.gpu)
                                             : fmt::format("{} is under no limit on GPU {}: it is ended in {}", who,
                                                           view.gpu, format_duration(grace)));
    } else if (rule == config::Ungoverned::kTerminate && outsider.handle && now_ns_ >= outsider.seen_ns + grace) {
      const bool again = outsider.told_ns != 0;
      if (!again || (now_ns_ >= outsider.told_ns + kTimeToEnd && !outsider.killed)) {
        const int signal = again ? SIGKILL : SIGTERM;
        const bool sent = ::syscall(SYS_pidfd_send_signal, outsider.handle.get(), signal, nullptr, 0) == 0;
        tell(sent ? fmt::format("{} is under no limit: {} was sent", who, again ? "SIGKILL" : "SIGTERM")
                  : fmt::format("{} is under no limit and cannot be ended by this daemon's user", who));
        outsider.told_ns = now_ns_;
        outsider.killed = again || !sent;
      }
    }
    present.emplace(pid, std::move(outsider));
  }
  outsiders_ = std::move(present);
}

}  // namespace ration::node
