#include "node/limits/denials.hpp"

#include <algorithm>

#include "base/say.hpp"
#include "machine/user_names.hpp"

namespace ration::node {

/// Returns the configured limit if guarantees of others had lowered it at the time of the denial.
std::optional<Bytes> Denials::held_back_from(const Workload& workload, const book::Denial& denial) const {
  const OwnedWorkload* owned = limits_.find(workload.path);
  if (denial.reason != book::DenialReason::kLimit || owned == nullptr || denial.account >= owned->accounts.size())
    return std::nullopt;
  const OwnedLimit& mine = owned->accounts[denial.account];
  if (mine.held_back_by.empty() || denial.limit >= mine.configured) return std::nullopt;
  return mine.configured;
}

// Adds what the book cannot know: the largest holder on the device, and which guarantee lowered the limit.
void Denials::add_largest_holder(const Moment& moment, const Workload& workload, const book::Denial& denial,
                                 admission::DenialExplained& explained) const {
  if (denial.account >= workload.book.accounts.size()) return;
  const auto gpu = gpu_of(moment, workload.book.accounts[denial.account].device);
  if (const auto configured = held_back_from(workload, denial); configured) {
    explained.because =
        say<"denial.held_back">("workload"_is(workload.book.name), "used_bytes"_is(denial.used),
                                "limit_bytes"_is(denial.limit), "configured_bytes"_is(*configured),
                                "reason"_is(limits_.find(workload.path)->accounts[denial.account].held_back_by));
    if (denial.used + denial.requested <= *configured && explained.fix.changes == admission::Changes::kLimit)
      explained.fix = {
          admission::held_back_fix(gpu ? std::to_string(*gpu) : "", admission::has_waited(denial, workload.book))};
  }
  if (denial.reason != book::DenialReason::kDeviceFull || !gpu) return;
  Bytes most;
  Message who;
  for (const AccountView& account : moment.snapshot.accounts)
    if (account.gpu == gpu && account.path != workload.path && account.trusted_usage() > most)
      most = account.trusted_usage(), who = account.tenant + "/" + account.workload;
  for (const UngovernedView& each : moment.snapshot.ungoverned)
    if (each.gpu == *gpu && each.process.driver_used.value_or(Bytes{0}) > most)
      most = *each.process.driver_used, who = say<"denial.ungoverned">("pid"_is(each.process.pid));
  if (most > Bytes{0})
    explained.because =
        say<"denial.largest_holder">("because"_is(explained.because), "who"_is(who), "held_bytes"_is(most));
}

struct Denials::Explained : admission::DenialExplained {
  bool fix_is_operators = false;
};

Denials::Explained Denials::explained(const Moment& moment, const Workload& workload, const book::Denial& denial,
                                      bool running) const {
  const bool by_limit = running && denial.reason == book::DenialReason::kLimit;
  const auto room =
      by_limit ? room_for(moment, balances_, workload, denial.account, denial.used + denial.requested) : std::nullopt;
  Explained found{admission::explain_denial(denial, workload.book, running, room,
                                            [&](const auto& device) { return gpu_of(moment, device); })};
  add_largest_holder(moment, workload, denial, found);
  // An owner may lower the guarantee of another workload of the same owner; any other change needs an operator.
  const auto holder = moment.registry.named(room ? room->promise.name : "", workload.owner);
  const bool lowers_own =
      found.fix.changes == admission::Changes::kGuarantee && holder && (*holder)->owner == workload.owner;
  found.fix_is_operators =
      found.fix.changes != admission::Changes::kNothing && !lowers_own && !machine::is_operator(workload.owner);
  return found;
}

Event Denials::event_of(const Moment& moment, const Workload& workload, const book::Denial& denial,
                        bool running) const {
  Explained why = explained(moment, workload, denial, running);
  DeniedRequest denied{std::move(why.id), denial.reason, std::move(why.because), std::move(why.not_because),
                       denial.function};
  denied.requested = denial.requested;
  denied.used = denial.used;
  denied.limit = denial.limit;
  if (denial.device_free != book::kUnknownBytes) denied.device_free = Bytes{denial.device_free};
  denied.waited_ns = denial.waited_ns;
  denied.held_back_from = held_back_from(workload, denial);
  Event event = denied_event(event_subject(moment, workload, denial.device), std::move(denied),
                             admission::has_waited(denial, workload.book));
  event.time = history::to_ms(denial.time_ns);
  event.pid = denial.pid;
  event.fix = std::move(why.fix.text);
  event.fix_is_operators = why.fix_is_operators;
  return event;
}

std::vector<book::Denial> Denials::report(const Moment& moment, const Workload& workload, Events& events) {
  std::vector<book::Denial> fresh;
  for (const book::Denial& denial : workload.book.denials) {
    report_limit_moves(moment, moves_, workload, events);
    // A denial that an earlier daemon recorded no longer counts as demand.
    if (earlier_.report(moment, workload, event_of(moment, workload, denial, true), events)) fresh.push_back(denial);
  }
  return fresh;
}

std::string Denials::fix_now(const Moment& moment, const std::string& denial, const std::string& asker) const {
  const auto id = admission::parse_denial_id(denial);
  if (!id) return {};
  for (const auto& [path, workload] : moment.registry.workloads()) {
    if (workload.book.run_number != id->run || workload.user != asker) continue;
    for (const book::Denial& each : workload.book.denials)
      if (each.sequence == id->number) {
        const Explained found = explained(moment, workload, each);
        return addressed_fix(found.fix.text, found.fix_is_operators);
      }
  }
  return {};
}

}  // namespace ration::node
