// Changes that people ask for.
#include <fmt/format.h>

#include <algorithm>

#include "base/command.hpp"
#include "base/strings.hpp"
#include "node/node.hpp"
#include "policy/plan.hpp"

namespace ration::node {
namespace {

using machine::Device;

Result<void> may_change(const Workload& workload, const Caller& caller, bool raises) {
  if (caller.is_operator) return {};
  const bool own = caller.user && *caller.user == workload.owner;
  if (own && !raises) return {};
  return fail("E1502",
              fmt::format("you may not {} {} (owner {}).", own ? "raise the limit of" : "change workload",
                          workload.book.name, workload.user),
              own ? "Ask root or a member of group ration; lowering it is yours."
                  : "Ask root or a member of group ration, or change your own: ration ps",
              5);
}

}  // namespace

Result<std::vector<LimitChanged>> Node::change(const LimitRequest& request, const Caller& caller,
                                               std::vector<history::Event>& events) {
  if (request.limit.empty() && request.guarantee.empty()) {
    return fail("E1420", "nothing to change.", command({"set", request.workload, "--limit", "6GiB"}), 2);
  }
  const auto named = registry_.named(request.workload, caller.user);
  if (!named) return tl::unexpected(named.error());
  const Workload* workload = *named;
  OwnedWorkload* owned = limits_.find(workload->path);
  if (owned == nullptr)
    return fail("E1801", fmt::format("{} is beginning at this moment.", request.workload), "Again in a second.", 3);
  if (request.expected_changes && *request.expected_changes != owned->changes) {
    return fail("E1503",
                fmt::format("{} was changed by {} meanwhile (limit now {}).", workload->book.name, owned->changed_by,
                            format_size(owned->accounts.front().configured)),
                "ration ps, then say it again.", 4);
  }
  if (auto good = may_change(*workload, caller, false); !good) return tl::unexpected(good.error());
  if (!machine_) return tl::unexpected(machine_.error());

  std::vector<LimitChanged> changes;
  std::vector<OwnedLimit> fresh = owned->accounts;
  for (std::uint32_t account = 0; account < fresh.size(); ++account) {
    const auto device = std::find_if(machine_->devices.begin(), machine_->devices.end(), [&](const Device& each) {
      return each.bytes == workload->book.accounts[account].device;
    });
    if (device == machine_->devices.end()) continue;
    if (!request.gpu.empty() && !device->is_named(request.gpu)) continue;
    OwnedLimit& mine = fresh[account];
    LimitChanged change{.path = workload->path,
                        .workload = workload->book.name,
                        .gpu = device->index,
                        .old_limit = mine.configured,
                        .limit = mine.configured,
                        .effective = mine.effective,
                        .old_guarantee = mine.guarantee,
                        .guarantee = mine.guarantee,
                        .used = workload->used[account],
                        .device_free = device->free,
                        .held_back_by = {}};
    if (!request.limit.empty()) {
      const auto limit = policy::changed_limit(*device, request.limit, mine.configured);
      if (!limit) return tl::unexpected(limit.error());
      change.limit = *limit;
      for (const policy::Slice& slice : slices_)
        if (slice.name == workload->book.slice && slice.uuid == device->uuid && *limit > slice.size)
          return fail("E1104",
                      fmt::format("{} is more than its slice {} has ({}).", format_size(*limit), slice.name,
                                  format_size(slice.size)),
                      command({"set", workload->book.name, "--limit", exact_size(slice.size)}), 2);
    }
    if (!request.guarantee.empty()) {
      const auto guarantee = policy::guarantee_on(*device, request.guarantee);
      if (!guarantee) return tl::unexpected(guarantee.error());
      change.guarantee = *guarantee;
      for (const DeviceView& view : snapshot_.devices) {
        if (view.device.index != device->index || *guarantee <= mine.guarantee) continue;
        if (auto good = can_promise(view, workload->book.tenant, *guarantee, workload->path); !good)
          return tl::unexpected(good.error());
      }
    }
    if (auto good = check_amounts(change); !good) return tl::unexpected(good.error());
    const bool raises = change.limit > change.old_limit || change.guarantee > mine.guarantee;
    if (auto good = may_change(*workload, caller, raises); !good) return tl::unexpected(good.error());
    mine.configured = change.limit;
    // A raised limit waits for the next look where somebody else's guarantee may need the room; any other holds now.
    mine.effective = mine.held_back_by.empty() ? change.limit : std::min(mine.effective, change.limit);
    mine.guarantee = change.guarantee;
    change.effective = mine.effective;
    change.held_back_by = mine.held_back_by;
    changes.push_back(std::move(change));
  }
  if (changes.empty()) {
    return fail("E1801", fmt::format("{} has nothing on GPU {}.", workload->book.name, request.gpu), "ration ps", 3);
  }
  const bool nothing_new = std::all_of(changes.begin(), changes.end(), [](const LimitChanged& change) {
    return change.limit == change.old_limit && change.guarantee == change.old_guarantee;
  });
  if (request.dry_run || nothing_new) return changes;

  const std::vector<OwnedLimit> before = std::exchange(owned->accounts, std::move(fresh));
  if (auto written = limits_.write(*workload); !written) {
    owned->accounts = before;
    return tl::unexpected(written.error());
  }
  ++owned->changes;
  owned->changed_by = caller.name;
  owned->changed_ns = now_ns_;
  limits_.changed();
  tell_moves_of(*workload, events);
  limit_moves_.forget(workload->path);
  for (const LimitChanged& change : changes) {
    std::string what;
    if (!request.limit.empty())
      what = fmt::format("limit {} → {}", format_size(change.old_limit), format_size(change.limit));
    if (!request.guarantee.empty())
      what += fmt::format("{}guarantee {} → {}", what.empty() ? "" : ", ", format_size(change.old_guarantee),
                          format_size(change.guarantee));
    history::Event event = event_of(
        *workload, "resized",
        fmt::format(
            "{}/{}: {} on GPU {}, by {}{}", workload->book.tenant, workload->book.name, what, *change.gpu, caller.name,
            change.used > change.limit ? fmt::format("; shrinking, over by {}", format_size(change.used - change.limit))
                                       : std::string()));
    event.gpu = change.gpu;
    event.by = caller.name;
    event.old_value = std::to_string(change.old_limit.count());
    event.new_value = std::to_string(change.limit.count());
    events.push_back(std::move(event));
  }
  // It holds all the same, until the daemon is started again.
  if (const auto saved = limits_.save(); !saved && !std::exchange(save_problem_told_, true))
    events.push_back(history::plain_event("daemon", saved.error().what));
  return changes;
}

void Node::refresh(std::vector<LimitChanged>& changes) const {
  for (LimitChanged& change : changes) {
    for (const AccountView& account : snapshot_.accounts) {
      if (account.path != change.path || account.gpu != change.gpu) continue;
      change.effective = account.limit;
      change.held_back_by = account.held_back_by;
    }
  }
}

}  // namespace ration::node
