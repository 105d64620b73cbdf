#include "history/schema.hpp"

#include <fmt/format.h>

#include <array>

namespace ration::history {
namespace {

// The steps of the schema. Times are milliseconds since 1970 UTC, amounts byte-milliseconds, `hour` is time /
// 3,600,000. A released step is never edited; a change is a new step at the end.
constexpr std::array kSteps{
    R"sql(
CREATE TABLE marks(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE devices(id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, name TEXT NOT NULL, capacity INTEGER NOT NULL);
CREATE TABLE runs(id INTEGER PRIMARY KEY, number INTEGER NOT NULL, started INTEGER NOT NULL, workload TEXT NOT NULL,
  tenant TEXT NOT NULL, user TEXT NOT NULL, labels TEXT NOT NULL, ended INTEGER, exit_code INTEGER,
  UNIQUE(number, started));
CREATE INDEX runs_by_workload ON runs(workload, started);

-- Who held what: one row for each hour, run and device.
CREATE TABLE usage(hour INTEGER, run INTEGER, device INTEGER, ms INTEGER NOT NULL, used INTEGER NOT NULL,
  limited INTEGER NOT NULL, guaranteed INTEGER NOT NULL, held INTEGER NOT NULL, peak INTEGER NOT NULL,
  denials INTEGER NOT NULL, PRIMARY KEY(hour, run, device)) WITHOUT ROWID;

-- What the devices had: one row for each hour and device. governed is the sum of usage.used, entered apart from it.
CREATE TABLE device_hours(hour INTEGER, device INTEGER, observed_ms INTEGER NOT NULL, gap_ms INTEGER NOT NULL,
  capacity INTEGER NOT NULL, gap INTEGER NOT NULL, governed INTEGER NOT NULL, ungoverned INTEGER NOT NULL,
  unexplained INTEGER NOT NULL, ungoverned_peak INTEGER NOT NULL, PRIMARY KEY(hour, device)) WITHOUT ROWID;

-- From when until when a device was watched, gaps included.
CREATE TABLE spans(device INTEGER, begins INTEGER, ends INTEGER NOT NULL, PRIMARY KEY(device, begins)) WITHOUT ROWID;
CREATE TABLE gaps(begins INTEGER PRIMARY KEY, ends INTEGER NOT NULL);

-- The last sample, so that a restart goes on where the killed daemon stood.
CREATE TABLE last_devices(device INTEGER PRIMARY KEY, begins INTEGER NOT NULL, capacity INTEGER NOT NULL,
  driver_used INTEGER NOT NULL, ungoverned INTEGER NOT NULL, unexplained INTEGER NOT NULL);
CREATE TABLE last_holdings(run INTEGER, device INTEGER, used INTEGER NOT NULL, limited INTEGER NOT NULL,
  guaranteed INTEGER NOT NULL, workload_line INTEGER NOT NULL, tenant_line INTEGER NOT NULL,
  PRIMARY KEY(run, device)) WITHOUT ROWID;

-- One run on one device as a whole, and how long it held at least so many steps of 256 MiB.
CREATE TABLE run_devices(run INTEGER, device INTEGER, first INTEGER NOT NULL, last INTEGER NOT NULL,
  peak INTEGER NOT NULL, denials INTEGER NOT NULL, limited INTEGER NOT NULL, guaranteed INTEGER NOT NULL,
  PRIMARY KEY(run, device)) WITHOUT ROWID;
CREATE TABLE levels(run INTEGER, device INTEGER, step INTEGER, ms INTEGER NOT NULL,
  PRIMARY KEY(run, device, step)) WITHOUT ROWID;

-- Charts: kind 0 device, 1 tenant, 2 workload; slot is time / the level's width.
CREATE TABLE lines(id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, name TEXT NOT NULL, device INTEGER NOT NULL,
  UNIQUE(kind, name, device));
CREATE TABLE points(level INTEGER, slot INTEGER, line INTEGER, maximum INTEGER NOT NULL, average INTEGER NOT NULL,
  ms INTEGER NOT NULL, limited INTEGER NOT NULL, PRIMARY KEY(level, slot, line)) WITHOUT ROWID;

CREATE TABLE events(id INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER NOT NULL, type TEXT NOT NULL,
  workload TEXT NOT NULL, tenant TEXT NOT NULL, user TEXT NOT NULL, gpu INTEGER, pid INTEGER, bytes INTEGER,
  denial TEXT NOT NULL, actor TEXT NOT NULL, message TEXT NOT NULL, old TEXT NOT NULL, new TEXT NOT NULL,
  fix TEXT NOT NULL, why TEXT NOT NULL);
CREATE INDEX events_by_time ON events(time);
CREATE INDEX events_by_denial ON events(denial) WHERE denial <> '';

CREATE TABLE periods(name TEXT PRIMARY KEY, closed INTEGER NOT NULL, seal TEXT NOT NULL, lines TEXT NOT NULL);
CREATE TABLE adjustments(id INTEGER PRIMARY KEY AUTOINCREMENT, period TEXT NOT NULL, made INTEGER NOT NULL,
  tenant TEXT NOT NULL, workload TEXT NOT NULL, byte_seconds TEXT NOT NULL, reason TEXT NOT NULL,
  actor TEXT NOT NULL);
-- What has been sealed stays as it is, whoever writes to this file.
CREATE TRIGGER periods_stay BEFORE UPDATE ON periods BEGIN SELECT RAISE(ABORT, 'a closed period is never changed'); END;
CREATE TRIGGER periods_remain BEFORE DELETE ON periods BEGIN SELECT RAISE(ABORT, 'a closed period is never removed'); END;
CREATE TRIGGER adjustments_stay BEFORE UPDATE ON adjustments BEGIN SELECT RAISE(ABORT, 'an adjustment is never changed'); END;
CREATE TRIGGER adjustments_remain BEFORE DELETE ON adjustments BEGIN SELECT RAISE(ABORT, 'an adjustment is never removed'); END;
)sql",
    R"sql(
-- A burst that is told as one event: how many, and when the first was (0: at its time).
ALTER TABLE events ADD COLUMN count INTEGER NOT NULL DEFAULT 1;
ALTER TABLE events ADD COLUMN first INTEGER NOT NULL DEFAULT 0;
)sql",
    R"sql(
-- A hash of the command line, by which runs of one program are known again; 0: not known. The line itself may hold
-- what is nobody's business.
ALTER TABLE runs ADD COLUMN command INTEGER NOT NULL DEFAULT 0;
)sql",
    R"sql(
-- Events that are found again by the time of their book, which the clock had passed when it was set back.
CREATE INDEX events_by_first ON events(first) WHERE first <> 0;
)sql",
    R"sql(
-- The id and the arguments of which `message` is the English; empty: it is a text alone.
ALTER TABLE events ADD COLUMN message_json TEXT NOT NULL DEFAULT '';
)sql",
    R"sql(
-- From here on the rows of usage, run_devices and last_holdings with device 0 are of pinned host memory. A run without
-- them is one whose pinned memory was not counted.
)sql"};

}  // namespace

int newest_schema() { return static_cast<int>(kSteps.size()); }

Result<void> migrate(Database& database, const std::string& path) {
  std::int64_t version = 0;
  {
    Statement asked(database, "PRAGMA user_version");
    if (asked.row()) version = asked.integer(0);
  }
  RATION_TRY(database.outcome());
  if (version > newest_schema()) {
    return fail("E1911",
                fmt::format("{} was written by a newer ration (schema {}, this one reads 1-{}).", path, version,
                            newest_schema()),
                "Update ration, or give this daemon another folder: ration serve --state FOLDER", 1);
  }
  for (; version < newest_schema(); ++version) {
    database.run("BEGIN IMMEDIATE");
    database.run(kSteps[static_cast<std::size_t>(version)]);
    database.run(fmt::format("PRAGMA user_version = {}; COMMIT", version + 1).c_str());
    if (auto good = database.outcome(); !good) {
      database.run("ROLLBACK");
      (void)database.outcome();
      return good;
    }
  }
  return {};
}

std::int64_t read_mark(Database& database, const std::string& name) {
  Statement asked(database, "SELECT value FROM marks WHERE name = ?");
  return asked.with(name).row() ? asked.integer(0) : 0;
}

}  // namespace ration::history
