#include "node/residency/residency_requests.hpp"

#include <fmt/format.h>

#include <csignal>

#include "base/say.hpp"
#include "book/status_message.hpp"
#include "book/store_limits.hpp"
#include "machine/process_signals.hpp"

namespace ration::node {

namespace {

Result<const Workload*> workload_for(const Moment& moment, const std::string& name, const Caller& caller) {
  const auto named = moment.registry.named(name, caller.user);
  if (!named) return named;
  const Workload* workload = *named;
  if (!caller.is_operator && !(caller.user && *caller.user == workload->owner))
    return fail("E1502", fmt::format("you may not change workload {} (owner {}).", workload->book.name, workload->user),
                "Ask root or a member of group ration, or name a workload of your own: ration ps   shows them", 5);
  return workload;
}

}  // namespace

Result<void> suspend(const Moment& moment, Residency& residency, const std::string& name, const Caller& caller,
                     Events& events) {
  RATION_TRY(const auto workload, workload_for(moment, name, caller));
  RATION_TRY(residency.begin_suspension(moment, *workload, true));
  events.push_back(suspending_event(event_subject(moment, *workload), caller.name));
  return {};
}

Result<void> resume(const Moment& moment, Residency& residency, const std::string& name, const Caller& caller) {
  RATION_TRY(const auto workload, workload_for(moment, name, caller));
  if (!residency.ask_to_resume(workload->path, asked_to_resume_text(caller.name)))
    return fail("E1546", fmt::format("{} is not suspended.", workload->book.name), "ration ps", 4);
  return {};
}

Result<void> trim(const Moment& moment, Residency& residency, const std::string& name, const Caller& caller) {
  RATION_TRY(const auto workload, workload_for(moment, name, caller));
  if (const auto status = book::request_trim(workload->descriptor, workload->owner); status != book::BookStatus::kOk)
    return fail("E1411",
                say<"book.unchangeable">("workload"_is(workload->book.name), "reason"_is(book::message_of(status))),
                "ration doctor");
  residency.begin_trim(moment, *workload, caller.name);
  return {};
}

Result<void> stop(const Moment& moment, const std::string& name, const Caller& caller, bool kill) {
  RATION_TRY(const auto workload, workload_for(moment, name, caller));
  std::vector<std::int32_t> pids;
  for (const auto& process : workload->book.processes) pids.push_back(process.identity.pid);
  const auto processes =
      machine::with_descendants_of(pids, [&](std::uint32_t user) { return user == workload->owner; });
  if (const auto denied = machine::send_signal(processes, kill ? SIGKILL : SIGTERM))
    return fail("E1502", fmt::format("the daemon may not end pid {}.", *denied), "Run the daemon as root.", 5);
  return {};
}

}  // namespace ration::node
