// What happened on the node, as rules and commands tell it: its type and its facts, and the sentence that people read
// (event_text.hpp has all of them). Whoever judges an event asks its type and facts, never its sentence.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/message.hpp"
#include "book/terms.hpp"
#include "history/sample.hpp"

namespace ration::node {

enum class EventType {
  kAlert,
  kConfig,
  kDaemon,
  kDenied,
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

/// As the record, the API and people have it: `guard_lost`.
[[nodiscard]] const char* name_of(EventType type);
/// All of them, in alphabetical order.
[[nodiscard]] std::vector<std::string> event_type_names();
/// Absent: no event is of such a type.
[[nodiscard]] std::optional<EventType> event_type(std::string_view name);

/// A request for memory that was denied.
struct DeniedRequest {
  std::string id;  ///< `d-17-3`
  book::DenialReason reason{};
  std::string because, not_because, function;
  Bytes requested{}, used{}, limit{};
  std::optional<Bytes> device_free{};  ///< absent: the driver did not say
  std::uint64_t waited_ns = 0;
  std::optional<Bytes> held_back_from{};  ///< its limit, where what others are promised lowered it to `limit`
};

struct Event {
  EventType type = EventType::kDaemon;
  history::TimeMs time = 0;  ///< 0: that of the tick that tells it
  std::string workload, tenant, user;
  std::optional<std::int64_t> gpu, pid, bytes;
  std::string by, old_value, new_value;
  Message text;
  std::string fix;                        ///< something to type
  bool fix_is_operators = false;          ///< the workload's owner may not type that
  std::int64_t count = 1;                 ///< of a burst that is told as one; `time` is the last one's
  history::TimeMs first_time = 0;         ///< the first one's; 0: `time`
  std::optional<DeniedRequest> denied{};  ///< of kDenied, and of kWaited where it was denied after all
  std::string lease{};                    ///< `q-5`: the event is about that lease
  bool of_schedule = false;               ///< a schedule was changed, or changed something
};

using Events = std::vector<Event>;

/// As the history keeps it: what has no column of its own is JSON in `why`.
[[nodiscard]] history::Event to_record(const Event& event);

/// What `why` of a recorded event says beside why something was denied.
struct RecordedFacts {
  std::string lease;
  bool of_schedule = false;
  std::string operators_fix;  ///< `fix`, for those who may type it; empty: `fix` is for everybody
};
[[nodiscard]] RecordedFacts facts_of(const history::Event& event);

}  // namespace ration::node
