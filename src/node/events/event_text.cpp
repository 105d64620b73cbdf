#include "node/events/event_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.hpp"
#include "base/command.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "machine/user_names.hpp"
#include "node/state/snapshot.hpp"
#include "node/state/tenants.hpp"

namespace ration::node {
namespace {

constexpr const char* kGovernIt = "ration run --limit SIZE -- …";

Event event_of(EventType type, std::string text) {
  Event event;
  event.type = type;
  event.text = std::move(text);
  return event;
}

Event event_of(const About& about, EventType type, std::string text) {
  Event event = event_of(type, std::move(text));
  event.workload = about.workload;
  event.tenant = about.tenant;
  event.user = about.user;
  event.gpu = about.gpu;
  return event;
}

std::int64_t number(Bytes bytes) { return static_cast<std::int64_t>(bytes.count()); }

std::string process_text(const UngovernedView& view) {
  const ProcessView& process = view.process;
  return fmt::format("pid {} ({}, {})", process.pid, process.command.empty() ? "n/a" : process.command, process.user);
}

Event no_limit(const UngovernedView& view, std::string text) {
  Event event = event_of(EventType::kAlert, std::move(text));
  event.gpu = view.gpu;
  event.pid = view.process.pid;
  event.user = view.process.user;
  event.fix = kGovernIt;
  return event;
}

}  // namespace

Event started_event(const About& about, const std::vector<Bytes>& limits) {
  std::string text;
  for (const Bytes limit : limits) text += (text.empty() ? "" : ", ") + format_size(limit);
  return event_of(about, EventType::kStarted, fmt::format("{} started with a limit of {}", about.name(), text));
}

Event ended_event(const About& about, std::optional<int> exit_status, Bytes peak) {
  return event_of(
      about, EventType::kEnded,
      fmt::format("{} ended {}, its peak was {}", about.name(),
                  exit_status ? fmt::format("with {}", *exit_status) : "without saying how", format_size(peak)));
}

Event denied_event(const About& about, DeniedRequest denied, bool waited) {
  const std::string requested = format_size(denied.requested), used = format_size(denied.used),
                    limit = format_size(denied.limit);
  Event event =
      event_of(about, waited ? EventType::kWaited : EventType::kDenied,
               denied.reason == ledger::DenialReason::kNoAccount
                   ? fmt::format("{} was denied {}: {}", about.name(), denied.function, denied.because)
               : denied.held_back_from
                   ? fmt::format("{} was denied {}: it held {} and might hold {} of its limit {} at that moment",
                                 about.name(), requested, used, limit, format_size(*denied.held_back_from))
                   : fmt::format("{} was denied {}: it held {} of its limit {}", about.name(), requested, used, limit));
  event.bytes = number(denied.requested);
  event.denied = std::move(denied);
  return event;
}

std::string held_back_text(const std::string& workload, Bytes used, Bytes limit, Bytes configured,
                           const std::string& held_back_by) {
  return fmt::format("{} held {} and might hold {} of its limit {} at that moment: {}", workload, format_size(used),
                     format_size(limit), format_size(configured), held_back_by);
}

std::string largest_holder_text(const std::string& who, Bytes held) {
  return fmt::format("; of others {} holds most: {}", who, format_size(held));
}

std::string ungoverned_name(std::int32_t pid) { return fmt::format("pid {}, which nobody governs", pid); }

std::string addressed_fix(const std::string& fix, bool is_operators) {
  return (is_operators ? std::string(machine::kAskOperator) : "") + fix;
}

Event waited_event(const About& about, const WaitTold& wait) {
  const std::string length = wait.length_ns < 10 * kSecond
                                 ? fmt::format("{:.1f}s", static_cast<double>(wait.length_ns) / kSecond)
                                 : format_duration(wait.length_ns);
  std::string text = fmt::format("{} waited about {} for {} and got it: it held {} of its limit {}", about.name(),
                                 length, format_size(wait.wanted), format_size(wait.used), format_size(wait.limit));
  if (wait.count > 1)
    text += fmt::format(" (the last of {} waits within {})", wait.count, format_duration(wait.within_ns));
  Event event = event_of(about, EventType::kWaited, std::move(text));
  event.count = wait.count;
  event.bytes = number(wait.wanted);
  return event;
}

Event resized_event(const About& about, const LimitChangeTold& change) {
  std::string what;
  const auto add = [&](const char* name, const std::optional<LimitChangeTold::Amounts>& amounts) {
    if (amounts)
      what += fmt::format("{}{} {} → {}", what.empty() ? "" : ", ", name, format_size(amounts->before),
                          format_size(amounts->after));
  };
  add("limit", change.limit);
  add("guarantee", change.guarantee);
  if (change.gpu) what += fmt::format(" on GPU {}", *change.gpu);
  what += ", by " + change.by;
  if (change.over > Bytes{0}) what += fmt::format("; shrinking, over by {}", format_size(change.over));
  Event event = event_of(about, EventType::kResized, fmt::format("{}: {}", about.name(), what));
  event.gpu = change.gpu;
  event.by = change.by;
  return event;
}

Event tenant_resized_event(const TenantChange& change) {
  const auto shown = [](const std::string& text) { return text.empty() ? std::string("none") : text; };
  std::string over;
  for (const TenantChange::Over& each : change.over)
    over += fmt::format("; over by {} on GPU {}", format_size(each.used - each.limit), each.gpu);
  Event event =
      event_of(EventType::kResized, fmt::format("tenant {}: {} {} → {}, by {}{}", change.tenant, change.what,
                                                shown(change.old_text), shown(change.new_text), change.by, over));
  event.tenant = change.tenant;
  event.by = change.by;
  event.old_value = change.old_text;
  event.new_value = change.new_text;
  event.of_schedule = change.by_schedule;
  return event;
}

Event rebalanced_event(const About& about, const LimitMoves::Burst& burst) {
  std::string text =
      fmt::format("{} may hold {} instead of {}", about.name(), format_size(burst.to), format_size(burst.from));
  // The reason is why it may not hold more: of one that gained it says nothing.
  if (!burst.because.empty() && burst.to < burst.from) text += ": " + burst.because;
  if (const std::uint64_t length = burst.last_ns - burst.first_ns; burst.count > 1)
    text += length < kSecond ? fmt::format(" (the last of {} changes)", burst.count)
                             : fmt::format(" (the last of {} changes within {})", burst.count, format_duration(length));
  Event event = event_of(about, EventType::kRebalanced, std::move(text));
  event.time = history::to_ms(burst.last_ns);
  event.first_time = history::to_ms(burst.first_ns);
  event.count = static_cast<std::int64_t>(burst.count);
  event.old_value = std::to_string(burst.from.count());
  event.new_value = std::to_string(burst.to.count());
  return event;
}

Event shrinking_event(const About& about, const ShrinkingTold& held) {
  const Bytes beyond = held.used - held.limit;
  std::string text = fmt::format("{} holds {}, {} more than its limit {}: ", about.name(), format_size(held.used),
                                 format_size(beyond), format_size(held.limit));
  text += held.movable >= beyond
              ? "its next request moves as much of its managed memory to the host"
              : fmt::format(
                    "more is denied until it is under; of what it holds {} are in pools of the driver, {} in contexts, "
                    "and the rest is in use",
                    format_size(std::min(held.pooled, held.used)), format_size(held.context));
  Event event = event_of(about, EventType::kShrinking, std::move(text));
  event.bytes = number(beyond);
  event.fix = command({"trim", about.workload});
  return event;
}

Event under_limit_event(const About& about) {
  return event_of(about, EventType::kShrinking, about.name() + " is under its limit again");
}

Event no_guarantee_event(const About& about, Bytes guarantee, bool was_away, const Error& why) {
  const std::string size = format_size(guarantee);
  if (was_away)
    return event_of(about, EventType::kRebalanced,
                    fmt::format("{} is back without its guarantee of {}: {}", about.name(), size, why.what));
  return event_of(about, EventType::kViolation,
                  fmt::format("{} promises itself {}: {} It has no guarantee", about.name(), size, why.what));
}

Event soft_limit_event(const std::string& tenant, int gpu, Bytes used, Bytes limit, double percent) {
  Event event = event_of(EventType::kAlert, fmt::format("tenant {} holds {} on GPU {}: more than {:g}% of its limit {}",
                                                        tenant, format_size(used), gpu, percent, format_size(limit)));
  event.tenant = tenant;
  event.gpu = gpu;
  event.bytes = number(used);
  return event;
}

Event idle_event(const About& about, const IdleDecision& decision, const Error* not_suspended) {
  Event event = event_of(about, EventType::kIdle, fmt::format("{}: {}", about.name(), decision.reason));
  if (not_suspended != nullptr) {
    event.text += "; it is not suspended: " + not_suspended->what;
    event.fix = not_suspended->fix;
  } else if (decision.action == IdleAction::kTrim) {
    event.text += "; it is asked to give back what it does not use";
  } else if (decision.action == IdleAction::kSuspend) {
    event.text += "; it is being suspended";
  }
  return event;
}

Event trimmed_event(const About& about, Bytes returned, Bytes before, const std::string& by) {
  Event event =
      event_of(about, EventType::kTrimmed,
               returned > Bytes{0}
                   ? fmt::format("{} gave back {} of {}", about.name(), format_size(returned), format_size(before))
                   : fmt::format("{} gave back nothing of {}: it uses all of it, or nothing in it co-operates",
                                 about.name(), format_size(before)));
  event.bytes = number(returned);
  event.by = by;
  return event;
}

Event suspending_event(const About& about, const std::string& by) {
  Event event = event_of(about, EventType::kSuspending, about.name() + " is being suspended");
  event.by = by;
  return event;
}

Event gives_way_event(const About& about, const GivesWay& way, const Error* failed) {
  Event event = failed != nullptr
                    ? not_suspended_event(about, *failed)
                    : event_of(about, EventType::kSuspending,
                               fmt::format("{} is being suspended: {} workloads on GPU {} hold memory and wait for "
                                           "more; its {} let {} go on, which has waited longer",
                                           about.name(), way.waiting, way.gpu, format_size(way.freed), way.to));
  if (failed != nullptr)
    event.text = fmt::format("{} and {} wait for each other's memory, and it was not suspended: {}", about.name(),
                             way.to, failed->what);
  event.gpu = way.gpu;
  event.bytes = number(way.freed);
  event.by = "daemon";
  return event;
}

std::string gave_way_text(const std::string& to) { return fmt::format("it gave way to {} and still waits", to); }

std::string asked_to_resume_text(const std::string& by) { return by + " asked for it"; }

Event suspended_event(const About& about, Bytes moved) {
  Event event = event_of(
      about, EventType::kSuspended,
      fmt::format("{} is suspended: its {} are in host memory until it works again", about.name(), format_size(moved)));
  event.bytes = number(moved);
  return event;
}

Event not_suspended_event(const About& about, const Error& why) {
  Event event =
      event_of(about, EventType::kSuspendFailed, fmt::format("{} was not suspended: {}", about.name(), why.what));
  event.fix = why.fix;
  return event;
}

Event resuming_event(const About& about, const std::string& because) {
  return event_of(about, EventType::kResuming, fmt::format("{} asks for its device: {}", about.name(), because));
}

Event resumed_event(const About& about, bool by_somebody_else) {
  return event_of(about, EventType::kResumed,
                  about.name() + (by_somebody_else ? " is back on its device: somebody else brought it back"
                                                   : " is back on its device"));
}

Event not_resumed_event(const About& about, const Error& why) {
  Event event = event_of(about, EventType::kSuspendFailed,
                         fmt::format("{} could not be brought back yet: {}", about.name(), why.what));
  event.fix = why.fix;
  return event;
}

Event put_back_event(const About& about, bool is_guarantee, Bytes found, Bytes owned) {
  Event event =
      event_of(about, EventType::kResized,
               fmt::format("{}: the {} was set to {} while no daemon ran; it was put back to {}", about.name(),
                           is_guarantee ? "guarantee" : "limit", format_size(found), format_size(owned)));
  event.old_value = std::to_string(found.count());
  event.new_value = std::to_string(owned.count());
  return event;
}

Event tampered_event(const About& about, bool is_guarantee, Bytes found, Bytes owned) {
  Event event = event_of(about, EventType::kViolation,
                         fmt::format("{} changed its own {} to {}; it was put back to {}", about.name(),
                                     is_guarantee ? "guarantee" : "limit", format_size(found), format_size(owned)));
  event.old_value = std::to_string(found.count());
  event.new_value = std::to_string(owned.count());
  return event;
}

Event altered_event(const About& about, const std::string& labels, const std::string& what) {
  const auto label = [&](std::string_view key) {
    for (const std::string_view each : split(labels, ','))
      if (const auto entry = split_once(each, '='); entry && entry->first == key) return std::string(entry->second);
    return std::string();
  };
  const std::string container = label("container"), engine = label("engine");
  Event event = event_of(
      about, EventType::kViolation,
      container.empty()
          ? fmt::format("the book of {} was altered: {}; until it ends, it counts as if it held all it may",
                        about.name(), what)
          : fmt::format("the book of {} (container {}) was altered: {}; until it ends, it counts as if it held "
                        "all it may",
                        about.name(), container, what));
  if (engine == "docker" || engine == "podman") event.fix = fmt::format("{} kill {}", engine, container);
  return event;
}

Event grown_event(const About& about, Bytes size) {
  return event_of(about, EventType::kViolation,
                  fmt::format("{} made its book {} long; it was cut back", about.name(), format_size(size)));
}

Event beside_book_event(const About& about, std::int32_t pid, Bytes by_driver, Bytes by_book) {
  Event event = event_of(about, EventType::kViolation,
                         fmt::format("pid {} of {}/{} uses {} by the driver, {} by its book", pid, about.tenant,
                                     about.workload, format_size(by_driver), format_size(by_book)));
  event.pid = pid;
  return event;
}

Event wrong_tenant_event(const About& about, const std::string& named) {
  return event_of(about, EventType::kViolation,
                  fmt::format("the book of {} names tenant {}, to whom {} does not belong: {} is charged",
                              about.workload, named, about.user, about.tenant));
}

Event ungoverned_event(const UngovernedView& view) {
  const ProcessView& process = view.process;
  const std::string from = !view.container.empty() ? ": container " + view.container
                           : view.origin.empty()   ? ""
                                                   : ": " + view.origin;
  const std::string held =
      process.driver_used ? format_size(*process.driver_used) : fmt::format("n/a ({})", process.untold);
  Event event = event_of(EventType::kUngoverned, fmt::format("pid {} ({}, {}) holds {} on GPU {}, {}{}", process.pid,
                                                             process.command.empty() ? "n/a" : process.command,
                                                             process.user, held, view.gpu, view.why(), from));
  event.gpu = view.gpu;
  event.pid = process.pid;
  event.user = process.user;
  if (process.driver_used) event.bytes = number(*process.driver_used);
  event.fix = kGovernIt;
  return event;
}

Event no_limit_event(const UngovernedView& view, std::optional<std::uint64_t> grace_ns) {
  return no_limit(view, fmt::format("{} is under no limit on GPU {}{}", process_text(view), view.gpu,
                                    grace_ns ? fmt::format(": it is ended in {}", format_duration(*grace_ns)) : ""));
}

Event no_limit_ended_event(const UngovernedView& view, const char* signal) {
  return no_limit(
      view, process_text(view) + (signal != nullptr ? fmt::format(" is under no limit: {} was sent", signal)
                                                    : " is under no limit and cannot be ended by this daemon's user"));
}

Event orphaned_event(int gpu, Bytes bytes, const std::string& device_file,
                     const std::vector<machine::Opener>& openers) {
  std::string who;
  for (const machine::Opener& opener : openers)
    who += fmt::format("{}pid {} ({}, state {})", who.empty() ? "" : ", ", opener.pid, opener.command, opener.state);
  Event event =
      event_of(EventType::kOrphaned,
               fmt::format("{} of GPU {} are in use, and the driver lists no process with them; {}", format_size(bytes),
                           gpu, device_file + (who.empty() ? " is open nowhere" : " is open in " + who)));
  event.gpu = gpu;
  event.bytes = number(bytes);
  event.fix = command({"explain", "--gpu", std::to_string(gpu)});
  return event;
}

Event book_unreadable_event(const About& about, const std::string& why) {
  return event_of(about, EventType::kGuardLost, "a book cannot be read: " + why);
}

Event book_unwritable_event(const About& about, const Error& why) {
  return event_of(about, EventType::kGuardLost, why.what);
}

Event limit_unwritable_event(const std::string& book) {
  return event_of(EventType::kGuardLost, "a limit cannot be written: " + book);
}

Event driver_limits_event(const std::string& problem) {
  return event_of(EventType::kGuardLost, "the driver holds no limits, the shim does: " + problem);
}

Event queued_event(const About& about, const std::string& lease, Bytes bytes, const std::string& reason) {
  Event event = event_of(about, EventType::kQueued,
                         fmt::format("{} of {} waits for {}: {}", lease, about.tenant, format_size(bytes), reason));
  event.bytes = number(bytes);
  event.lease = lease;
  return event;
}

Event granted_event(const About& about, const std::string& lease, Bytes bytes, const std::vector<int>& gpus,
                    const std::string& passed) {
  Event event = event_of(about, EventType::kGranted,
                         fmt::format("{} of {} may start on GPU {}{}{}", lease, about.tenant, fmt::join(gpus, ","),
                                     passed.empty() ? "" : ", ", passed));
  event.bytes = number(bytes);
  if (!gpus.empty()) event.gpu = gpus.front();
  event.lease = lease;
  return event;
}

Event config_event(std::string told) { return event_of(EventType::kConfig, std::move(told)); }

Event config_broken_event(const FileProblem& problem) {
  return config_event(fmt::format("{}: {}; {}", place_text(problem), problem.what, problem.fix));
}

Event config_rejected_event(const Error& why) { return config_event("a new configuration was rejected: " + why.what); }

Event config_changed_event(const std::vector<std::string>& lines) {
  return config_event(lines.empty() ? "the configuration was read again: nothing changed"
                                    : fmt::format("the configuration changed: {}", fmt::join(lines, "; ")));
}

Event schedule_set_event(const ScheduleTold& schedule, const std::string& by) {
  std::string limits;
  for (const auto& [tenant, limit] : schedule.limits)
    limits += fmt::format("{}{} {}", limits.empty() ? "" : ", ", tenant, limit);
  Event event = config_event(
      fmt::format("schedule {} ({} {}: {}) was set by {}", schedule.name, schedule.days, schedule.when, limits, by));
  event.by = by;
  event.of_schedule = true;
  return event;
}

Event schedule_removed_event(const std::string& name, const std::string& by) {
  Event event = config_event(fmt::format("schedule {} was removed by {}", name, by));
  event.by = by;
  event.of_schedule = true;
  return event;
}

Event claim_granted_event(const std::string& claim, const std::string& tenant, const std::map<int, Bytes>& limits) {
  std::string granted;
  for (const auto& [gpu, limit] : limits)
    granted += fmt::format("{}{} of GPU {}", granted.empty() ? "" : ", ", format_size(limit), gpu);
  Event event = event_of(EventType::kGranted, fmt::format("claim {} was granted {}", claim, granted));
  event.tenant = tenant;
  if (!limits.empty()) event.gpu = limits.begin()->first;
  return event;
}

Event claim_returned_event(const std::string& claim, const std::string& tenant) {
  Event event = event_of(EventType::kEnded, fmt::format("claim {} was given back", claim));
  event.tenant = tenant;
  return event;
}

Event alert_event(const config::AlertChange& change) {
  return event_of(EventType::kAlert,
                  fmt::format("{}: {} ({})", change.about, change.raised ? "raised" : "cleared", change.rule));
}

Event daemon_event(std::string told) { return event_of(EventType::kDaemon, std::move(told)); }

Event daemon_started_event(const std::string& version, std::int32_t pid) {
  return daemon_event(fmt::format("the daemon started (ration {}, pid {})", version, pid));
}

Event daemon_ended_event() { return daemon_event("the daemon ended"); }

Event daemon_unreachable_event(const std::string& problem) {
  return daemon_event("nobody reaches the daemon: " + problem);
}

Event devices_lost_event(const Error& why) { return daemon_event("the devices cannot be asked: " + why.what); }

Event gap_event(std::uint64_t length_ns) {
  return event_of(EventType::kGap, fmt::format("nobody watched for about {}: a gap in the accounts, charged to nobody",
                                               format_duration(length_ns)));
}

Event clock_back_event(std::uint64_t length_ns) {
  return event_of(EventType::kGap,
                  fmt::format("the clock was set back by about {}: nothing is recorded until it is there again",
                              format_duration(length_ns)));
}

Event flood_event(const std::string& user, const std::map<EventType, std::size_t>& left_out) {
  std::size_t all = 0;
  std::string kinds;
  for (const auto& [type, count] : left_out) {
    all += count;
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, name_of(type));
  }
  Event event = daemon_event(fmt::format("{} events of {} within a minute are not recorded: {}", all, user, kinds));
  event.user = user;
  return event;
}

}  // namespace ration::node
