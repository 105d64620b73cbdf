#include "history/names.hpp"

#include <set>

namespace ration::history {

void Names::load(Database& database) {
  Statement numbers(database,
                    "SELECT (SELECT ifnull(max(id), 0) FROM runs), (SELECT ifnull(max(id), 0) FROM devices),"
                    "(SELECT ifnull(max(id), 0) FROM lines)");
  if (numbers.row()) last_run_ = numbers.integer(0), last_device_ = numbers.integer(1), last_line_ = numbers.integer(2);
  Statement devices(database, "SELECT id, uuid, name, capacity FROM devices");
  while (devices.row()) devices_[devices.text(1)] = {devices.integer(0), devices.integer(3), devices.text(2), true};
  Statement runs(database,
                 "SELECT id, number, started, workload, tenant, user, labels, command FROM runs "
                 "WHERE id IN (SELECT run FROM last_holdings)");
  while (runs.row()) {
    Run run;
    run.id = runs.integer(0);
    run.stored = true;
    run.facts.run = {static_cast<std::uint64_t>(runs.integer(1)), runs.integer(2)};
    run.facts.workload = runs.text(3), run.facts.tenant = runs.text(4), run.facts.user = runs.text(5);
    run.facts.labels = runs.text(6), run.facts.command = static_cast<std::uint64_t>(runs.integer(7));
    runs_[run.facts.run] = std::move(run);
  }
  Statement lines(database, "SELECT id, kind, name, device FROM lines");
  while (lines.row())
    lines_[{static_cast<int>(lines.integer(1)), lines.text(2), lines.integer(3)}] = {lines.integer(0), true};
}

std::int64_t Names::device(const DeviceSample& device) {
  Device& known = devices_[device.uuid];
  if (known.id == 0) known.id = ++last_device_;
  const auto capacity = static_cast<std::int64_t>(device.capacity.count());
  if (known.name != device.name || known.capacity != capacity) {
    known.name = device.name, known.capacity = capacity;
    known.stored = false;
  }
  return known.id;
}

const Names::Run& Names::run(Database& database, const WorkloadSample& workload) {
  Run& run = runs_[workload.run];
  if (run.id != 0) return run;
  run.facts = workload;
  // The run may be stored already, from before an interruption.
  Statement asked(database, "SELECT id, workload, tenant, user, labels FROM runs WHERE number = ? AND started = ?");
  asked.with(static_cast<std::int64_t>(workload.run.number), workload.run.started);
  run.stored = asked.row();
  if (run.stored) {
    run.id = asked.integer(0);
    run.facts.workload = asked.text(1), run.facts.tenant = asked.text(2), run.facts.user = asked.text(3);
    run.facts.labels = asked.text(4);
  } else {
    run.id = ++last_run_;
  }
  return run;
}

std::int64_t Names::line(int kind, const std::string& name, std::int64_t device) {
  Numbered& line = lines_[{kind, name, device}];
  if (line.id == 0) line.id = ++last_line_;
  return line.id;
}

void Names::store(Database& database) const {
  Statement device(database,
                   "INSERT INTO devices VALUES(?, ?, ?, ?) ON CONFLICT(uuid) DO UPDATE SET name = excluded.name,"
                   "capacity = excluded.capacity");
  for (const auto& [uuid, known] : devices_) {
    if (!known.stored) device.with(known.id, uuid, known.name, known.capacity).done();
  }
  Statement run(
      database,
      "INSERT INTO runs(id, number, started, workload, tenant, user, labels, command) VALUES(?, ?, ?, ?, ?, ?, ?, ?)");
  for (const auto& [key, known] : runs_) {
    if (known.stored) continue;
    run.with(known.id, static_cast<std::int64_t>(key.number), key.started, known.facts.workload, known.facts.tenant,
             known.facts.user, known.facts.labels, static_cast<std::int64_t>(known.facts.command))
        .done();
  }
  Statement line(database, "INSERT INTO lines VALUES(?, ?, ?, ?)");
  for (const auto& [name, known] : lines_) {
    if (!known.stored) line.with(known.id, name.kind, name.name, name.device).done();
  }
  Statement ended(database, "UPDATE runs SET ended = ?, exit_code = ? WHERE number = ? AND started = ?");
  for (const auto& end : ended_)
    ended.with(end.time, end.exit_code, static_cast<std::int64_t>(end.run.number), end.run.started).done();
}

void Names::note_stored(const Instant& last) {
  for (auto& [uuid, device] : devices_) device.stored = true;
  for (auto& [name, line] : lines_) line.stored = true;
  std::set<std::int64_t> alive;
  for (const auto& holding : last.holdings) alive.insert(holding.run);
  std::erase_if(runs_, [&](const auto& run) { return !alive.contains(run.second.id); });
  for (auto& [key, run] : runs_) run.stored = true;
  ended_.clear();
}

void Names::note_nothing_stored() {
  for (auto& [key, run] : runs_) run.stored = false;
  for (auto& [uuid, device] : devices_) device.stored = false;
  for (auto& [name, line] : lines_) line.stored = false;
}

}  // namespace ration::history
