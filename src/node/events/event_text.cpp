#include "node/events/event_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.hpp"
#include "base/command.hpp"
#include "base/say.hpp"
#include "base/strings.hpp"
#include "machine/user_names.hpp"
#include "node/snapshot/snapshot.hpp"

namespace ration::node {
namespace {

constexpr const char* kGovernIt = "ration run --limit SIZE -- …";

Event event_of(EventType type, Message text) {
  Event event;
  event.type = type;
  event.text = std::move(text);
  return event;
}

Event event_of(const EventSubject& subject, EventType type, Message text) {
  Event event = event_of(type, std::move(text));
  event.workload = subject.workload;
  event.tenant = subject.tenant;
  event.user = subject.user;
  event.gpu = subject.gpu;
  return event;
}

std::int64_t number(Bytes bytes) { return static_cast<std::int64_t>(bytes.count()); }

std::string command_of(const ProcessView& process) { return process.command.empty() ? "n/a" : process.command; }

/// Returns `value` as an argument of a message if `is_there`; otherwise an absent argument.
template <typename T>
std::optional<T> only_if(bool is_there, T value) {
  return is_there ? std::optional<T>(std::move(value)) : std::nullopt;
}

Event no_limit(const UngovernedView& view, Message text) {
  Event event = event_of(EventType::kAlert, std::move(text));
  event.gpu = view.gpu;
  event.pid = view.process.pid;
  event.user = view.process.user;
  event.fix = kGovernIt;
  return event;
}

}  // namespace

Event started_event(const EventSubject& subject, const std::vector<Bytes>& limits) {
  const bool alike = limits.size() > 1 && std::equal(limits.begin() + 1, limits.end(), limits.begin());
  return event_of(subject, EventType::kStarted,
                  say<"workload.started">("workload"_is(subject.name()),
                                          "limits_bytes"_is(alike ? std::vector{limits.front()} : limits),
                                          "count"_is(only_if(alike, limits.size()))));
}

Event ended_event(const EventSubject& subject, std::optional<int> exit_status, Bytes peak) {
  return event_of(subject, EventType::kEnded,
                  exit_status ? say<"workload.ended">("workload"_is(subject.name()), "status"_is(*exit_status),
                                                      "peak_bytes"_is(peak))
                              : say<"workload.ended_unseen">("workload"_is(subject.name()), "peak_bytes"_is(peak)));
}

Event denied_event(const EventSubject& subject, DeniedRequest denied, bool waited) {
  Message text =
      denied.reason == book::DenialReason::kNoAccount
          ? say<"request.denied_function">("workload"_is(subject.name()), "function"_is(denied.function),
                                           "reason"_is(denied.because))
      : denied.held_back_from
          ? say<"request.denied_held_back">("workload"_is(subject.name()), "requested_bytes"_is(denied.requested),
                                            "used_bytes"_is(denied.used), "limit_bytes"_is(denied.limit),
                                            "configured_bytes"_is(*denied.held_back_from))
          : say<"request.denied">("workload"_is(subject.name()), "requested_bytes"_is(denied.requested),
                                  "used_bytes"_is(denied.used), "limit_bytes"_is(denied.limit));
  Event event = event_of(subject, waited ? EventType::kWaited : EventType::kDenied, std::move(text));
  event.bytes = number(denied.requested);
  event.denied = std::move(denied);
  return event;
}

std::string addressed_fix(const std::string& fix, bool is_operators) {
  return (is_operators ? std::string(machine::kAskOperator) : "") + fix;
}

Event waited_event(const EventSubject& subject, const WaitFacts& wait) {
  const bool several = wait.count > 1;
  Event event = event_of(
      subject, EventType::kWaited,
      say<"request.waited">("workload"_is(subject.name()), "waited_wait_seconds"_is(nanoseconds(wait.length_ns)),
                            "requested_bytes"_is(wait.wanted), "used_bytes"_is(wait.used), "limit_bytes"_is(wait.limit),
                            "count"_is(only_if(several, wait.count)),
                            "within_seconds"_is(only_if(several, nanoseconds(wait.within_ns)))));
  event.count = wait.count;
  event.bytes = number(wait.wanted);
  return event;
}

Event resized_event(const EventSubject& subject, const LimitChangeFacts& change) {
  std::vector<Message> changes;
  if (change.limit)
    changes.push_back(
        say<"limit.change">("before_bytes"_is(change.limit->before), "after_bytes"_is(change.limit->after)));
  if (change.guarantee)
    changes.push_back(say<"guarantee.change">("before_bytes"_is(change.guarantee->before),
                                              "after_bytes"_is(change.guarantee->after)));
  if (change.host_limit)
    changes.push_back(say<"host_limit.change">("before_bytes"_is(change.host_limit->before),
                                               "after_bytes"_is(change.host_limit->after)));
  Event event =
      event_of(subject, EventType::kResized,
               say<"limit.changed">("workload"_is(subject.name()), "changes"_is(changes), "gpu"_is(change.gpu),
                                    "by"_is(change.by), "over_bytes"_is(only_if(change.over > Bytes{0}, change.over))));
  event.gpu = change.gpu;
  event.by = change.by;
  return event;
}

Event tenant_resized_event(const TenantChange& change) {
  const auto shown = [](const std::string& text) { return text.empty() ? say<"limit.none">() : Message(text); };
  std::vector<Message> over;
  for (const TenantChange::Over& each : change.over)
    over.push_back(say<"tenant.over">("over_bytes"_is(each.used - each.limit), "gpu"_is(each.gpu)));
  const auto with_arguments = [&](const auto& message) {
    return message("tenant"_is(change.tenant), "before"_is(shown(change.old_text)), "after"_is(shown(change.new_text)),
                   "by"_is(change.by), "over"_is(over));
  };
  Event event =
      event_of(EventType::kResized,
               change.what == "limit"
                   ? with_arguments([](const auto&... all) { return say<"tenant.limit_changed">(all...); })
                   : with_arguments([](const auto&... all) { return say<"tenant.guarantee_changed">(all...); }));
  event.tenant = change.tenant;
  event.by = change.by;
  event.old_value = change.old_text;
  event.new_value = change.new_text;
  event.of_schedule = change.by_schedule;
  return event;
}

Event rebalanced_event(const EventSubject& subject, const LimitMoveFacts& burst) {
  const std::uint64_t length = burst.last_ns - burst.first_ns;
  // Gives a reason only for a lowered limit.
  const auto reason = only_if(!burst.reason.empty() && burst.to < burst.from, burst.reason);
  Message text =
      burst.count > 1 && length < kSecond
          ? say<"limit.moved_at_once">("workload"_is(subject.name()), "after_bytes"_is(burst.to),
                                       "before_bytes"_is(burst.from), "reason"_is(reason), "count"_is(burst.count))
          : say<"limit.moved">("workload"_is(subject.name()), "after_bytes"_is(burst.to), "before_bytes"_is(burst.from),
                               "reason"_is(reason), "count"_is(only_if(burst.count > 1, burst.count)),
                               "within_seconds"_is(only_if(burst.count > 1, nanoseconds(length))));
  Event event = event_of(subject, EventType::kRebalanced, std::move(text));
  event.time = history::to_ms(burst.last_ns);
  event.first_time = history::to_ms(burst.first_ns);
  event.count = static_cast<std::int64_t>(burst.count);
  event.old_value = std::to_string(burst.from.count());
  event.new_value = std::to_string(burst.to.count());
  return event;
}

Event shrinking_event(const EventSubject& subject, const ShrinkingFacts& held) {
  const Bytes beyond = held.used - held.limit;
  Event event = event_of(
      subject, EventType::kShrinking,
      held.movable >= beyond
          ? say<"limit.shrinking_moves">("workload"_is(subject.name()), "used_bytes"_is(held.used),
                                         "over_bytes"_is(beyond), "limit_bytes"_is(held.limit))
          : say<"limit.shrinking">("workload"_is(subject.name()), "used_bytes"_is(held.used), "over_bytes"_is(beyond),
                                   "limit_bytes"_is(held.limit), "pools_bytes"_is(std::min(held.pooled, held.used)),
                                   "contexts_bytes"_is(held.context)));
  event.bytes = number(beyond);
  event.fix = command({"trim", subject.workload});
  return event;
}

Event under_limit_event(const EventSubject& subject) {
  return event_of(subject, EventType::kShrinking, say<"limit.under_again">("workload"_is(subject.name())));
}

Event no_guarantee_event(const EventSubject& subject, Bytes guarantee, bool was_suspended, const Error& why) {
  if (was_suspended)
    return event_of(
        subject, EventType::kRebalanced,
        say<"guarantee.lost">("workload"_is(subject.name()), "guarantee_bytes"_is(guarantee), "reason"_is(why.what)));
  return event_of(subject, EventType::kViolation,
                  say<"guarantee.impossible">("workload"_is(subject.name()), "guarantee_bytes"_is(guarantee),
                                              "reason"_is(why.what)));
}

Event soft_limit_event(const std::string& tenant, int gpu, Bytes used, Bytes limit, double percent) {
  Event event =
      event_of(EventType::kAlert, say<"tenant.soft_limit">("tenant"_is(tenant), "used_bytes"_is(used), "gpu"_is(gpu),
                                                           "share_percent"_is(percent), "limit_bytes"_is(limit)));
  event.tenant = tenant;
  event.gpu = gpu;
  event.bytes = number(used);
  return event;
}

Event idle_event(const EventSubject& subject, config::IdleAction action, const Message& reason,
                 const Error* not_suspended) {
  const auto workload = subject.name();
  Event event = event_of(
      subject, EventType::kIdle,
      not_suspended != nullptr
          ? say<"idle.not_suspended">("workload"_is(workload), "reason"_is(reason), "problem"_is(not_suspended->what))
      : action == config::IdleAction::kTrim    ? say<"idle.trims">("workload"_is(workload), "reason"_is(reason))
      : action == config::IdleAction::kSuspend ? say<"idle.suspends">("workload"_is(workload), "reason"_is(reason))
                                               : say<"idle.told">("workload"_is(workload), "reason"_is(reason)));
  if (not_suspended != nullptr) event.fix = not_suspended->fix;
  return event;
}

Event trimmed_event(const EventSubject& subject, Bytes returned, Bytes before, const std::string& by) {
  Event event = event_of(subject, EventType::kTrimmed,
                         returned > Bytes{0}
                             ? say<"trim.gave_back">("workload"_is(subject.name()), "returned_bytes"_is(returned),
                                                     "before_bytes"_is(before))
                             : say<"trim.gave_nothing">("workload"_is(subject.name()), "before_bytes"_is(before)));
  event.bytes = number(returned);
  event.by = by;
  return event;
}

Event recording_left_event(const EventSubject& subject, const std::string& file, std::optional<Bytes> keep) {
  return event_of(
      subject, EventType::kDaemon,
      keep ? say<"recording.too_large">("workload"_is(subject.name()), "file"_is(file), "keep_bytes"_is(*keep))
           : say<"recording.not_taken">("workload"_is(subject.name()), "file"_is(file)));
}

Event suspending_event(const EventSubject& subject, const std::string& by) {
  Event event = event_of(subject, EventType::kSuspending, say<"suspension.begins">("workload"_is(subject.name())));
  event.by = by;
  return event;
}

Event gives_way_event(const EventSubject& subject, const GivesWayFacts& way, const Error* failed) {
  Event event =
      failed != nullptr
          ? event_of(subject, EventType::kSuspendFailed,
                     say<"suspension.cannot_give_way">("workload"_is(subject.name()), "other"_is(way.to),
                                                       "reason"_is(failed->what)))
          : event_of(subject, EventType::kSuspending,
                     say<"suspension.gives_way">("workload"_is(subject.name()), "count"_is(way.waiting),
                                                 "gpu"_is(way.gpu), "freed_bytes"_is(way.freed), "other"_is(way.to)));
  if (failed != nullptr) event.fix = failed->fix;
  event.gpu = way.gpu;
  event.bytes = number(way.freed);
  event.by = "daemon";
  return event;
}

Message gave_way_text(const std::string& to) { return say<"resumption.gave_way">("other"_is(to)); }

Message asked_to_resume_text(const std::string& by) { return say<"resumption.requested">("by"_is(by)); }

Event suspended_event(const EventSubject& subject, Bytes moved) {
  Event event = event_of(subject, EventType::kSuspended,
                         say<"suspension.done">("workload"_is(subject.name()), "moved_bytes"_is(moved)));
  event.bytes = number(moved);
  return event;
}

Event not_suspended_event(const EventSubject& subject, const Error& why) {
  Event event = event_of(subject, EventType::kSuspendFailed,
                         say<"suspension.failed">("workload"_is(subject.name()), "reason"_is(why.what)));
  event.fix = why.fix;
  return event;
}

Event resuming_event(const EventSubject& subject, const Message& reason) {
  return event_of(subject, EventType::kResuming,
                  say<"resumption.asked">("workload"_is(subject.name()), "reason"_is(reason)));
}

Event resumed_event(const EventSubject& subject, bool by_somebody_else) {
  return event_of(subject, EventType::kResumed,
                  by_somebody_else ? say<"resumption.done_elsewhere">("workload"_is(subject.name()))
                                   : say<"resumption.done">("workload"_is(subject.name())));
}

Event not_resumed_event(const EventSubject& subject, const Error& why) {
  Event event = event_of(subject, EventType::kSuspendFailed,
                         say<"resumption.failed">("workload"_is(subject.name()), "reason"_is(why.what)));
  event.fix = why.fix;
  return event;
}

namespace {

/// Returns the text for `number`; `texts` are in the order of OwnedNumber.
Message of_number(OwnedNumber number, std::array<Message, 3> texts) {
  return std::move(texts[static_cast<std::size_t>(number)]);
}

}  // namespace

Message other_number(OwnedNumber number) {
  return of_number(number, {say<"book.other_limit">(), say<"book.other_guarantee">(), say<"book.other_host_limit">()});
}

Event put_back_event(const EventSubject& subject, OwnedNumber number, Bytes found, Bytes owned) {
  const std::string workload = subject.name();
  const auto name = "workload"_is(workload);
  const auto before = "found_bytes"_is(found);
  const auto after = "owned_bytes"_is(owned);
  Event event = event_of(
      subject, EventType::kResized,
      of_number(number, {say<"limit.put_back">(name, before, after), say<"guarantee.put_back">(name, before, after),
                         say<"host_limit.put_back">(name, before, after)}));
  event.old_value = std::to_string(found.count());
  event.new_value = std::to_string(owned.count());
  return event;
}

Event tampered_event(const EventSubject& subject, OwnedNumber number, Bytes found, Bytes owned) {
  const std::string workload = subject.name();
  const auto name = "workload"_is(workload);
  const auto before = "found_bytes"_is(found);
  const auto after = "owned_bytes"_is(owned);
  Event event = event_of(
      subject, EventType::kViolation,
      of_number(number, {say<"limit.tampered">(name, before, after), say<"guarantee.tampered">(name, before, after),
                         say<"host_limit.tampered">(name, before, after)}));
  event.old_value = std::to_string(found.count());
  event.new_value = std::to_string(owned.count());
  return event;
}

Event altered_event(const EventSubject& subject, const std::string& labels, const Message& what) {
  const auto label = [&](std::string_view key) {
    for (const std::string_view each : split(labels, ','))
      if (const auto entry = split_once(each, '='); entry && entry->first == key) return std::string(entry->second);
    return std::string();
  };
  const std::string container = label("container"), engine = label("engine");
  Event event = event_of(subject, EventType::kViolation,
                         say<"book.altered">("workload"_is(subject.name()),
                                             "container"_is(only_if(!container.empty(), container)), "what"_is(what)));
  if (engine == "docker" || engine == "podman") event.fix = fmt::format("{} kill {}", engine, container);
  return event;
}

Event grown_event(const EventSubject& subject, Bytes size) {
  return event_of(subject, EventType::kViolation,
                  say<"book.grown">("workload"_is(subject.name()), "size_bytes"_is(size)));
}

Event beside_book_event(const EventSubject& subject, std::int32_t pid, Bytes by_driver, Bytes by_book) {
  Event event = event_of(subject, EventType::kViolation,
                         say<"book.beside">("pid"_is(pid), "workload"_is(subject.name()), "driver_bytes"_is(by_driver),
                                            "book_bytes"_is(by_book)));
  event.pid = pid;
  return event;
}

Event wrong_tenant_event(const EventSubject& subject, const std::string& named) {
  return event_of(subject, EventType::kViolation,
                  say<"book.wrong_tenant">("workload"_is(subject.workload), "named"_is(named), "user"_is(subject.user),
                                           "tenant"_is(subject.tenant)));
}

Event ungoverned_event(const UngovernedView& view) {
  const ProcessView& process = view.process;
  std::optional<Message> origin;
  if (!view.container.empty())
    origin = say<"process.container">("container"_is(view.container));
  else if (!view.origin.empty())
    origin = view.origin;
  Event event =
      event_of(EventType::kUngoverned,
               process.driver_used
                   ? say<"ungoverned.found">("pid"_is(process.pid), "command"_is(command_of(process)),
                                             "user"_is(process.user), "used_bytes"_is(*process.driver_used),
                                             "gpu"_is(view.gpu), "why"_is(view.why()), "origin"_is(origin))
                   : say<"ungoverned.found_untold">("pid"_is(process.pid), "command"_is(command_of(process)),
                                                    "user"_is(process.user), "untold"_is(process.unknown_reason),
                                                    "gpu"_is(view.gpu), "why"_is(view.why()), "origin"_is(origin)));
  event.gpu = view.gpu;
  event.pid = process.pid;
  event.user = process.user;
  if (process.driver_used) event.bytes = number(*process.driver_used);
  event.fix = kGovernIt;
  return event;
}

Event no_limit_event(const UngovernedView& view, std::optional<std::uint64_t> grace_ns) {
  return no_limit(view, say<"ungoverned.no_limit">(
                            "pid"_is(view.process.pid), "command"_is(command_of(view.process)),
                            "user"_is(view.process.user), "gpu"_is(view.gpu),
                            "grace_seconds"_is(only_if(grace_ns.has_value(), nanoseconds(grace_ns.value_or(0))))));
}

Event no_limit_ended_event(const UngovernedView& view, const char* signal) {
  const ProcessView& process = view.process;
  return no_limit(view, signal != nullptr
                            ? say<"ungoverned.signalled">("pid"_is(process.pid), "command"_is(command_of(process)),
                                                          "user"_is(process.user), "signal"_is(signal))
                            : say<"ungoverned.cannot_end">("pid"_is(process.pid), "command"_is(command_of(process)),
                                                           "user"_is(process.user)));
}

Event orphaned_event(int gpu, Bytes bytes, const std::string& device_file,
                     const std::vector<machine::Opener>& openers) {
  std::vector<Message> who;
  for (const machine::Opener& opener : openers)
    who.push_back(say<"orphaned.opener">("pid"_is(opener.pid), "command"_is(opener.command),
                                         "state"_is(std::string(1, opener.state))));
  Event event = event_of(
      EventType::kOrphaned,
      who.empty()
          ? say<"orphaned.closed">("orphaned_bytes"_is(bytes), "gpu"_is(gpu), "file"_is(device_file))
          : say<"orphaned.open">("orphaned_bytes"_is(bytes), "gpu"_is(gpu), "file"_is(device_file), "openers"_is(who)));
  event.gpu = gpu;
  event.bytes = number(bytes);
  event.fix = command({"explain", "--gpu", std::to_string(gpu)});
  return event;
}

Event book_unreadable_event(const EventSubject& subject, const Message& why) {
  return event_of(subject, EventType::kGuardLost, say<"book.unreadable">("reason"_is(why)));
}

Event book_unwritable_event(const EventSubject& subject, const Error& why) {
  return event_of(subject, EventType::kGuardLost, why.what);
}

Event limit_unwritable_event(const std::string& book) {
  return event_of(EventType::kGuardLost, say<"limit.unwritable">("book"_is(book)));
}

Event driver_limits_event(const Message& problem) {
  return event_of(EventType::kGuardLost, say<"driver.no_limits">("reason"_is(problem)));
}

namespace {

Event lease_event(const EventSubject& subject, EventType type, const QueuedFacts& lease, Message text) {
  Event event = event_of(subject, type, std::move(text));
  event.bytes = number(lease.bytes);
  event.lease = lease.lease;
  return event;
}

}  // namespace

Event queued_event(const EventSubject& subject, const QueuedFacts& lease, const Message& reason) {
  return lease_event(subject, EventType::kQueued, lease,
                     say<"lease.waits">("lease"_is(lease.lease), "tenant"_is(subject.tenant),
                                        "name"_is(only_if(!lease.name.empty(), lease.name)),
                                        "requested_bytes"_is(lease.bytes), "reason"_is(reason)));
}

Event granted_event(const EventSubject& subject, const QueuedFacts& lease, const std::vector<int>& gpus,
                    const Message& passed) {
  Event event = lease_event(subject, EventType::kGranted, lease,
                            say<"lease.granted">("lease"_is(lease.lease), "tenant"_is(subject.tenant),
                                                 "name"_is(only_if(!lease.name.empty(), lease.name)), "gpus"_is(gpus),
                                                 "passed"_is(only_if(!passed.empty(), passed))));
  if (!gpus.empty()) event.gpu = gpus.front();
  return event;
}

Event dequeued_event(const EventSubject& subject, const QueuedFacts& lease, std::uint64_t waited_ns,
                     const Message& reason) {
  return lease_event(subject, EventType::kDequeued, lease,
                     say<"lease.left">("lease"_is(lease.lease), "tenant"_is(subject.tenant),
                                       "name"_is(only_if(!lease.name.empty(), lease.name)),
                                       "waited_seconds"_is(nanoseconds(waited_ns)), "reason"_is(reason)));
}

Event config_event(Message text) { return event_of(EventType::kConfig, std::move(text)); }

Event config_broken_event(const FileProblem& problem) {
  return config_event(
      say<"configuration.broken">("place"_is(place_text(problem)), "problem"_is(problem.what), "fix"_is(problem.fix)));
}

Event config_rejected_event(const Error& why) {
  return config_event(say<"configuration.rejected">("reason"_is(why.what)));
}

Event config_changed_event(const std::vector<std::string>& lines) {
  return config_event(lines.empty() ? say<"configuration.unchanged">()
                                    : say<"configuration.changed">("changes"_is(lines)));
}

Event schedule_set_event(const ScheduleFacts& schedule, const std::string& by) {
  std::string limits;
  for (const auto& [tenant, limit] : schedule.limits)
    limits += fmt::format("{}{} {}", limits.empty() ? "" : ", ", tenant, limit);
  Event event = config_event(say<"schedule.set">("schedule"_is(schedule.name), "days"_is(schedule.days),
                                                 "hours"_is(schedule.when), "limits"_is(limits), "by"_is(by)));
  event.by = by;
  event.of_schedule = true;
  return event;
}

Event schedule_removed_event(const std::string& name, const std::string& by) {
  Event event = config_event(say<"schedule.removed">("schedule"_is(name), "by"_is(by)));
  event.by = by;
  event.of_schedule = true;
  return event;
}

Event claim_granted_event(const std::string& claim, const std::string& tenant, const std::map<int, Bytes>& limits) {
  std::vector<Message> parts;
  for (const auto& [gpu, limit] : limits) parts.push_back(say<"claim.part">("granted_bytes"_is(limit), "gpu"_is(gpu)));
  Event event = event_of(EventType::kGranted, say<"claim.granted">("claim"_is(claim), "parts"_is(parts)));
  event.tenant = tenant;
  if (!limits.empty()) event.gpu = limits.begin()->first;
  return event;
}

Event claim_released_event(const std::string& claim, const std::string& tenant) {
  Event event = event_of(EventType::kEnded, say<"claim.returned">("claim"_is(claim)));
  event.tenant = tenant;
  return event;
}

Event alert_event(const config::AlertChange& change) {
  if (!change.raised)
    return event_of(EventType::kAlert, say<"alert.cleared">("about"_is(change.about), "rule"_is(change.rule)));
  using Unit = config::Measure::Unit;
  const auto value = static_cast<std::uint64_t>(change.value);
  const bool is_part = change.unit == Unit::kBytes && change.whole;
  const Bytes whole{static_cast<std::uint64_t>(change.whole.value_or(0))};
  return event_of(
      EventType::kAlert,
      say<"alert.raised">("about"_is(change.about), "rule"_is(change.rule),
                          "value_bytes"_is(only_if(is_part, Bytes{value})), "whole_bytes"_is(only_if(is_part, whole)),
                          "value_seconds"_is(only_if(change.unit == Unit::kDuration, nanoseconds(value))),
                          "count"_is(only_if(change.unit == Unit::kCount, value))));
}

Event daemon_event(Message text) { return event_of(EventType::kDaemon, std::move(text)); }

Event daemon_started_event(const std::string& version, std::int32_t pid) {
  return daemon_event(say<"daemon.started">("version"_is(version), "pid"_is(pid)));
}

Event daemon_ended_event() { return daemon_event(say<"daemon.ended">()); }

Event daemon_unreachable_event(const Message& problem) {
  return daemon_event(say<"daemon.unreachable">("reason"_is(problem)));
}

Event devices_lost_event(const Error& why) { return daemon_event(say<"devices.lost">("reason"_is(why.what))); }

Event gap_event(std::uint64_t length_ns) {
  return event_of(EventType::kGap, say<"accounts.gap">("gap_seconds"_is(nanoseconds(length_ns))));
}

Event clock_back_event(std::uint64_t length_ns) {
  return event_of(EventType::kGap, say<"accounts.clock_back">("back_seconds"_is(nanoseconds(length_ns))));
}

Event flood_event(const std::string& user, const std::map<EventType, std::size_t>& dropped) {
  std::size_t all = 0;
  std::string kinds;
  for (const auto& [type, count] : dropped) {
    all += count;
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, name_of(type));
  }
  Event event = daemon_event(say<"events.flood">("count"_is(all), "user"_is(user), "kinds"_is(kinds)));
  event.user = user;
  return event;
}

}  // namespace ration::node
