// What History writes: names, sums, the last sample, events.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "history/amount.hpp"
#include "history/history.hpp"

namespace ration::history {

void History::store_names() {
  Statement device(database_,
                   "INSERT INTO devices VALUES(?, ?, ?, ?) ON CONFLICT(uuid) DO UPDATE SET name = excluded.name,"
                   "capacity = excluded.capacity");
  for (const auto& [uuid, known] : devices_) {
    if (!known.stored) device.with(known.id, uuid, known.name, known.capacity).done();
  }
  Statement run(
      database_,
      "INSERT INTO runs(id, number, started, workload, tenant, user, labels, command) VALUES(?, ?, ?, ?, ?, ?, ?, ?)");
  for (const auto& [key, known] : runs_) {
    if (known.stored) continue;
    run.with(known.id, static_cast<std::int64_t>(key.number), key.started, known.facts.workload, known.facts.tenant,
             known.facts.user, known.facts.labels, static_cast<std::int64_t>(known.facts.command))
        .done();
  }
  Statement line(database_, "INSERT INTO lines VALUES(?, ?, ?, ?)");
  for (const auto& [name, known] : lines_) {
    if (!known.stored) line.with(known.id, name.kind, name.name, name.device).done();
  }
  Statement ended(database_, "UPDATE runs SET ended = ?, exit_code = ? WHERE number = ? AND started = ?");
  for (const auto& end : ended_)
    ended.with(end.time, end.exit_code, static_cast<std::int64_t>(end.run.number), end.run.started).done();
}

void History::store_sums() {
  const Pending& pending = integrator_.pending();
  Statement usage(
      database_,
      "INSERT INTO usage VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET ms = ms + excluded.ms,"
      "used = used + excluded.used, limited = limited + excluded.limited,"
      "guaranteed = guaranteed + excluded.guaranteed, held = held + excluded.held,"
      "peak = max(peak, excluded.peak), denials = denials + excluded.denials");
  for (const auto& [key, row] : pending.usage) {
    usage
        .with(key.hour, key.run, key.device, row.ms, row.used, row.limited, row.guaranteed, row.held, row.peak,
              row.denials)
        .done();
  }
  Statement device(database_,
                   "INSERT INTO device_hours VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                   "observed_ms = observed_ms + excluded.observed_ms, gap_ms = gap_ms + excluded.gap_ms,"
                   "capacity = capacity + excluded.capacity, gap = gap + excluded.gap,"
                   "governed = governed + excluded.governed, ungoverned = ungoverned + excluded.ungoverned,"
                   "unexplained = unexplained + excluded.unexplained,"
                   "ungoverned_peak = max(ungoverned_peak, excluded.ungoverned_peak)");
  for (const auto& [key, row] : pending.devices) {
    device
        .with(key.hour, key.device, row.observed_ms, row.gap_ms, row.capacity, row.gap, row.governed, row.ungoverned,
              row.unexplained, row.ungoverned_peak)
        .done();
  }
  Statement span(database_, "INSERT INTO spans VALUES(?, ?, ?) ON CONFLICT DO UPDATE SET ends = excluded.ends");
  for (const auto& [key, ends] : pending.spans) span.with(key.device, key.begins, ends).done();
  Statement gap(database_, "INSERT INTO gaps VALUES(?, ?) ON CONFLICT DO UPDATE SET ends = excluded.ends");
  for (const auto& [begins, ends] : pending.gaps) gap.with(begins, ends).done();

  Statement run(database_,
                "INSERT INTO run_devices VALUES(?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET last = excluded.last,"
                "peak = max(peak, excluded.peak), denials = denials + excluded.denials, limited = excluded.limited,"
                "guaranteed = excluded.guaranteed");
  for (const auto& [key, row] : pending.runs)
    run.with(key.run, key.device, row.first, row.last, row.peak, row.denials, row.limited, row.guaranteed).done();
  Statement level(database_, "INSERT INTO levels VALUES(?, ?, ?, ?) ON CONFLICT DO UPDATE SET ms = ms + excluded.ms");
  for (const auto& [key, ms] : pending.levels) level.with(key.run, key.device, key.step, ms).done();

  // A second may come in two commits. The average is of whole bytes: it is for charts, nothing is charged by it.
  Statement point(database_,
                  "INSERT INTO points VALUES(0, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                  "maximum = max(maximum, excluded.maximum), limited = max(limited, excluded.limited),"
                  "average = CASE ms + excluded.ms WHEN 0 THEN 0 ELSE "
                  "(average * ms + excluded.average * excluded.ms) / (ms + excluded.ms) END, ms = ms + excluded.ms");
  for (const auto& [key, row] : pending.points) {
    const std::int64_t average = row.ms == 0 ? 0 : static_cast<std::int64_t>(row.sum / row.ms);
    point.with(key.slot, key.line, row.maximum, average, row.ms, row.limited).done();
  }
}

void History::store_last() {
  const Instant& last = integrator_.last();
  database_.run("DELETE FROM last_devices; DELETE FROM last_holdings");
  Statement device(database_, "INSERT INTO last_devices VALUES(?, ?, ?, ?, ?, ?)");
  for (const auto& now : last.devices)
    device.with(now.device, now.begins, now.capacity, now.driver_used, now.ungoverned, now.unexplained).done();
  Statement holding(database_, "INSERT OR REPLACE INTO last_holdings VALUES(?, ?, ?, ?, ?, ?, ?)");
  for (const auto& now : last.holdings) {
    holding.with(now.run, now.device, now.used, now.limited, now.guaranteed, now.workload_line, now.tenant_line).done();
  }
  Statement mark(database_, "INSERT OR REPLACE INTO marks VALUES(?, ?)");
  mark.with("recorded_to", last.time).done();
  mark.with("prune_from", prune_from_).done();
}

Result<void> History::append(std::vector<Event>& events) {
  auto stored = store_kept();
  if (stored && !events.empty()) stored = store_events(events);
  if (!stored) keep(events);
  return stored;
}

void History::keep(const std::vector<Event>& events) {
  for (const Event& event : events) {
    if (lost_ == 0 && kept_.size() < kMaxKept) {
      kept_.push_back(event);
      continue;
    }
    if (lost_++ == 0) lost_from_ = event.time;
    lost_to_ = event.time;
  }
}

Result<void> History::store_kept() {
  constexpr std::size_t kAtOnce = 500;  // the disk may still be full: not all of them are tried for nothing
  while (!kept_.empty()) {
    const auto end = kept_.begin() + static_cast<std::ptrdiff_t>(std::min(kept_.size(), kAtOnce));
    std::vector<Event> events(kept_.begin(), end);
    if (auto stored = store_events(events); !stored) return stored;
    kept_.erase(kept_.begin(), end);
    std::move(events.begin(), events.end(), std::back_inserter(late_));
  }
  if (lost_ == 0) return {};
  std::vector<Event> told{plain_event(
      "daemon", fmt::format("{} events from {} to {} are lost: the history could not be written, and {} older ones "
                            "waited for that already",
                            lost_, rfc3339(lost_from_), rfc3339(lost_to_), kMaxKept))};
  told.front().time = lost_to_;
  if (auto stored = store_events(told); !stored) return stored;
  lost_ = 0;
  late_.push_back(std::move(told.front()));
  return {};
}

Result<void> History::store_events(std::vector<Event>& events) {
  auto stored = transaction([&] {
    Statement insert(
        database_,
        "INSERT INTO events(time, type, workload, tenant, user, gpu, pid, bytes, denial, actor, message, old,"
        "new, fix, why, count, first) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id");
    for (Event& event : events) {
      insert.with(event.time, event.type, event.workload, event.tenant, event.user, event.gpu, event.pid, event.bytes,
                  event.denial, event.by, event.text, event.old_value, event.new_value, event.fix, event.why,
                  event.count, event.first_time);
      if (insert.row()) event.id = insert.integer(0);
      insert.with();  // lets go of the row
    }
  });
  if (!stored)
    for (Event& event : events) event.id = 0;
  return stored;
}

}  // namespace ration::history
