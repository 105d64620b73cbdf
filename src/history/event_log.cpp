#include "history/event_log.hpp"

#include <algorithm>
#include <iterator>

#include "base/say.hpp"
#include "history/amount.hpp"

namespace ration::history {

void store_events(Database& database, std::vector<Event>& events) {
  Statement insert(
      database,
      "INSERT INTO events(time, type, workload, tenant, user, gpu, pid, bytes, denial, actor, message, old,"
      "new, fix, why, count, first, message_json) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
      "RETURNING id");
  for (Event& event : events) {
    insert.with(event.time, event.type, event.workload, event.tenant, event.user, event.gpu, event.pid, event.bytes,
                event.denial, event.by, event.text, event.old_value, event.new_value, event.fix, event.why, event.count,
                event.first_time, event.message);
    if (insert.row()) event.id = insert.integer(0);
    insert.with();  // resets the statement, which releases the row
  }
}

Result<void> EventLog::append(std::vector<Event>& events, const Store& store) {
  auto stored = store_kept(store);
  if (stored && !events.empty()) stored = store(events);
  if (!stored) keep(events);
  return stored;
}

void EventLog::keep(const std::vector<Event>& events) {
  for (const Event& event : events) {
    if (lost_.count == 0 && kept_.size() < kMaxKept) {
      kept_.push_back(event);
      continue;
    }
    if (lost_.count++ == 0) lost_.from = event.time;
    lost_.to = event.time;
  }
}

Result<void> EventLog::store_kept(const Store& store) {
  constexpr std::size_t kAtOnce = 500;  // bounds the work that is lost if the disk is still full
  while (!kept_.empty()) {
    const auto end = kept_.begin() + static_cast<std::ptrdiff_t>(std::min(kept_.size(), kAtOnce));
    std::vector<Event> events(kept_.begin(), end);
    RATION_TRY(store(events));
    kept_.erase(kept_.begin(), end);
    std::move(events.begin(), events.end(), std::back_inserter(late_));
  }
  if (lost_.count == 0) return {};
  std::vector<Event> lost{
      plain_event("daemon", say<"events.lost">("count"_is(lost_.count), "from"_is(rfc3339(lost_.from)),
                                               "to"_is(rfc3339(lost_.to)), "kept"_is(kMaxKept)))};
  lost.front().time = lost_.to;
  RATION_TRY(store(lost));
  lost_ = {};
  late_.push_back(std::move(lost.front()));
  return {};
}

}  // namespace ration::history
