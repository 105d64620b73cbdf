#include "node/events/workload_events.hpp"

#include <algorithm>

#include "admission/denials.hpp"
#include "machine/user_names.hpp"
#include "node/limits/limit_room.hpp"

namespace ration::node {

namespace {

/// Returns the configured limit if guarantees of others had lowered it at the time of the denial.
std::optional<Bytes> held_back_from(const NodeState& state, const Workload& workload, const book::Denial& denial) {
  const OwnedWorkload* owned = state.limits.find(workload.path);
  if (denial.reason != book::DenialReason::kLimit || owned == nullptr || denial.account >= owned->accounts.size())
    return std::nullopt;
  const OwnedLimit& mine = owned->accounts[denial.account];
  if (mine.held_back_by.empty() || denial.limit >= mine.configured) return std::nullopt;
  return mine.configured;
}

// Adds what the book cannot know: the largest holder on the device, and which guarantee lowered the limit.
void add_largest_holder(const NodeState& state, const Workload& workload, const book::Denial& denial,
                        admission::DenialExplained& explained) {
  if (denial.account >= workload.book.accounts.size()) return;
  const auto gpu = gpu_of(state, workload.book.accounts[denial.account].device);
  if (const auto configured = held_back_from(state, workload, denial); configured) {
    explained.because = held_back_text(workload.book.name, denial.used, denial.limit, *configured,
                                       state.limits.find(workload.path)->accounts[denial.account].held_back_by);
    if (denial.used + denial.requested <= *configured && explained.fix.changes == admission::Changes::kLimit)
      explained.fix = {admission::held_back_fix(gpu ? std::to_string(*gpu) : "")};
  }
  if (denial.reason != book::DenialReason::kDeviceFull || !gpu) return;
  Bytes most;
  Message who;
  for (const AccountView& account : state.snapshot.accounts)
    if (account.gpu == gpu && account.path != workload.path && account.trusted_usage() > most)
      most = account.trusted_usage(), who = account.tenant + "/" + account.workload;
  for (const UngovernedView& each : state.snapshot.ungoverned)
    if (each.gpu == *gpu && each.process.driver_used.value_or(Bytes{0}) > most)
      most = *each.process.driver_used, who = ungoverned_name(each.process.pid);
  if (most > Bytes{0}) explained.because = largest_holder_text(explained.because, who, most);
}

struct Explained : admission::DenialExplained {
  bool fix_is_operators = false;
};

Explained explained(const NodeState& state, const Workload& workload, const book::Denial& denial, bool running = true) {
  const bool by_limit = running && denial.reason == book::DenialReason::kLimit;
  const auto room = by_limit ? room_for(state, workload, denial.account, denial.used + denial.requested) : std::nullopt;
  Explained found{admission::explain_denial(denial, workload.book, running, room,
                                            [&](const auto& device) { return gpu_of(state, device); })};
  add_largest_holder(state, workload, denial, found);
  // Owners may only lower what is theirs.
  const auto holder = state.registry.named(room ? room->promise.name : "", workload.owner);
  const bool lowers_own =
      found.fix.changes == admission::Changes::kGuarantee && holder && (*holder)->owner == workload.owner;
  found.fix_is_operators =
      found.fix.changes != admission::Changes::kNothing && !lowers_own && !machine::is_operator(workload.owner);
  return found;
}

}  // namespace

bool report(const NodeState& state, const Workload& workload, Event event, Events& events) {
  const auto& taken_up = state.changes.started;
  const bool new_here = std::find(taken_up.begin(), taken_up.end(), workload.path) != taken_up.end();
  if (new_here && state.options.recorded(event)) return false;
  events.push_back(std::move(event));
  return true;
}

void report_started(const NodeState& state, const Workload& workload, Events& events) {
  std::vector<Bytes> limits;
  for (const auto& account : workload.book.accounts) limits.push_back(account.limit);
  Event event = started_event(event_subject(state, workload), limits);
  event.time = history::to_ms(workload.book.created_ns);
  event.pid = workload.book.creator.pid;
  report(state, workload, std::move(event), events);
}

Event denial_event(const NodeState& state, const Workload& workload, const book::Denial& denial, bool running) {
  Explained why = explained(state, workload, denial, running);
  DeniedRequest denied{std::move(why.id), denial.reason, std::move(why.because), std::move(why.not_because),
                       denial.function};
  denied.requested = denial.requested;
  denied.used = denial.used;
  denied.limit = denial.limit;
  if (denial.device_free != book::kUnknownBytes) denied.device_free = Bytes{denial.device_free};
  denied.waited_ns = denial.waited_ns;
  denied.held_back_from = held_back_from(state, workload, denial);
  Event event = denied_event(event_subject(state, workload, denial.device), std::move(denied),
                             workload.book.on_deny == book::OnDeny::kWait && denial.waited_ns > 0);
  event.time = history::to_ms(denial.time_ns);
  event.pid = denial.pid;
  event.fix = std::move(why.fix.text);
  event.fix_is_operators = why.fix_is_operators;
  return event;
}

void report_denials(NodeState& state, const Workload& workload, Events& events) {
  auto& demand = state.running[workload.path].demand;
  demand.assign(workload.book.accounts.size(), Bytes{0});
  for (std::size_t account = 0; account < std::min(demand.size(), workload.book.wanted.size()); ++account)
    demand[account] = workload.book.wanted[account];
  for (const book::Denial& denial : workload.book.denials) {
    const std::uint64_t time_ns = std::min(denial.time_ns, state.time_of_day_ns);
    state.recent_denials[workload.book.tenant + "/" + workload.book.name].push_back(state.now_ns -
                                                                                    (state.time_of_day_ns - time_ns));
    report_limit_moves(state, workload, events);
    // What the daemon before this one was asked for was answered then.
    const bool is_new = report(state, workload, denial_event(state, workload, denial, true), events);
    if (is_new && denial.account < demand.size())
      demand[denial.account] = std::max(demand[denial.account], denial.requested);
  }
}

void report_limit_moves(NodeState& state, const Workload& workload, Events& events) {
  for (const LimitMoves::Burst& burst : state.limit_moves.take_for(workload.path))
    report_limit_move(state, workload, burst, events);
}

void report_limit_move(const NodeState& state, const Workload& workload, LimitMoves::Burst burst, Events& events) {
  burst.first_ns = state.time_of_day_at(burst.first_ns), burst.last_ns = state.time_of_day_at(burst.last_ns);
  const auto& device = workload.book.accounts[burst.account.second].device;
  events.push_back(rebalanced_event(event_subject(state, workload, device), burst));
}

std::string fix_now(const NodeState& state, const std::string& denial, const std::string& asker) {
  const auto id = admission::parse_denial_id(denial);
  if (!id) return {};
  for (const auto& [path, workload] : state.registry.workloads()) {
    if (workload.book.run_number != id->run || workload.user != asker) continue;
    for (const book::Denial& each : workload.book.denials)
      if (each.sequence == id->number) {
        const Explained found = explained(state, workload, each);
        return addressed_fix(found.fix.text, found.fix_is_operators);
      }
  }
  return {};
}

}  // namespace ration::node
