#include "node/events/workload_events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/command.hpp"
#include "machine/user_names.hpp"
#include "node/state/limit_room.hpp"
#include "policy/denials.hpp"

namespace ration::node {

using history::Event;

namespace {

/// The limit that a workload would have beside nobody, where what others are promised held it back at the denial.
std::optional<Bytes> held_back_from(const NodeState& state, const Workload& workload, const ledger::Denial& denial) {
  const OwnedWorkload* owned = state.limits.find(workload.path);
  if (denial.reason != ledger::DenialReason::kLimit || owned == nullptr || denial.account >= owned->accounts.size())
    return std::nullopt;
  const OwnedLimit& mine = owned->accounts[denial.account];
  if (mine.held_back_by.empty() || denial.limit >= mine.configured) return std::nullopt;
  return mine.configured;
}

// A book does not know who holds the device, or for whom its own limit was lowered.
void add_largest_holder(const NodeState& state, const Workload& workload, const ledger::Denial& denial,
                        policy::DenialExplained& explained) {
  if (denial.account >= workload.book.accounts.size()) return;
  const auto gpu = gpu_of(state, workload.book.accounts[denial.account].device);
  if (const auto configured = held_back_from(state, workload, denial); configured) {
    explained.because =
        fmt::format("{} held {} and might hold {} of its limit {} at that moment: {}", workload.book.name,
                    format_size(denial.used), format_size(denial.limit), format_size(*configured),
                    state.limits.find(workload.path)->accounts[denial.account].held_back_by);
    if (denial.used + denial.requested <= *configured &&
        explained.fix.rfind(command({"set", workload.book.name}) + " ", 0) == 0)
      explained.fix = fmt::format("{}   (who holds what, and for whom the rest is kept); --on-deny wait",
                                  gpu ? command({"explain", "--gpu", std::to_string(*gpu)}) : command({"explain"}));
  }
  if (denial.reason != ledger::DenialReason::kDeviceFull || !gpu) return;
  Bytes most;
  std::string who;
  for (const AccountView& account : state.snapshot.accounts)
    if (account.gpu == gpu && account.path != workload.path && account.trusted_usage() > most)
      most = account.trusted_usage(), who = account.tenant + "/" + account.workload;
  for (const UngovernedView& each : state.snapshot.ungoverned)
    if (each.gpu == *gpu && each.process.driver_used.value_or(Bytes{0}) > most)
      most = *each.process.driver_used, who = fmt::format("pid {}, which nobody governs", each.process.pid);
  if (most > Bytes{0}) explained.because += fmt::format("; of others {} holds most: {}", who, format_size(most));
}

policy::DenialExplained explained(const NodeState& state, const Workload& workload, const ledger::Denial& denial,
                                  bool running = true) {
  const bool by_limit = running && denial.reason == ledger::DenialReason::kLimit;
  const auto room = by_limit ? room_for(state, workload, denial.account, denial.used + denial.requested) : std::nullopt;
  auto found = policy::explain_denial(denial, workload.book, running, room,
                                      [&](const auto& device) { return gpu_of(state, device); });
  add_largest_holder(state, workload, denial, found);
  // Owners may lower what is theirs, and nothing else.
  const auto holder = state.registry.named(room ? room->promise.name : "", workload.owner);
  const bool lowers_own =
      found.fix.find(" --guarantee ") != std::string::npos && holder && (*holder)->owner == workload.owner;
  if (found.fix.rfind("ration set ", 0) == 0 && !lowers_own && !machine::is_operator(workload.owner))
    found.fix.insert(0, machine::kAskOperator);
  return found;
}

}  // namespace

void report_started(const NodeState& state, const Workload& workload, std::vector<Event>& events) {
  std::string limits;
  for (const auto& account : workload.book.accounts)
    limits += fmt::format("{}{}", limits.empty() ? "" : ", ", format_size(account.limit));
  Event event =
      event_of(state, workload, "started",
               fmt::format("{}/{} started with a limit of {}", workload.book.tenant, workload.book.name, limits));
  event.time = history::to_ms(workload.book.created_ns);
  event.pid = workload.book.creator.pid;
  events.push_back(std::move(event));
}

history::Event denial_event(const NodeState& state, const Workload& workload, const ledger::Denial& denial,
                            bool running) {
  const auto told_of = explained(state, workload, denial, running);
  const std::string who = workload.book.tenant + "/" + workload.book.name;
  const auto held_back = held_back_from(state, workload, denial);
  Event event = event_of(
      state, workload, workload.book.on_deny == ledger::OnDeny::kWait && denial.waited_ns > 0 ? "waited" : "denied",
      denial.reason == ledger::DenialReason::kNoAccount
          ? fmt::format("{} was denied {}: {}", who, denial.function, told_of.because)
      : held_back ? fmt::format("{} was denied {}: it held {} and might hold {} of its limit {} at that moment", who,
                                format_size(denial.requested), format_size(denial.used), format_size(denial.limit),
                                format_size(*held_back))
                  : fmt::format("{} was denied {}: it held {} of its limit {}", who, format_size(denial.requested),
                                format_size(denial.used), format_size(denial.limit)));
  event.time = history::to_ms(std::min(denial.time_ns, state.now_ns));
  event.pid = denial.pid;
  event.bytes = static_cast<std::int64_t>(denial.requested.count());
  event.denial = told_of.id;
  event.fix = told_of.fix;
  event.gpu = gpu_of(state, denial.device);
  const bool told = denial.device_free != ledger::kUnknownBytes;
  event.why = nlohmann::json{{"reason", told_of.reason},
                             {"because", told_of.because},
                             {"not_because", told_of.not_because},
                             {"fix", told_of.fix},
                             {"function", denial.function},
                             {"used_bytes", denial.used.count()},
                             {"limit_bytes", denial.limit.count()},
                             {"device_free_bytes", told ? nlohmann::json(denial.device_free) : nlohmann::json()},
                             {"waited_seconds", static_cast<double>(denial.waited_ns) / 1e9}}
                  .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return event;
}

void report_denials(NodeState& state, const Workload& workload, std::vector<Event>& events) {
  auto& wanted = state.running[workload.path].wanted;
  wanted.assign(workload.book.accounts.size(), Bytes{0});
  for (std::size_t account = 0; account < std::min(wanted.size(), workload.book.wanted.size()); ++account)
    wanted[account] = workload.book.wanted[account];
  for (const ledger::Denial& denial : workload.book.denials) {
    const std::uint64_t time_ns = std::min(denial.time_ns, state.now_ns);
    state.recent_denials[workload.book.tenant + "/" + workload.book.name].push_back(time_ns);
    if (denial.account < wanted.size()) wanted[denial.account] = std::max(wanted[denial.account], denial.requested);
    Event event = denial_event(state, workload, denial, true);
    if (time_ns < state.first_tick_ns && state.options.recorded(event.denial, history::to_ms(denial.time_ns))) continue;
    report_limit_moves(state, workload, events);
    events.push_back(std::move(event));
  }
}

void report_limit_moves(NodeState& state, const Workload& workload, std::vector<Event>& events) {
  for (const LimitMoves::Burst& burst : state.limit_moves.take_of(workload.path))
    report_limit_move(state, workload, burst, events);
}

void report_limit_move(const NodeState& state, const Workload& workload, const LimitMoves::Burst& burst,
                       std::vector<Event>& events) {
  std::string text = fmt::format("{}/{} may hold {} instead of {}", workload.book.tenant, workload.book.name,
                                 format_size(burst.to), format_size(burst.from));
  if (!burst.because.empty()) text += ": " + burst.because;
  const std::uint64_t length = burst.last_ns - burst.first_ns;
  if (burst.count > 1)
    text += length < 1'000'000'000
                ? fmt::format(" (the last of {} changes)", burst.count)
                : fmt::format(" (the last of {} changes within {})", burst.count, format_duration(length));
  Event event = event_of(state, workload, "rebalanced", std::move(text));
  event.time = history::to_ms(burst.last_ns);
  event.first_time = history::to_ms(burst.first_ns);
  event.count = static_cast<std::int64_t>(burst.count);
  event.gpu = gpu_of(state, workload.book.accounts[burst.place.second].device);
  event.old_value = std::to_string(burst.from.count());
  event.new_value = std::to_string(burst.to.count());
  events.push_back(std::move(event));
}

std::string fix_now(const NodeState& state, const std::string& denial, const std::string& asker) {
  const auto id = policy::parse_denial_id(denial);
  if (!id) return {};
  for (const auto& [path, workload] : state.registry.workloads()) {
    if (workload.book.run_number != id->run || workload.user != asker) continue;
    for (const ledger::Denial& each : workload.book.denials)
      if (each.sequence == id->number) return explained(state, workload, each).fix;
  }
  return {};
}

}  // namespace ration::node
