// The sentences of events: one function an event, from its facts. Used by whatever tells one; what is told, and when,
// is decided there. Promises: no sentence of an event is anywhere else; errors of others are told in their own words.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/message.hpp"
#include "base/result.hpp"
#include "base/toml_document.hpp"
#include "config/alerts.hpp"
#include "machine/process_origin.hpp"
#include "node/events/event.hpp"
#include "node/limits/limit_moves.hpp"
#include "node/residency/idle.hpp"

namespace ration::node {

struct TenantChange;
struct UngovernedView;

/// The workload that an event is about.
struct About {
  std::string workload, tenant, user;
  std::optional<int> gpu;

  [[nodiscard]] std::string name() const { return tenant + "/" + workload; }
};

// A workload begins, asks for memory, and ends.
[[nodiscard]] Event started_event(const About& about, const std::vector<Bytes>& limits);
/// `exit_status` absent: nobody told.
[[nodiscard]] Event ended_event(const About& about, std::optional<int> exit_status, Bytes peak);
/// `waited`: it was denied after a wait.
[[nodiscard]] Event denied_event(const About& about, DeniedRequest denied, bool waited);
/// Why it was denied, and what to do, beyond what its book knows: its limit was lowered for others.
[[nodiscard]] std::string held_back_text(const std::string& workload, Bytes used, Bytes limit, Bytes configured,
                                         const std::string& held_back_by);
[[nodiscard]] std::string largest_holder_text(const std::string& who, Bytes held);
[[nodiscard]] std::string ungoverned_name(std::int32_t pid);
/// As its owner is told it.
[[nodiscard]] std::string addressed_fix(const std::string& fix, bool is_operators);
struct WaitTold {
  std::uint64_t length_ns = 0;
  Bytes wanted, used, limit;
  std::int64_t count = 1;       ///< of waits since the last that was told
  std::uint64_t within_ns = 0;  ///< since the first of them
};
[[nodiscard]] Event waited_event(const About& about, const WaitTold& wait);

// Its limit.
struct LimitChangeTold {
  struct Amounts {
    Bytes before, after;
  };
  std::optional<Amounts> limit, guarantee;  ///< absent: it was not asked for
  std::optional<int> gpu;
  Bytes over;  ///< what it holds beyond the new limit
  std::string by;
};
[[nodiscard]] Event resized_event(const About& about, const LimitChangeTold& change);
[[nodiscard]] Event tenant_resized_event(const TenantChange& change);
[[nodiscard]] Event rebalanced_event(const About& about, const LimitMoves::Burst& burst);
/// It holds more than its limit.
struct ShrinkingTold {
  Bytes used, limit, movable, pooled, context;
};
[[nodiscard]] Event shrinking_event(const About& about, const ShrinkingTold& held);
[[nodiscard]] Event under_limit_event(const About& about);
/// `was_away`: it came back to a device where that cannot be kept any more; else it never could be.
[[nodiscard]] Event no_guarantee_event(const About& about, Bytes guarantee, bool was_away, const Error& why);
[[nodiscard]] Event soft_limit_event(const std::string& tenant, int gpu, Bytes used, Bytes limit, double percent);

// It is asked to give back, and moved.
/// `not_suspended` null: what the policy asks for was begun.
[[nodiscard]] Event idle_event(const About& about, const IdleDecision& decision, const Error* not_suspended);
[[nodiscard]] Event trimmed_event(const About& about, Bytes returned, Bytes before, const std::string& by);
[[nodiscard]] Event suspending_event(const About& about, const std::string& by);
/// It gives way to another, which waits for memory as it does.
struct GivesWay {
  std::string to;
  int gpu = 0;
  std::size_t waiting = 0;  ///< workloads on that device
  Bytes freed;
};
/// `failed` null: it is being suspended.
[[nodiscard]] Event gives_way_event(const About& about, const GivesWay& way, const Error* failed);
/// What it tells when it asks for its device again.
[[nodiscard]] Message gave_way_text(const std::string& to);
[[nodiscard]] Message asked_to_resume_text(const std::string& by);
[[nodiscard]] Event suspended_event(const About& about, Bytes moved);
[[nodiscard]] Event not_suspended_event(const About& about, const Error& why);
[[nodiscard]] Event resuming_event(const About& about, const Message& because);
[[nodiscard]] Event resumed_event(const About& about, bool by_somebody_else = false);
[[nodiscard]] Event not_resumed_event(const About& about, const Error& why);

// What does not keep to its limit, or is under none.
/// `ration set` changed it while no daemon ran, for a user who may not.
[[nodiscard]] Event put_back_event(const About& about, bool is_guarantee, Bytes found, Bytes owned);
[[nodiscard]] Event tampered_event(const About& about, bool is_guarantee, Bytes found, Bytes owned);
/// `labels`: of a container, its name and engine.
[[nodiscard]] Event altered_event(const About& about, const std::string& labels, const Message& what);
[[nodiscard]] Event grown_event(const About& about, Bytes size);
[[nodiscard]] Event beside_book_event(const About& about, std::int32_t pid, Bytes by_driver, Bytes by_book);
/// Its book names a tenant to whom its user does not belong; that of `about` is charged.
[[nodiscard]] Event wrong_tenant_event(const About& about, const std::string& named);
[[nodiscard]] Event ungoverned_event(const UngovernedView& view);
/// `grace_ns` absent: it is only told.
[[nodiscard]] Event no_limit_event(const UngovernedView& view, std::optional<std::uint64_t> grace_ns);
/// `signal`: `SIGTERM`; null: it cannot be ended.
[[nodiscard]] Event no_limit_ended_event(const UngovernedView& view, const char* signal);
[[nodiscard]] Event orphaned_event(int gpu, Bytes bytes, const std::string& device_file,
                                   const std::vector<machine::Opener>& openers);

// What cannot be enforced.
[[nodiscard]] Event book_unreadable_event(const About& about, const Message& why);
[[nodiscard]] Event book_unwritable_event(const About& about, const Error& why);
[[nodiscard]] Event limit_unwritable_event(const std::string& book);
[[nodiscard]] Event driver_limits_event(const Message& problem);

// The queue.
[[nodiscard]] Event queued_event(const About& about, const std::string& lease, Bytes bytes, const Message& reason);
/// `passed`: whom it was let past; empty: nobody.
[[nodiscard]] Event granted_event(const About& about, const std::string& lease, Bytes bytes,
                                  const std::vector<int>& gpus, const Message& passed);

// The configuration.
[[nodiscard]] Event config_event(Message told);  ///< in its own words
[[nodiscard]] Event config_broken_event(const FileProblem& problem);
[[nodiscard]] Event config_rejected_event(const Error& why);
[[nodiscard]] Event config_changed_event(const std::vector<std::string>& lines);
struct ScheduleTold {
  std::string name, days, when;
  std::map<std::string, std::string> limits;  ///< by tenant
};
[[nodiscard]] Event schedule_set_event(const ScheduleTold& schedule, const std::string& by);
[[nodiscard]] Event schedule_removed_event(const std::string& name, const std::string& by);
/// `limits`: by GPU.
[[nodiscard]] Event claim_granted_event(const std::string& claim, const std::string& tenant,
                                        const std::map<int, Bytes>& limits);
[[nodiscard]] Event claim_returned_event(const std::string& claim, const std::string& tenant);
[[nodiscard]] Event alert_event(const config::AlertChange& change);

// The daemon.
[[nodiscard]] Event daemon_event(Message told);  ///< what others say went wrong, in their own words
[[nodiscard]] Event daemon_started_event(const std::string& version, std::int32_t pid);
[[nodiscard]] Event daemon_ended_event();
[[nodiscard]] Event daemon_unreachable_event(const Message& problem);
[[nodiscard]] Event devices_lost_event(const Error& why);
[[nodiscard]] Event gap_event(std::uint64_t length_ns);
[[nodiscard]] Event clock_back_event(std::uint64_t length_ns);
/// `left_out`: how many of a type.
[[nodiscard]] Event flood_event(const std::string& user, const std::map<EventType, std::size_t>& left_out);

}  // namespace ration::node
