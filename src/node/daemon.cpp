#include "node/daemon.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "admission/configured_promises.hpp"
#include "admission/configured_slices.hpp"
#include "base/clock.hpp"
#include "base/say.hpp"
#include "base/time.hpp"
#include "book/container_books.hpp"
#include "config/printer.hpp"
#include "config/settings.hpp"
#include "config/values.hpp"
#include "node/books/machine_daemon.hpp"
#include "node/queue/queue_step.hpp"

namespace ration::node {
namespace {

using namespace std::chrono_literals;

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::chrono::milliseconds milliseconds_of(std::chrono::nanoseconds span) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(span);
}

std::vector<machine::Device> devices_of(const Snapshot& now) {
  std::vector<machine::Device> devices;
  for (const DeviceView& view : now.devices) devices.push_back(view.device);
  return devices;
}

/// Records the run length of an ended workload, for the queue.
void learn(Leases& leases, const Workload& ended) {
  const std::uint64_t end = std::min(ended.book.ended_ns, unix_time_ns());
  if (ended.book.ended_ns == 0 || ended.book.exit_status != 0 || end < ended.book.created_ns) return;
  leases.learn({ended.user, ended.book.tenant, name_without_number(ended.book.name, ended.book.run_number),
                command_hash(ended.book.command)},
               end - ended.book.created_ns);
}

}  // namespace

history::TimeMs Daemon::longest_step(const config::Daemon& settings) {
  return 3 * milliseconds_of(std::max(settings.sample.value, settings.sample_idle.value)).count();
}

history::TimeMs Daemon::usage_kept(const config::Report& settings) {
  return milliseconds_of(settings.retention.value).count();
}

std::string Daemon::greeting(bool with_link) {
  const Snapshot& now = engine_.snapshot();
  const http::ServerOptions& endpoints = api_.server().options();
  std::string text = fmt::format("ration {}: {} ({}) · socket {}", RATION_VERSION, counted(now.devices.size(), "GPU"),
                                 now.driver_version.empty() ? "no driver" : now.driver_version, endpoints.socket_path);
  const bool has_dashboard = !api_.dashboard_address().empty();
  const auto listens = config::parse_listen(endpoints.tcp_address);
  if (has_dashboard)
    text +=
        fmt::format(" · {}{}", api_.dashboard_address(), listens && listens->loopback ? " (this machine only)" : "");
  std::size_t set = 0;
  for (const config::Row& row : engine_.configuration().rows) set += row.origin.is_default() ? 0 : 1;
  text += fmt::format("\n /metrics on · configuration: {} set, {} default · history {}", set,
                      engine_.configuration().rows.size() - set, recorder_.history().path());
  if (has_dashboard && with_link)
    text += fmt::format("\n dashboard: {}   (this link works once, within an hour)", api_.make_link());
  if (has_dashboard)
    text += fmt::format(
        "\n to change limits in any browser, open the link that `ration dashboard` prints, or enter the token from {}",
        endpoints.token_file);
  if (const Message other = api_.port_problem(); !other.empty()) text += "\n " + other;
  if (!now.machine_problem.empty()) text += fmt::format("\n no GPU: {}", now.machine_problem);
  return text + "\n";
}

void Daemon::run(const std::function<void()>& ready) {
  const auto stop = [this] { stop_soon(); };
  watches_.stop_on_term = loop_.on_signal(SIGTERM, stop);
  watches_.stop_on_interrupt = loop_.on_signal(SIGINT, stop);
  watches_.reload_on_hangup = loop_.on_signal(SIGHUP, [this] { (void)reload(); });
  // Ticks at the end of a move, because a workload may wait for that end.
  watches_.tick_on_end = loop_.on_signal(SIGCHLD, [this] {
    if (!engine_.subjects().residency.suspension().is_moving()) return;  // the child was no checkpoint job
    tick_at_once_ = true;
    schedule_tick();
  });
  watches_.commit = loop_.every(1s, [this] {
    if (const auto problem = api_.keep_endpoints()) publish({daemon_unreachable_event(*problem)});
    commit();
  });
  publish({daemon_started_event(RATION_VERSION, ::getpid())});
  if (const Message other = api_.port_problem(); !other.empty()) publish({daemon_event(other)});
  tick();
  for (const FileProblem& broken :  // also governs a tenant whose guarantees cannot be kept
       admission::broken_promises(engine_.configuration(), devices_of(engine_.snapshot())))
    publish({config_broken_event(broken)});
  ready();
  loop_.run();
  book::retire_ended(options_.folders.front().first);  // retires books of containers that ended unnoticed
  publish(engine_.finish());
  publish({daemon_ended_event()});
  commit();
}

// Schedules the next tick: after the short interval `sample` while a client watches or anything changes, else after
// `sample_idle`.
void Daemon::schedule_tick() {
  const config::Daemon& settings = engine_.configuration().daemon;
  const bool often = pace_.busy() || announcer_.busy() || leases_.queue().waiting() > 0 || engine_.is_unsettled() ||
                     engine_.has_lowered_limit();
  const auto pace = milliseconds_of(often ? settings.sample.value : settings.sample_idle.value);
  watches_.next_tick = loop_.after(tick_at_once_ ? 0ms : pace, [this] { tick(); });
}

void Daemon::stop_soon() {
  api_.server().stop(2s, [this] { loop_.stop(); });
}

void Daemon::tick_if_stale() {
  const double age = static_cast<double>(steady_time_ns() - engine_.moment().now_ns) / 1e9;
  if (!pace_.affords_tick(monotonic_seconds(), age)) return;
  tick();
  pace_.pay();
}

void Daemon::tick_soon() {
  pace_.hurry();
  schedule_tick();
}

void Daemon::tick() {
  const double before = monotonic_seconds();
  const std::uint64_t now = steady_time_ns();
  // If the history's file is gone, commits at once: the commit finds the loss, and /health reports it within a tick.
  if (!recorder_.history().in_place()) commit();
  engine_.set_queue_length(leases_.queue().waiting());
  Effects effects = engine_.tick(now, unix_time_ns());
  Events& events = effects.events;
  const std::vector<machine::Device> devices = devices_of(engine_.snapshot());
  if (is_of_machine(options_.folders.front().first) && engine_.folder_claims().is_claimed()) publish_governed(devices);
  if (!replaced_ && machine_daemon_governs(devices)) {
    replaced_ = true;
    events.push_back(daemon_event(say<"daemon.replaced">()));
    stop_soon();
  }
  if (const auto problem = announcer_.step(now)) events.push_back(daemon_event(*problem));
  tick_at_once_ = step_queue(engine_.moment(), effects.residency_changes,
                             {leases_, subjects().residency, subjects().promises}, events);
  if (slices_due_) apply_configured_slices(events);
  if (const auto problem = device_publisher_.step(engine_.moment()))
    events.push_back(daemon_event(problem->what + " " + problem->fix));
  for (const Workload& ended : effects.ended_workloads) learn(leases_, ended);
  for (Event& event : recorder_.take(engine_.moment(), effects)) events.push_back(std::move(event));
  const bool changed = !events.empty() || recorder_.changed();
  publish(std::move(events));
  api_.publish_snapshot();
  const double seconds = monotonic_seconds() - before;
  pace_.note_tick(seconds, changed);
  recorder_.note_tick(seconds);
  schedule_tick();
}

void Daemon::apply_configured_slices(Events& events) {
  std::vector<machine::Device> devices;
  for (const DeviceView& view : engine_.snapshot().devices) {
    devices.push_back(view.device);
    const Bytes others = view.promised - std::min(view.promised, view.sliced) + view.keep_free;
    devices.back().total -= std::min(view.device.total, others);  // slices are cut from the memory that remains
  }
  if (devices.empty()) return;
  const auto store = book::Store::open();
  if (!store) return;
  const auto alone = store->try_lock();
  if (!alone) return;  // another process holds the lock, because it starts a workload
  slices_due_ = false;
  for (Message& text : admission::apply_configured_slices(*store, engine_.configuration(), devices))
    events.push_back(config_event(std::move(text)));
}

void Daemon::publish(Events events) {
  const std::vector<history::Event> records = recorder_.store(std::move(events));
  announcer_.send_alerts(engine_.configuration().alerts.webhook.value,
                         records);  // also alerts that a full disk kept from being stored
  announcer_.send(recorder_.take_late());
  announcer_.send(records);
}

void Daemon::commit() {
  Events events = recorder_.commit();
  announcer_.send(recorder_.take_late());
  publish(std::move(events));
}

void Daemon::keep_accepted() const {
  if (is_of_machine(options_.folders.front().first)) config::keep_accepted(engine_.configuration());
}

Result<std::vector<std::string>> Daemon::reload() {
  auto fresh = config::read_configuration();
  if (fresh) {
    if (const auto broken = admission::broken_promises(*fresh, devices_of(engine_.snapshot())); !broken.empty())
      fresh = tl::unexpected(admission::too_much(broken));
  }
  if (!fresh) {
    Event rejected = config_rejected_event(fresh.error());
    last_reload_.rejected = rejected.text;
    publish({std::move(rejected)});
    if (options_.print) options_.print(fresh.error());
    return tl::unexpected(fresh.error());
  }
  std::vector<std::string> lines = config::difference(engine_.configuration(), *fresh);
  engine_.configure(std::move(*fresh));
  last_reload_ = {{}, unix_time_ns()};
  keep_accepted();
  recorder_.history().set_longest_step(longest_step(engine_.configuration().daemon));
  recorder_.history().set_usage_kept(usage_kept(engine_.configuration().report));
  slices_due_ = true;
  publish({config_changed_event(lines)});
  tick();
  return lines;
}

Result<history::ClosedPeriod> Daemon::close_period(const std::string& name) {
  commit();
  return recorder_.history().close_period(name, history::now_ms());
}

}  // namespace ration::node
