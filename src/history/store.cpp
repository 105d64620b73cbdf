#include "history/store.hpp"

#include "history/schema.hpp"

namespace ration::history {

void store_sums(Database& database, const Pending& pending) {
  Statement usage(
      database,
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
  Statement device(database,
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
  Statement span(database, "INSERT INTO spans VALUES(?, ?, ?) ON CONFLICT DO UPDATE SET ends = excluded.ends");
  for (const auto& [key, ends] : pending.spans) span.with(key.device, key.begins, ends).done();
  Statement gap(database, "INSERT INTO gaps VALUES(?, ?) ON CONFLICT DO UPDATE SET ends = excluded.ends");
  for (const auto& [begins, ends] : pending.gaps) gap.with(begins, ends).done();

  Statement run(database,
                "INSERT INTO run_devices VALUES(?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET last = excluded.last,"
                "peak = max(peak, excluded.peak), denials = denials + excluded.denials, limited = excluded.limited,"
                "guaranteed = excluded.guaranteed");
  for (const auto& [key, row] : pending.runs)
    run.with(key.run, key.device, row.first, row.last, row.peak, row.denials, row.limited, row.guaranteed).done();
  Statement level(database, "INSERT INTO levels VALUES(?, ?, ?, ?) ON CONFLICT DO UPDATE SET ms = ms + excluded.ms");
  for (const auto& [key, ms] : pending.levels) level.with(key.run, key.device, key.step, ms).done();

  // The samples of one second may be in two commits. The second's average is rounded to whole bytes, since only charts
  // use it.
  Statement point(database,
                  "INSERT INTO points VALUES(0, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                  "maximum = max(maximum, excluded.maximum), limited = max(limited, excluded.limited),"
                  "average = CASE ms + excluded.ms WHEN 0 THEN 0 ELSE "
                  "(average * ms + excluded.average * excluded.ms) / (ms + excluded.ms) END, ms = ms + excluded.ms");
  for (const auto& [key, row] : pending.points) {
    const std::int64_t average = row.ms == 0 ? 0 : static_cast<std::int64_t>(row.sum / row.ms);
    point.with(key.slot, key.line, row.maximum, average, row.ms, row.limited).done();
  }
}

void store_last(Database& database, const Instant& last) {
  database.run("DELETE FROM last_devices; DELETE FROM last_holdings");
  Statement device(database, "INSERT INTO last_devices VALUES(?, ?, ?, ?, ?, ?)");
  for (const auto& now : last.devices)
    device.with(now.device, now.begins, now.capacity, now.driver_used, now.ungoverned, now.unexplained).done();
  Statement holding(database, "INSERT OR REPLACE INTO last_holdings VALUES(?, ?, ?, ?, ?, ?, ?)");
  for (const auto& now : last.holdings) {
    holding.with(now.run, now.device, now.used, now.limited, now.guaranteed, now.workload_line, now.tenant_line).done();
  }
  Statement(database, "INSERT OR REPLACE INTO marks VALUES('recorded_to', ?)").with(last.time).done();
}

Instant load_last(Database& database) {
  Instant last;
  last.time = read_mark(database, "recorded_to");
  Statement present(database,
                    "SELECT device, capacity, driver_used, ungoverned, unexplained, begins FROM last_devices");
  while (present.row()) {
    last.devices.push_back({present.integer(0), present.integer(1), present.integer(2), present.integer(3),
                            present.integer(4), present.integer(5)});
  }
  Statement holdings(database,
                     "SELECT run, device, used, limited, guaranteed, workload_line, tenant_line FROM last_holdings");
  while (holdings.row()) {
    last.holdings.push_back({holdings.integer(0), holdings.integer(1), holdings.integer(2), holdings.integer(3),
                             holdings.integer(4), holdings.integer(5), holdings.integer(6)});
  }
  return last;
}

}  // namespace ration::history
