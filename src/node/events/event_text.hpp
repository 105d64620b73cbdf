// One function for each event: the function makes the event's sentence from the event's facts. Callers decide what to
// report, and when.
// Promise: every sentence of an event is made here; a problem from elsewhere is quoted.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/message.hpp"
#include "base/result.hpp"
#include "base/toml_document.hpp"
#include "config/alerts.hpp"
#include "config/configuration.hpp"
#include "machine/process_origin.hpp"
#include "node/events/event.hpp"

namespace ration::node {

struct UngovernedView;

/// The workload and GPU that an event is about.
struct EventSubject {
  std::string workload, tenant, user;
  std::optional<int> gpu;

  [[nodiscard]] std::string name() const { return tenant + "/" + workload; }
};

// Start, requests and end of a workload.
[[nodiscard]] Event started_event(const EventSubject& subject, const std::vector<Bytes>& limits);
/// Reports the end of a workload. `exit_status` is absent if the program's end was not seen.
[[nodiscard]] Event ended_event(const EventSubject& subject, std::optional<int> exit_status, Bytes peak);
/// Reports a denied request; `waited` is true if it was denied after a wait.
[[nodiscard]] Event denied_event(const EventSubject& subject, DeniedRequest denied, bool waited);
/// Returns the fix, worded for the workload's owner; `is_operators`: only an operator may do it.
[[nodiscard]] std::string addressed_fix(const std::string& fix, bool is_operators);
struct WaitFacts {
  std::uint64_t length_ns = 0;
  Bytes wanted, used, limit;
  std::int64_t count = 1;       ///< number of waits since the last report
  std::uint64_t within_ns = 0;  ///< time since the first of these waits
};
[[nodiscard]] Event waited_event(const EventSubject& subject, const WaitFacts& wait);

// Limits.
struct LimitChangeFacts {
  struct Amounts {
    Bytes before, after;
  };
  std::optional<Amounts> limit, guarantee, host_limit;  ///< absent if not requested
  std::optional<int> gpu;
  Bytes over;  ///< usage beyond the new limit
  std::string by;
};
[[nodiscard]] Event resized_event(const EventSubject& subject, const LimitChangeFacts& change);
/// A change of a tenant's limit or guarantee, by a person or by a schedule.
struct TenantChange {
  std::string tenant, what;  ///< `what` is `limit` or `guarantee`
  std::string old_text, new_text, by;
  struct Over {
    int gpu = 0;
    Bytes used, limit;
  };
  std::vector<Over> over{};  ///< devices on which usage exceeds the new limit
  bool by_schedule = false;
};
[[nodiscard]] Event tenant_resized_event(const TenantChange& change);
/// Moves of a limit in force, combined into one event. The times are those of the wall clock.
struct LimitMoveFacts {
  Bytes from, to;
  Message reason;  ///< reason for the last move
  std::uint64_t count = 0, first_ns = 0, last_ns = 0;
};
[[nodiscard]] Event rebalanced_event(const EventSubject& subject, const LimitMoveFacts& burst);
/// The memory of a workload that holds more than its limit.
struct ShrinkingFacts {
  Bytes used, limit, movable, pooled, context;
};
[[nodiscard]] Event shrinking_event(const EventSubject& subject, const ShrinkingFacts& held);
[[nodiscard]] Event under_limit_event(const EventSubject& subject);
/// Reports a guarantee that cannot be kept: after a resume if `was_suspended`, else from the start.
[[nodiscard]] Event no_guarantee_event(const EventSubject& subject, Bytes guarantee, bool was_suspended,
                                       const Error& why);
[[nodiscard]] Event soft_limit_event(const std::string& tenant, int gpu, Bytes used, Bytes limit, double percent);

// Trim, suspension and resumption.
/// Reports an idle workload. `not_suspended` says why a suspension failed; null if the policy's action has begun.
[[nodiscard]] Event idle_event(const EventSubject& subject, config::IdleAction action, const Message& reason,
                               const Error* not_suspended);
[[nodiscard]] Event trimmed_event(const EventSubject& subject, Bytes returned, Bytes before, const std::string& by);
/// Reports that the daemon keeps no copy of a run's recording, so that only its user has the file. If `keep` is set,
/// the reason is that the file has more than `keep` bytes, the most that are kept for each user. Otherwise the file is
/// no recording, or cannot be kept.
[[nodiscard]] Event recording_left_event(const EventSubject& subject, const std::string& file,
                                         std::optional<Bytes> keep);
[[nodiscard]] Event suspending_event(const EventSubject& subject, const std::string& by);
/// A suspension that lets another waiting workload continue.
struct GivesWayFacts {
  std::string to;
  int gpu = 0;
  std::size_t waiting = 0;  ///< number of workloads that wait on that device
  Bytes freed;
};
/// Reports a suspension for a waiting workload. `failed` is null if the suspension has begun.
[[nodiscard]] Event gives_way_event(const EventSubject& subject, const GivesWayFacts& way, const Error* failed);
/// Returns the reason why a workload that made room for `to` asks to resume.
[[nodiscard]] Message gave_way_text(const std::string& to);
[[nodiscard]] Message asked_to_resume_text(const std::string& by);
[[nodiscard]] Event suspended_event(const EventSubject& subject, Bytes moved);
[[nodiscard]] Event not_suspended_event(const EventSubject& subject, const Error& why);
[[nodiscard]] Event resuming_event(const EventSubject& subject, const Message& reason);
[[nodiscard]] Event resumed_event(const EventSubject& subject, bool by_somebody_else = false);
[[nodiscard]] Event not_resumed_event(const EventSubject& subject, const Error& why);

// Violations and ungoverned use.
/// A number in a book whose value the daemon determines.
enum class OwnedNumber : std::uint8_t { kLimit, kGuarantee, kHostLimit };
/// Says that the book has another value of `number`.
[[nodiscard]] Message other_number(OwnedNumber number);
/// Reports that the daemon restored a number: a user had changed the number with `ration set` while no daemon ran,
/// without the right to do so.
[[nodiscard]] Event put_back_event(const EventSubject& subject, OwnedNumber number, Bytes found, Bytes owned);
[[nodiscard]] Event tampered_event(const EventSubject& subject, OwnedNumber number, Bytes found, Bytes owned);
/// Reports a damaged book. `labels` are the workload's labels, which contain the name and the engine of its container.
[[nodiscard]] Event altered_event(const EventSubject& subject, const std::string& labels, const Message& what);
[[nodiscard]] Event grown_event(const EventSubject& subject, Bytes size);
[[nodiscard]] Event beside_book_event(const EventSubject& subject, std::int32_t pid, Bytes by_driver, Bytes by_book);
/// Reports that the user does not belong to the tenant that the book names; the tenant of `subject` is charged instead.
[[nodiscard]] Event wrong_tenant_event(const EventSubject& subject, const std::string& named);
[[nodiscard]] Event ungoverned_event(const UngovernedView& view);
/// Reports an ungoverned process under a policy. `grace_ns` is absent if the process is only reported.
[[nodiscard]] Event no_limit_event(const UngovernedView& view, std::optional<std::uint64_t> grace_ns);
/// Reports that the daemon ends an ungoverned process by `signal`, such as `SIGTERM`. `signal` is null if the process
/// cannot be ended.
[[nodiscard]] Event no_limit_ended_event(const UngovernedView& view, const char* signal);
[[nodiscard]] Event orphaned_event(int gpu, Bytes bytes, const std::string& device_file,
                                   const std::vector<machine::Opener>& openers);

// Limits that cannot be enforced.
[[nodiscard]] Event book_unreadable_event(const EventSubject& subject, const Message& why);
[[nodiscard]] Event book_unwritable_event(const EventSubject& subject, const Error& why);
[[nodiscard]] Event limit_unwritable_event(const std::string& book);
[[nodiscard]] Event driver_limits_event(const Message& problem);

// The queue.
struct QueuedFacts {
  std::string lease;
  std::string name;  ///< name of the future workload; empty if unknown
  Bytes bytes;       ///< bytes that it waits for on each GPU
};
[[nodiscard]] Event queued_event(const EventSubject& subject, const QueuedFacts& lease, const Message& reason);
/// Reports that a lease left the queue without a grant.
[[nodiscard]] Event dequeued_event(const EventSubject& subject, const QueuedFacts& lease, std::uint64_t waited_ns,
                                   const Message& reason);
/// Reports a grant. `passed` names the lease that the granted one overtook; empty if there is none.
[[nodiscard]] Event granted_event(const EventSubject& subject, const QueuedFacts& lease, const std::vector<int>& gpus,
                                  const Message& passed);

// The configuration.
[[nodiscard]] Event config_event(Message text);  ///< `text` is a complete sentence
[[nodiscard]] Event config_broken_event(const FileProblem& problem);
[[nodiscard]] Event config_rejected_event(const Error& why);
[[nodiscard]] Event config_changed_event(const std::vector<std::string>& lines);
struct ScheduleFacts {
  std::string name, days, when;
  std::map<std::string, std::string> limits;  ///< by tenant
};
[[nodiscard]] Event schedule_set_event(const ScheduleFacts& schedule, const std::string& by);
[[nodiscard]] Event schedule_removed_event(const std::string& name, const std::string& by);
/// Reports a granted claim; `limits` are by GPU.
[[nodiscard]] Event claim_granted_event(const std::string& claim, const std::string& tenant,
                                        const std::map<int, Bytes>& limits);
[[nodiscard]] Event claim_released_event(const std::string& claim, const std::string& tenant);
[[nodiscard]] Event alert_event(const config::AlertChange& change);

// The daemon.
[[nodiscard]] Event daemon_event(Message text);  ///< `text` is a complete sentence that another part of the daemon made
[[nodiscard]] Event daemon_started_event(const std::string& version, std::int32_t pid);
[[nodiscard]] Event daemon_ended_event();
[[nodiscard]] Event daemon_unreachable_event(const Message& problem);
[[nodiscard]] Event devices_lost_event(const Error& why);
[[nodiscard]] Event gap_event(std::uint64_t length_ns);
[[nodiscard]] Event clock_back_event(std::uint64_t length_ns);
/// Reports excess events; `dropped` counts them by type.
[[nodiscard]] Event flood_event(const std::string& user, const std::map<EventType, std::size_t>& dropped);

}  // namespace ration::node
