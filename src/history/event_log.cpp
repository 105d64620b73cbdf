#include "history/event_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "history/amount.hpp"

namespace ration::history {

void store_events(Database& database, std::vector<Event>& events) {
  Statement insert(
      database,
      "INSERT INTO events(time, type, workload, tenant, user, gpu, pid, bytes, denial, actor, message, old,"
      "new, fix, why, count, first) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id");
  for (Event& event : events) {
    insert.with(event.time, event.type, event.workload, event.tenant, event.user, event.gpu, event.pid, event.bytes,
                event.denial, event.by, event.text, event.old_value, event.new_value, event.fix, event.why, event.count,
                event.first_time);
    if (insert.row()) event.id = insert.integer(0);
    insert.with();  // lets go of the row
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
  constexpr std::size_t kAtOnce = 500;  // the disk may still be full: not all of them are tried for nothing
  while (!kept_.empty()) {
    const auto end = kept_.begin() + static_cast<std::ptrdiff_t>(std::min(kept_.size(), kAtOnce));
    std::vector<Event> events(kept_.begin(), end);
    if (auto stored = store(events); !stored) return stored;
    kept_.erase(kept_.begin(), end);
    std::move(events.begin(), events.end(), std::back_inserter(late_));
  }
  if (lost_.count == 0) return {};
  std::vector<Event> told{plain_event(
      "daemon", fmt::format("{} events from {} to {} are lost: the history could not be written, and {} older ones "
                            "waited for that already",
                            lost_.count, rfc3339(lost_.from), rfc3339(lost_.to), kMaxKept))};
  told.front().time = lost_.to;
  if (auto stored = store(told); !stored) return stored;
  lost_ = {};
  late_.push_back(std::move(told.front()));
  return {};
}

}  // namespace ration::history
