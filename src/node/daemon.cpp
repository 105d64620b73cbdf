#include "node/daemon.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iterator>

#include "base/clock.hpp"
#include "base/command_json.hpp"
#include "base/time.hpp"
#include "config/printer.hpp"
#include "http/problem.hpp"
#include "machine/user_names.hpp"
#include "node/api/lease_json.hpp"
#include "node/state/promises.hpp"
#include "node/state/residency.hpp"
#include "policy/configured_promises.hpp"
#include "policy/configured_slices.hpp"
#include "policy/denials.hpp"

namespace ration::node {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

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

}  // namespace

history::TimeMs Daemon::longest_step(const config::Daemon& settings) {
  return 3 * milliseconds_of(std::max(settings.sample.value, settings.sample_idle.value)).count();
}

std::optional<std::string> Daemon::log_in(std::string_view once) {
  if (!login_tokens_.use(once, LoginTokens::Clock::now())) return std::nullopt;
  return server_.token();
}

std::string Daemon::dashboard_address() const {
  if (server_.tcp_port() == 0) return {};
  return fmt::format("http://{}:{}", listen_.substr(0, listen_.rfind(':')), server_.tcp_port());
}

std::string Daemon::make_link() {
  return fmt::format("{}/?token={}", dashboard_address(), login_tokens_.make(LoginTokens::Clock::now()));
}

/// Empty: the port is the one that was wanted.
std::string Daemon::other_port() const {
  if (server_.tcp_problem().empty()) return "";
  return server_.tcp_port() != 0 ? fmt::format("{}; the address is {}", server_.tcp_problem(), dashboard_address())
                                 : fmt::format("{}; only the socket answers", server_.tcp_problem());
}

std::string Daemon::greeting(bool with_link) {
  const Snapshot& now = engine_.snapshot();
  std::string text = fmt::format("ration {}: {} ({}) · socket {}", RATION_VERSION, counted(now.devices.size(), "GPU"),
                                 now.driver_version.empty() ? "no driver" : now.driver_version, socket_);
  const bool has_dashboard = !dashboard_address().empty();
  if (has_dashboard) text += fmt::format(" · {} (this machine only)", dashboard_address());
  std::size_t set = 0;
  for (const config::Row& row : engine_.configuration().rows) set += row.origin.is_default() ? 0 : 1;
  text += fmt::format("\n /metrics on · configuration: {} set, {} default · history {}", set,
                      engine_.configuration().rows.size() - set, database_);
  if (has_dashboard && with_link)
    text += fmt::format("\n dashboard: {}   (this link works once, within an hour)", make_link());
  if (has_dashboard)
    text += fmt::format("\n to change limits in {} dashboard: ration dashboard prints a link, or the token in {}",
                        with_link ? "another" : "the", token_file_);
  if (const std::string other = other_port(); !other.empty()) text += "\n " + other;
  if (!now.machine_problem.empty()) text += fmt::format("\n no GPU: {}", now.machine_problem);
  return text + "\n";
}

void Daemon::run(const std::function<void()>& ready) {
  stop_on_term_ = loop_.on_signal(SIGTERM, [this] { server_.stop(2s, [this] { loop_.stop(); }); });
  stop_on_interrupt_ = loop_.on_signal(SIGINT, [this] { server_.stop(2s, [this] { loop_.stop(); }); });
  reload_on_hangup_ = loop_.on_signal(SIGHUP, [this] { (void)reload(); });
  commit_ = loop_.every(1s, [this] {
    stay_reachable();
    commit();
  });
  publish({daemon_started_event(RATION_VERSION, ::getpid())});
  if (const std::string other = other_port(); !other.empty()) publish({daemon_event(other)});
  tick();
  for (const FileProblem& broken :  // who has promised too much is governed all the same
       policy::broken_promises(engine_.configuration(), devices_of(engine_.snapshot())))
    publish({config_broken_event(broken)});
  ready();
  loop_.run();
  publish(engine_.finish());
  publish({daemon_ended_event()});
  commit();
}

// Half a second while somebody watches or anything changes, else the slower rate.
void Daemon::schedule_tick() {
  const config::Daemon& settings = engine_.configuration().daemon;
  const bool often = busy_ || stream_.subscribers() > 0 || leases_.waiting() > 0 || engine_.is_unsettled() ||
                     webhook_.busy() || engine_.anybody_held_back();
  next_tick_ =
      loop_.after(milliseconds_of(often ? settings.sample.value : settings.sample_idle.value), [this] { tick(); });
}

nlohmann::json Daemon::more_of_snapshot(const Viewer& viewer) {
  return {{"queue", waiting_json(leases_, viewer)}, {"last_event", stream_.newest_id()}};
}

void Daemon::tick_if_stale() {
  // Looks on demand may take so much of the time, however many ask; a short one is at hand when nobody asked for long.
  constexpr double kMaxShare = 0.1, kMaxAtHand = 0.02;
  const double now = monotonic_seconds();
  tick_budget_ = std::min(kMaxAtHand, tick_budget_ + kMaxShare * (now - tick_budget_since_));
  tick_budget_since_ = now;
  const double age = static_cast<double>(unix_time_ns() - std::min(unix_time_ns(), engine_.snapshot().time_ns)) / 1e9;
  if (tick_budget_ < last_tick_seconds_ && age <= last_tick_seconds_ / kMaxShare) return;
  tick();
  tick_budget_ = std::max(0.0, tick_budget_ - last_tick_seconds_);
}

void Daemon::tick_soon() {
  busy_ = true;
  schedule_tick();
}

void Daemon::tick() {
  const double before = monotonic_seconds();
  const std::uint64_t now = unix_time_ns();
  if (!history_.in_place()) commit();  // which begins a new one: /health is never older than a tick
  engine_.state().queue_length = leases_.waiting();
  Events events = engine_.tick(now);
  if (const auto problem = webhook_.step(now)) events.push_back(daemon_event(*problem));
  const ResidencyChanges moves = std::exchange(engine_.state().residency_changes, {});
  for (const std::string& path : moves.left) leases_.leave(path);
  for (const auto& [path, because] : moves.asking) leases_.ask_again(path, because, engine_.snapshot(), now);
  for (Event& event : leases_.step(engine_.snapshot(), now, shares(engine_.state())))
    events.push_back(std::move(event));
  for (const std::string& path : leases_.take_returning()) approve_resume(engine_.state(), path);
  if (slices_due_) cut_as_configured(events);
  if (const auto problem = device_publisher_.step(engine_.configuration(), engine_.state().slices))
    events.push_back(daemon_event(problem->what + " " + problem->fix));
  for (const Workload& ended : engine_.state().ended_workloads) learn_from(ended);
  history::Sample sample = sampler_.take(engine_.state());
  count_time();
  if (!sample.devices.empty()) remember(sample, events);
  for (const auto& ended : std::exchange(engine_.state().ended_runs, {}))
    history_.run_ended(ended.run, ended.ended, ended.exit_code);
  const auto amounts = [](const history::Sample& each) {
    std::vector<std::uint64_t> used;
    for (const auto& workload : each.workloads) used.push_back(workload.used.count());
    return used;
  };
  busy_ = !events.empty() || amounts(sample) != amounts(last_sample_);
  last_sample_ = std::move(sample);
  publish(std::move(events));
  stream_.publish("snapshot", "snapshot", [this](const http::Peer& peer) { return api_.snapshot(viewer_of(peer)); });
  ++counters_.ticks;
  last_tick_seconds_ = monotonic_seconds() - before;
  counters_.tick_seconds += last_tick_seconds_;
  schedule_tick();
}

void Daemon::learn_from(const Workload& ended) {
  const std::uint64_t end = std::min(ended.book.ended_ns, unix_time_ns());
  if (ended.book.ended_ns == 0 || ended.book.exit_status != 0 || end < ended.book.created_ns) return;
  leases_.learn({ended.user, ended.book.tenant, name_without_number(ended.book.name, ended.book.run_number),
                 command_hash(ended.book.command)},
                end - ended.book.created_ns);
}

void Daemon::cut_as_configured(Events& events) {
  std::vector<machine::Device> devices;
  for (const DeviceView& view : engine_.snapshot().devices) {
    devices.push_back(view.device);
    const Bytes others = view.promised - std::min(view.promised, view.sliced) + view.keep_free;
    devices.back().total -= std::min(view.device.total, others);  // slices are cut from the rest
  }
  if (devices.empty()) return;
  const auto store = ledger::Store::open();
  if (!store) return;
  const auto alone = store->try_lock();
  if (!alone) return;  // somebody starts there at this moment
  slices_due_ = false;
  for (std::string& told : policy::apply_configured_slices(*store, engine_.configuration(), devices))
    events.push_back(config_event(std::move(told)));
}

void Daemon::remember(const history::Sample& sample, Events& events) {
  const auto recorded = history_.record(sample);
  if (!recorded) {
    if (recorded.error().what != sample_problem_) events.push_back(daemon_event(recorded.error().what));
    sample_problem_ = recorded.error().what;
    return;
  }
  sample_problem_.clear();
  const auto apart = [&] {
    const std::int64_t elapsed = sample.time_ns - history_.committed_to() * 1'000'000;
    return static_cast<std::uint64_t>(std::abs(elapsed));
  };
  if (*recorded == history::Recorded::kGap) events.push_back(gap_event(apart()));
  const bool back = *recorded == history::Recorded::kClockBack;
  if (back && !clock_is_back_) events.push_back(clock_back_event(apart()));
  clock_is_back_ = back;
}

void Daemon::count_time() {
  const double seconds = last_sample_ns_ == 0 ? 0 : static_cast<double>(unix_time_ns() - last_sample_ns_) / 1e9;
  last_sample_ns_ = unix_time_ns();
  if (seconds <= 0 || seconds * 1000 > static_cast<double>(60'000)) return;
  for (const auto& workload : last_sample_.workloads) {
    if (workload.device >= last_sample_.devices.size()) continue;
    int gpu = 0;
    for (const DeviceView& device : engine_.snapshot().devices)
      if (device.device.uuid == last_sample_.devices[workload.device].uuid) gpu = device.device.index;
    auto& sums = counters_.byte_seconds[{workload.tenant, gpu}];
    sums.used += static_cast<double>(workload.used.count()) * seconds;
    sums.limit += static_cast<double>(workload.limit.count()) * seconds;
    sums.guarantee += static_cast<double>(workload.guarantee.count()) * seconds;
  }
}

void Daemon::count(const Events& events) {
  for (const Event& event : events) {
    const Counters::TenantOnGpu where{event.tenant, static_cast<int>(event.gpu.value_or(0))};
    if (event.denied) {
      ++counters_.denied[{where, policy::name_of(event.denied->reason)}];
      counters_.denied_bytes[where] += static_cast<std::uint64_t>(event.bytes.value_or(0));
      if (event.type == EventType::kWaited)
        counters_.denied_after.note(static_cast<double>(event.denied->waited_ns) / 1e9);
    } else if (event.type == EventType::kTrimmed) {
      counters_.trimmed_bytes[where] += static_cast<std::uint64_t>(event.bytes.value_or(0));
    } else if (event.type == EventType::kResized) {
      ++counters_.limit_changes[{event.tenant, event.by}];
    } else if (event.type == EventType::kViolation) {
      ++counters_.violations[event.tenant];
    }
  }
}

void Daemon::publish(Events events) {
  for (Event& event : events)
    if (event.time == 0) event.time = history::now_ms();
  count(events);
  flood_.limit(events, history::now_ms());
  if (events.empty()) return;
  std::vector<history::Event> records;
  for (const Event& event : events) records.push_back(to_record(event));
  const auto stored = history_.append(records);
  if (!stored) last_problem_ = stored.error().what;
  send_alerts(records);  // a full disk is not a reason to be silent about a full GPU
  tell(history_.take_late());
  if (stored) tell(records);
}

json Daemon::shown(const history::Event& event, bool with_details) const {
  json row = event_json(event, with_details);
  add_command_options(row, options_.command_options);
  return row;
}

void Daemon::tell(const std::vector<history::Event>& events) {
  for (const history::Event& event : events) {
    stream_.publish(
        "events", "event",
        [this, event](const http::Peer& peer) {
          return shown(event, may_see_details(event, viewer_of(peer)))
              .dump(-1, ' ', false, json::error_handler_t::replace);
        },
        static_cast<std::uint64_t>(event.id));
  }
}

void Daemon::send_alerts(const std::vector<history::Event>& events) {
  const std::string& url = engine_.configuration().alerts.webhook.value;
  if (url.empty()) return;
  for (const history::Event& event : events) {
    if (event_type(event.type) != EventType::kAlert) continue;
    json body = shown(event, true);
    if (event.id == 0) body["id"] = nullptr;  // not stored yet
    body["host"] = machine::host_name();
    webhook_.send(url, body.dump(-1, ' ', false, json::error_handler_t::replace));
  }
}

void Daemon::commit() {
  if (damage_.exchange(false)) (void)history_.check();
  const auto stored = history_.commit();
  last_problem_ = stored ? "" : stored.error().what;
  tell(history_.take_late());
  Events events;
  for (const std::string& notice : history_.take_notices()) {
    events.push_back(daemon_event(notice));
    set_aside_ = notice;
  }
  publish(std::move(events));
}

// Whoever cleans up in /run or /tmp may take the folder or the socket away. A place that somebody else has by then is
// left to them.
void Daemon::stay_reachable() {
  const std::string& own = options_.folders.front().first;
  Result<void> good;
  if (!engine_.state().claims.holds_own()) {
    good = ledger::Store::make(own);
    if (good) good = engine_.state().claims.own(own);
  }
  if (good) good = server_.keep_socket();
  const std::string problem = good ? "" : good.error().what;
  if (problem == std::exchange(unreachable_, problem) || problem.empty()) return;
  publish({daemon_unreachable_event(problem)});
}

Result<std::vector<std::string>> Daemon::reload() {
  auto fresh = config::read_configuration();
  if (fresh) {
    if (const auto broken = policy::broken_promises(*fresh, devices_of(engine_.snapshot())); !broken.empty())
      fresh = tl::unexpected(policy::too_much(broken));
  }
  if (!fresh) {
    publish({config_rejected_event(fresh.error())});
    return tl::unexpected(fresh.error());
  }
  std::vector<std::string> lines = config::difference(engine_.configuration(), *fresh);
  engine_.configure(std::move(*fresh));
  history_.set_longest_step(longest_step(engine_.configuration().daemon));
  slices_due_ = true;
  publish({config_changed_event(lines)});
  tick();
  return lines;
}

Result<history::ClosedPeriod> Daemon::close_period(const std::string& name) {
  commit();
  return history_.close_period(name, history::now_ms());
}

json Daemon::health(bool with_folders) const {
  const Snapshot& now = engine_.snapshot();
  json folders = json::array();
  for (const auto& [folder, owner] : engine_.registry().folders())
    folders.push_back({{"folder", folder}, {"user", machine::user_name(owner)}});
  json data{{"version", RATION_VERSION},
            {"pid", ::getpid()},
            {"started", utc(started_ns_)},
            {"last_look", utc(now.time_ns)},
            {"looks", counters_.ticks},
            {"look_seconds", counters_.tick_seconds},
            {"workloads", engine_.registry().workloads().size()},
            {"stream_clients", stream_.subscribers()},
            {"connections", server_.connections()},
            {"recorded_to", history::rfc3339(history_.committed_to())},
            {"driver", now.driver_version.empty() ? json(nullptr) : json(now.driver_version)}};
  if (now.driver_version.empty()) data["driver_na"] = now.machine_problem.empty() ? "not told" : now.machine_problem;
  const std::string& problem = last_problem_.empty() ? sample_problem_ : last_problem_;
  data["problem"] = problem.empty() ? json(nullptr) : json(problem);
  if (problem.empty()) data["problem_na"] = "none";
  if (with_folders) data["folders"] = folders;
  json checks = json::array();
  const auto check = [&](const char* id, bool good, const std::string& text) {
    checks.push_back({{"id", id}, {"status", good ? "ok" : "warn"}, {"text", text}});
  };
  check("gpu.driver", now.machine_problem.empty(),
        now.machine_problem.empty() ? "driver " + now.driver_version : now.machine_problem);
  const std::string& history = problem.empty() ? set_aside_ : problem;
  check("disk.history", history.empty(), history.empty() ? "recorded" : history);
  check("socket", unreachable_.empty(), unreachable_.empty() ? "listens on " + socket_ : unreachable_);
  if (!listen_.empty())
    check("port", other_port().empty(), other_port().empty() ? "listens on " + dashboard_address() : other_port());
  check("books", true,
        fmt::format("{} workloads in {} folders", engine_.registry().workloads().size(), folders.size()));
  data["checks"] = checks;
  return data;
}

}  // namespace ration::node
