#include "history/upkeep.hpp"

#include <fmt/format.h>

#include "history/schema.hpp"

namespace ration::history {

constexpr TimeMs kTrustAfter = 7 * kDayMs;

void roll_up(Database& database, TimeMs recorded_to) {
  for (std::size_t level = 1; level < kResolutions.size(); ++level) {
    const TimeMs width = kResolutions[level].width, finer = kResolutions[level - 1].width;
    const TimeMs until = recorded_to / width * width;
    const std::string name = fmt::format("rolled_{}", level);
    const std::int64_t done = read_mark(database, name);
    if (until <= done) continue;
    // A point without duration (a run's first instant) has a maximum, but no weight in the average.
    Statement(
        database,
        "INSERT OR REPLACE INTO points SELECT ?1, slot / ?2, line, max(maximum),"
        "CASE sum(ms) WHEN 0 THEN max(average) ELSE CAST(sum(average * 1.0 * ms) / sum(ms) AS INTEGER) END,"
        "sum(ms), max(limited) FROM points WHERE level = ?3 AND slot >= ?4 AND slot < ?5 GROUP BY slot / ?2, line")
        .with(static_cast<std::int64_t>(level), width / finer, static_cast<std::int64_t>(level) - 1, done / finer,
              until / finer)
        .done();
    Statement(database, "INSERT OR REPLACE INTO marks VALUES(?, ?)").with(name, until).done();
  }
}

void prune(Database& database, TimeMs now, TimeMs usage_kept) {
  for (std::size_t level = 0; level < kResolutions.size(); ++level) {
    const TimeMs kept = level + 1 < kResolutions.size() ? kResolutions[level].kept : usage_kept;
    Statement(database, "DELETE FROM points WHERE level = ? AND slot < ?")
        .with(static_cast<std::int64_t>(level), (now - kept) / kResolutions[level].width)
        .done();
  }
  Statement(database, "DELETE FROM events WHERE time < ?").with(now - kEventsKept).done();
  Statement(database, "DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ?").with(kMaxEvents).done();

  const std::int64_t hour = (now - usage_kept) / kHourMs;
  const TimeMs cut = hour * kHourMs;
  Statement(database, "DELETE FROM usage WHERE hour < ?").with(hour).done();
  Statement(database, "DELETE FROM device_hours WHERE hour < ?").with(hour).done();
  Statement(database, "DELETE FROM gaps WHERE ends <= ?").with(cut).done();
  // The spans must agree with the remaining hours, and readers take `kept_from` as the beginning of the spans.
  Statement(database, "DELETE FROM spans WHERE ends <= ?").with(cut).done();
  Statement(database, "INSERT OR REPLACE INTO marks VALUES('kept_from', ?)").with(cut).done();
  for (const char* table : {"levels", "run_devices"}) {
    Statement(database,
              fmt::format("DELETE FROM {} WHERE run IN (SELECT run FROM run_devices GROUP BY run HAVING max(last) < ?)",
                          table))
        .with(cut)
        .done();
  }
  // The run with the newest number stays, so that the number is never given again.
  Statement(database,
            "DELETE FROM runs WHERE id NOT IN (SELECT run FROM run_devices) AND ifnull(ended, started) < ?"
            " AND id < (SELECT max(id) FROM runs)")
      .with(cut)
      .done();
}

void Upkeep::load(Database& database) { prune_from_ = read_mark(database, "prune_from"); }

void Upkeep::note_gap(TimeMs from, TimeMs to) {
  if (to - from > kTrustAfter) prune_from_ = to + kTrustAfter;
}

void Upkeep::step(Database& database, TimeMs recorded_to) const {
  Statement(database, "INSERT OR REPLACE INTO marks VALUES('prune_from', ?)").with(prune_from_).done();
  roll_up(database, recorded_to);
  if (recorded_to / kHourMs != pruned_hour_ && recorded_to >= prune_from_) prune(database, recorded_to, usage_kept_);
}

void Upkeep::note_done(TimeMs recorded_to) { pruned_hour_ = recorded_to / kHourMs; }

}  // namespace ration::history
