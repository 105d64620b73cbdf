// Events as rules and requests report them: type, facts, and the sentence for people (event_text.hpp). Code that judges
// an event reads its type and facts, never its sentence.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/message.hpp"
#include "book/denial_reason.hpp"
#include "history/sample.hpp"

namespace ration::node {

enum class EventType {
  kAlert,
  kConfig,
  kDaemon,
  kDenied,
  kDequeued,
  kEnded,
  kGap,
  kGranted,
  kGuardLost,
  kIdle,
  kOrphaned,
  kQueued,
  kRebalanced,
  kResized,
  kResumed,
  kResuming,
  kShrinking,
  kStarted,
  kSuspendFailed,
  kSuspended,
  kSuspending,
  kTrimmed,
  kUngoverned,
  kViolation,
  kWaited,
};

/// Returns the name of a type in records, the API and texts, such as `guard_lost`.
[[nodiscard]] const char* name_of(EventType type);
/// Returns all names, in alphabetical order.
[[nodiscard]] std::vector<std::string> event_type_names();
/// Returns the type of that name; nothing for an unknown name.
[[nodiscard]] std::optional<EventType> event_type(std::string_view name);

/// A denied request for memory.
struct DeniedRequest {
  std::string id;  ///< `d-17-3`
  book::DenialReason reason{};
  Message because, not_because;
  std::string function;
  Bytes requested{}, used{}, limit{};
  std::optional<Bytes> device_free{};  ///< absent if unknown
  std::uint64_t waited_ns = 0;
  std::optional<Bytes> held_back_from{};  ///< the configured limit, if guarantees of others lowered it to `limit`
};

struct Event {
  EventType type = EventType::kDaemon;
  history::TimeMs time = 0;  ///< 0 means the time of the tick that reports the event
  std::string workload, tenant, user;
  std::optional<std::int64_t> gpu, pid, bytes;
  std::string by, old_value, new_value;
  Message text;
  std::string fix;                        ///< a command to type
  bool fix_is_operators = false;          ///< true if only an operator may type the command
  std::int64_t count = 1;                 ///< number of events combined into this one; `time` is the time of the last
  history::TimeMs first_time = 0;         ///< time of the first of the combined events; 0 if equal to `time`
  std::optional<DeniedRequest> denied{};  ///< set for kDenied, and for kWaited if the wait ended in a denial
  std::string lease{};                    ///< the lease that the event is about: `q-5`
  bool of_schedule = false;               ///< true if a schedule changed, or made the change
};

using Events = std::vector<Event>;

/// Converts the event into a record of the history. Facts that have no column there go into `why`, as JSON.
[[nodiscard]] history::Event to_record(const Event& event);

/// Facts in `why` of a recorded event, besides the reasons of a denial.
struct RecordedFacts {
  std::string lease;
  bool of_schedule = false;
  std::string operators_fix;  ///< the fix as an operator reads it; empty if the event's fix is for everyone
};
[[nodiscard]] RecordedFacts facts_of(const history::Event& event);

}  // namespace ration::node
