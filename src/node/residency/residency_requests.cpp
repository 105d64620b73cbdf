#include "node/residency/residency_requests.hpp"

#include <fmt/format.h>

#include "base/say.hpp"
#include "book/status_message.hpp"
#include "book/store_limits.hpp"
#include "node/residency/residency.hpp"

namespace ration::node {

namespace {

Result<const Workload*> workload_for(const NodeState& state, const std::string& name, const Caller& caller) {
  const auto named = state.registry.named(name, caller.user);
  if (!named) return named;
  const Workload* workload = *named;
  if (!caller.is_operator && !(caller.user && *caller.user == workload->owner))
    return fail("E1502", fmt::format("you may not change workload {} (owner {}).", workload->book.name, workload->user),
                "Ask root or a member of group ration, or change your own: ration ps", 5);
  return workload;
}

}  // namespace

Result<void> suspend(NodeState& state, const std::string& name, const Caller& caller, Events& events) {
  RATION_TRY(const auto workload, workload_for(state, name, caller));
  RATION_TRY(begin_suspension(state, *workload, true));
  events.push_back(suspending_event(event_subject(state, *workload), caller.name));
  return {};
}

Result<void> resume(NodeState& state, const std::string& name, const Caller& caller) {
  RATION_TRY(const auto workload, workload_for(state, name, caller));
  if (!state.suspension.request_resume(workload->path, asked_to_resume_text(caller.name)))
    return fail("E1546", fmt::format("{} is not suspended.", workload->book.name), "ration ps", 4);
  if (OwnedWorkload* owned = state.limits.find(workload->path); owned != nullptr) {
    owned->held_by_person = false;  // a daemon that starts now resumes it
    state.limits.changed();
  }
  return {};
}

Result<void> trim(NodeState& state, const std::string& name, const Caller& caller) {
  RATION_TRY(const auto workload, workload_for(state, name, caller));
  if (const auto status = book::request_trim(workload->descriptor, workload->owner); status != book::BookStatus::kOk)
    return fail("E1411",
                say<"book.unchangeable">("workload"_is(workload->book.name), "reason"_is(book::message_of(status))),
                "ration doctor");
  begin_trim(state, *workload, caller.name);
  return {};
}

}  // namespace ration::node
