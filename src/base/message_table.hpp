// Every message that has an id, in English: one row each. Other languages are tables by the same ids
// (web/src/text/daemon.ts), which a test holds against this one. Promises: an id keeps its meaning; an argument keeps
// its name and its form, because the history keeps both.
//
// `{name}` is an argument. Its form follows from the name (message.hpp): `_bytes` a size, `_seconds` a duration,
// `_percent` a number; any other is a text, a number, a message, or several of them. A part in `[…]` is left out if an
// argument in it is absent.
#pragma once

#include <string_view>

namespace ration {

struct MessageRow {
  std::string_view id, english;
};

// clang-format off
inline constexpr MessageRow kMessageTable[] = {
    // Workloads come and go.
    {"workload.started", "{workload} started with a limit of {limits_bytes}"},
    {"workload.ended", "{workload} ended with {status}, its peak was {peak_bytes}"},
    {"workload.ended_unseen", "{workload} ended with unknown status, its peak was {peak_bytes}"},

    // Requests that were denied, or waited.
    {"request.denied", "{workload} was denied {requested_bytes}: it held {used_bytes} of its limit {limit_bytes}"},
    {"request.denied_held_back", "{workload} was denied {requested_bytes}: it held {used_bytes} and might hold {limit_bytes} of its limit {configured_bytes} at that moment"},
    {"request.denied_function", "{workload} was denied {function}: {reason}"},
    {"request.waited", "{workload} waited about {waited_wait_seconds} for {requested_bytes} and got it: it held {used_bytes} of its limit {limit_bytes}[ (the last of {count} waits within {within_seconds})]"},

    // Limits.
    {"limit.changed", "{workload}: {changes}[ on GPU {gpu}], by {by}[; shrinking, over by {over_bytes}]"},
    {"limit.change", "limit {before_bytes} → {after_bytes}"},
    {"guarantee.change", "guarantee {before_bytes} → {after_bytes}"},
    {"tenant.limit_changed", "tenant {tenant}: limit {before} → {after}, by {by}{over}"},
    {"tenant.guarantee_changed", "tenant {tenant}: guarantee {before} → {after}, by {by}{over}"},
    {"tenant.over", "; over by {over_bytes} on GPU {gpu}"},
    {"limit.moved", "{workload} may hold {after_bytes} instead of {before_bytes}[: {reason}][ (the last of {count} changes within {within_seconds})]"},
    {"limit.moved_at_once", "{workload} may hold {after_bytes} instead of {before_bytes}[: {reason}] (the last of {count} changes)"},
    {"limit.shrinking", "{workload} holds {used_bytes}, {over_bytes} more than its limit {limit_bytes}: more is denied until it is under; of what it holds {pools_bytes} are in pools of the driver, {contexts_bytes} in contexts, and the rest is in use"},
    {"limit.shrinking_moves", "{workload} holds {used_bytes}, {over_bytes} more than its limit {limit_bytes}: its next request moves as much of its managed memory to the host"},
    {"limit.under_again", "{workload} is under its limit again"},
    {"guarantee.lost", "{workload} is back without its guarantee of {guarantee_bytes}: {reason}"},
    {"guarantee.impossible", "{workload} asked for a guarantee of {guarantee_bytes} that cannot be met: {reason}"},
    {"tenant.soft_limit", "tenant {tenant} holds {used_bytes} on GPU {gpu}: more than {share_percent}% of its limit {limit_bytes}"},

    // Idle, suspended and resumed workloads.
    {"idle.told", "{workload}: {reason}"},
    {"idle.trims", "{workload}: {reason}; it is asked to give back what it does not use"},
    {"idle.suspends", "{workload}: {reason}; it is being suspended"},
    {"idle.not_suspended", "{workload}: {reason}; it is not suspended: {problem}"},
    {"trim.gave_back", "{workload} gave back {returned_bytes} of {before_bytes}"},
    {"trim.gave_nothing", "{workload} gave back nothing of {before_bytes}: it uses all of it, its framework caches it, or it called nothing that frees memory or waits for the GPU"},
    {"suspension.begins", "{workload} is being suspended"},
    {"suspension.gives_way", "{workload} is being suspended: {count} workloads on GPU {gpu} hold memory and wait for more; its {freed_bytes} let {other} go on, which has waited longer"},
    {"suspension.cannot_give_way", "{workload} and {other} wait for each other's memory, and it was not suspended: {reason}"},
    {"suspension.done", "{workload} is suspended: its {moved_bytes} are in host memory until it works again"},
    {"suspension.failed", "{workload} was not suspended: {reason}"},
    {"resumption.asked", "{workload} asks for its device: {reason}"},
    {"resumption.done", "{workload} is back on its device"},
    {"resumption.done_elsewhere", "{workload} is back on its device by other means than this daemon"},
    {"resumption.failed", "{workload} could not be brought back yet: {reason}"},
    {"resumption.gave_way", "it gave way to {other} and still waits"},
    {"resumption.requested", "{by} asked for it"},

    // Broken rules, and ungoverned use.
    {"limit.put_back", "{workload}: the limit was set to {found_bytes} while no daemon ran; it was put back to {owned_bytes}"},
    {"guarantee.put_back", "{workload}: the guarantee was set to {found_bytes} while no daemon ran; it was put back to {owned_bytes}"},
    {"limit.tampered", "{workload} changed its own limit to {found_bytes}; it was put back to {owned_bytes}"},
    {"guarantee.tampered", "{workload} changed its own guarantee to {found_bytes}; it was put back to {owned_bytes}"},
    {"book.altered", "the book of {workload}[ (container {container})] was altered: {what}; until it ends, it counts as if it held all it may"},
    {"book.grown", "{workload} made its book {size_bytes} long; it was cut back"},
    {"book.beside", "pid {pid} of {workload} uses {driver_bytes} by the driver, {book_bytes} by its book"},
    {"book.wrong_tenant", "the book of {workload} names tenant {named}, to whom {user} does not belong: {tenant} is charged"},
    {"ungoverned.found", "pid {pid} ({command}, {user}) holds {used_bytes} on GPU {gpu}, {why}[: {origin}]"},
    {"ungoverned.found_untold", "pid {pid} ({command}, {user}) holds n/a ({untold}) on GPU {gpu}, {why}[: {origin}]"},
    {"ungoverned.hidden", "a process that was not started through ration holds memory"},
    {"ungoverned.no_limit", "pid {pid} ({command}, {user}) is under no limit on GPU {gpu}[: it is ended in {grace_seconds}]"},
    {"ungoverned.signalled", "pid {pid} ({command}, {user}) is under no limit: {signal} was sent"},
    {"ungoverned.cannot_end", "pid {pid} ({command}, {user}) is under no limit and cannot be ended by this daemon's user"},
    {"process.container", "container {container}"},
    {"process.without_guard", "started by workload {workload}, but without the guard"},
    {"process.book_removed", "its book {book} was removed while it ran, and no other counts it"},
    {"process.outside", "not started through ration"},
    {"orphaned.closed", "{orphaned_bytes} of GPU {gpu} are in use, and the driver lists no process with them; {file} is open nowhere"},
    {"orphaned.open", "{orphaned_bytes} of GPU {gpu} are in use, and the driver lists no process with them; {file} is open in {openers}"},
    {"orphaned.opener", "pid {pid} ({command}, state {state})"},

    // Limits that cannot be enforced.
    {"book.unreadable", "a book cannot be read: {reason}"},
    {"limit.unwritable", "a limit cannot be written: {book}"},
    {"driver.no_limits", "the driver enforces no limits, only the shim does: {reason}"},

    // The queue.
    {"lease.waits", "{lease} of {tenant} waits for {requested_bytes}: {reason}"},
    {"lease.granted", "{lease} of {tenant} may start on GPU {gpus}[, {passed}]"},

    // The configuration.
    {"configuration.broken", "{place}: {problem}; {fix}"},
    {"configuration.rejected", "a new configuration was rejected: {reason}"},
    {"configuration.unchanged", "the configuration was read again: nothing changed"},
    {"configuration.changed", "the configuration changed: {changes}"},
    {"schedule.set", "schedule {schedule} ({days} {hours}: {limits}) was set by {by}"},
    {"schedule.removed", "schedule {schedule} was removed by {by}"},
    {"claim.granted", "claim {claim} was granted {parts}"},
    {"claim.part", "{granted_bytes} of GPU {gpu}"},
    {"claim.returned", "claim {claim} was given back"},
    {"alert.raised", "{about}: raised ({rule})"},
    {"alert.cleared", "{about}: cleared ({rule})"},

    // The daemon and its records.
    {"daemon.started", "the daemon started (ration {version}, pid {pid})"},
    {"daemon.ended", "the daemon ended"},
    {"daemon.unreachable", "clients cannot reach the daemon: {reason}"},
    {"devices.lost", "the devices cannot be queried: {reason}"},
    {"accounts.gap", "the daemon was not running for about {gap_seconds}: a gap in the accounts, which is not charged"},
    {"accounts.clock_back", "the clock was set back by about {back_seconds}: nothing is recorded until it has caught up"},
    {"events.flood", "{count} events of {user} within a minute are not recorded: {kinds}"},
    {"events.lost", "{count} events from {from} to {to} are lost: the history could not be written, and {kept} older ones waited for that already"},
};
// clang-format on

}  // namespace ration
