#include "history/charges.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "history/integrator.hpp"
#include "history/schema.hpp"

namespace ration::history {
namespace {

constexpr std::array<std::pair<Basis, const char*>, 5> kBases{{{Basis::kUsed, "used"},
                                                               {Basis::kLimit, "limit"},
                                                               {Basis::kGuarantee, "guarantee"},
                                                               {Basis::kMaxUsedGuarantee, "max(used,guarantee)"},
                                                               {Basis::kPeak, "peak"}}};

void read_names(Database& database, Charges& charges) {
  Statement devices(database, "SELECT id, uuid, name, capacity FROM devices");
  while (devices.row()) charges.devices[devices.integer(0)] = {devices.text(1), devices.text(2), devices.integer(3)};
  Statement runs(database, "SELECT id, number, started, workload, tenant, user, labels FROM runs");
  while (runs.row()) {
    charges.runs[runs.integer(0)] = {runs.integer(1), runs.integer(2), runs.text(3),
                                     runs.text(4),    runs.text(5),    runs.text(6)};
  }
}

// Use and charge of all runs in one hour of one device.
struct HourOfRuns {
  ByteTime used, charged;
};

struct DeviceHourKey {
  std::int64_t hour, device;
  auto operator<=>(const DeviceHourKey&) const = default;
};

class Collector {
 public:
  Collector(Database& database, const Window& window, Slice slice, Basis basis)
      : database_(database), window_(window), slice_(slice), basis_(basis) {}

  Charges collect() {
    charges_.from = window_.from, charges_.to = window_.to, charges_.sliced = slice_;
    read_names(database_, charges_);
    read_usage();
    read_devices();
    check_coverage();
    Statement gaps(database_, "SELECT begins, ends FROM gaps WHERE ends > ? AND begins < ? ORDER BY begins");
    gaps.with(window_.from, window_.to);
    while (gaps.row()) {
      charges_.gaps.push_back({std::max(gaps.integer(0), window_.from), std::min(gaps.integer(1), window_.to)});
    }
    return std::move(charges_);
  }

 private:
  TimeMs slice_start(std::int64_t hour) const {
    return slice_ == Slice::kDay ? std::max(window_.from, hour * kHourMs / kDayMs * kDayMs) : window_.from;
  }

  // Reads the hours of all runs in one pass, in the order in which they are stored, since a year of a busy node has
  // millions of rows.
  void read_usage() {
    Statement rows(database_,
                   "SELECT hour, run, device, ms, used, limited, guaranteed, held, peak, denials FROM usage "
                   "WHERE hour >= ? AND hour < ?");
    rows.with(window_.from / kHourMs, (window_.to + kHourMs - 1) / kHourMs);
    std::unordered_map<std::int64_t, std::size_t> places;  // places of the current slice's lines
    TimeMs slice = -1;
    std::int64_t hour = -1;
    std::map<std::int64_t, HourOfRuns> of_hour;  // by device; few, since a node has few devices
    const auto finish_hour = [&] {
      for (const auto& [device, sums] : of_hour) of_runs_[{hour, device}] = sums;
      of_hour.clear();
    };
    while (rows.row()) {
      if (rows.integer(0) != hour) {
        finish_hour();
        hour = rows.integer(0);
        if (slice_start(hour) != slice) places.clear(), slice = slice_start(hour);
      }
      const std::int64_t run = rows.integer(1), device = rows.integer(2);
      if (device == kPinnedHost) {
        add_pinned(slice, run, rows);
        continue;
      }
      const auto [place, fresh] = places.try_emplace(run * 4096 + device, charges_.lines.size());
      if (fresh) {
        ChargeLine line;
        line.from = slice, line.run = run, line.device = device;
        charges_.lines.push_back(line);
      }
      ChargeLine& line = charges_.lines[place->second];
      const ByteTime used{rows.integer(4)}, limited{rows.integer(5)}, guaranteed{rows.integer(6)},
          held{rows.integer(7)};
      const std::int64_t ms = rows.integer(3), peak = rows.integer(8);
      const ByteTime charged = basis_ == Basis::kUsed        ? used
                               : basis_ == Basis::kLimit     ? limited
                               : basis_ == Basis::kGuarantee ? guaranteed
                               : basis_ == Basis::kPeak      ? ByteTime{__int128{peak} * ms}
                                                             : held;
      line.used += used, line.limited += limited, line.guaranteed += guaranteed, line.held += held;
      line.charged += charged;
      line.peak = std::max(line.peak, peak);
      line.denials += rows.integer(9);
      line.ms += ms;
      auto& sums = of_hour[device];
      sums.used += used, sums.charged += charged;
    }
    finish_hour();
  }

  void add_pinned(TimeMs slice, std::int64_t run, const Statement& row) {
    const auto [place, fresh] = pinned_.try_emplace({slice, run}, charges_.pinned.size());
    if (fresh) charges_.pinned.push_back({slice, run, {}, 0, 0, 0});
    PinnedLine& line = charges_.pinned[place->second];
    line.ms += row.integer(3), line.used += ByteTime{row.integer(4)};
    line.peak = std::max(line.peak, row.integer(8)), line.denials += row.integer(9);
  }

  void read_devices() {
    Statement rows(database_,
                   "SELECT hour, device, observed_ms, gap_ms, capacity, gap, governed, ungoverned, unexplained,"
                   "ungoverned_peak FROM device_hours WHERE hour >= ? AND hour < ?");
    rows.with(window_.from / kHourMs, (window_.to + kHourMs - 1) / kHourMs);
    struct Key {
      TimeMs slice;
      std::int64_t device;
      Kind kind;
      auto operator<=>(const Key&) const = default;
    };
    std::map<Key, ChargeLine> others;
    const auto add = [&](std::int64_t hour, std::int64_t device, Kind kind, ByteTime amount, TimeMs ms) -> ChargeLine& {
      ChargeLine& line = others[{slice_start(hour), device, kind}];
      line.from = slice_start(hour), line.device = device, line.kind = kind;
      line.charged += amount;
      if (kind == Kind::kUngoverned || kind == Kind::kDriver) line.used += amount;
      line.ms += ms;
      return line;
    };
    std::size_t matched = 0;
    while (rows.row()) {
      const std::int64_t hour = rows.integer(0), device = rows.integer(1), observed = rows.integer(2);
      const ByteTime capacity{rows.integer(4)}, gap{rows.integer(5)}, ungoverned{rows.integer(7)},
          unexplained{rows.integer(8)};
      HourOfRuns runs;
      if (const auto found = of_runs_.find({hour, device}); found != of_runs_.end()) runs = found->second, ++matched;
      if (!(runs.used == ByteTime{rows.integer(6)})) charges_.consistent = false;
      charges_.capacity += capacity;
      watched_[device] += observed + rows.integer(3);
      if (gap > ByteTime{}) add(hour, device, Kind::kGap, gap, rows.integer(3));
      if (ungoverned > ByteTime{}) {
        ChargeLine& line = add(hour, device, Kind::kUngoverned, ungoverned, observed);
        line.peak = std::max(line.peak, rows.integer(9));
      }
      if (unexplained > ByteTime{}) add(hour, device, Kind::kDriver, unexplained, observed);
      const ByteTime idle = capacity - gap - ungoverned - unexplained - runs.charged;
      if (idle > ByteTime{}) add(hour, device, Kind::kIdle, idle, observed);
      if (idle < ByteTime{}) add(hour, device, Kind::kOverlap, idle, observed);
    }
    if (matched != of_runs_.size()) charges_.consistent = false;
    for (auto& [key, line] : others) charges_.lines.push_back(line);
  }

  // Checks that the watched time of each device, gaps included, equals its spans, which are written separately from the
  // hours.
  void check_coverage() {
    const TimeMs kept_from = read_mark(database_, "kept_from");
    std::map<std::int64_t, TimeMs> expected;
    Statement spans(database_, "SELECT device, begins, ends FROM spans");
    while (spans.row()) {
      const TimeMs begins = std::max({spans.integer(1), window_.from, kept_from});
      const TimeMs ends = std::min(spans.integer(2), window_.to);
      if (ends <= begins) continue;
      expected[spans.integer(0)] += ends - begins;
      if (charges_.recorded_from && *charges_.recorded_from <= begins) continue;
      charges_.recorded_from = begins;
      charges_.pruned = begins == kept_from && begins > window_.from;
    }
    std::erase_if(watched_, [](const auto& entry) { return entry.second == 0; });
    if (expected != watched_) charges_.consistent = false;
    charges_.recorded_ms = watched_;
  }

  Database& database_;
  Window window_;
  Slice slice_;
  Basis basis_;
  Charges charges_;
  std::map<DeviceHourKey, HourOfRuns> of_runs_;
  std::map<std::pair<TimeMs, std::int64_t>, std::size_t> pinned_;  // places of lines, by slice and run
  std::map<std::int64_t, TimeMs> watched_;
};

}  // namespace

Result<Basis> parse_basis(const std::string& text) {
  for (const auto& [basis, name] : kBases) {
    if (text == name) return basis;
  }
  return fail("E1916", fmt::format("'{}' is not a value of --basis.", text),
              "Give one of: used, limit, guarantee, max(used,guarantee), peak.", 2);
}

std::string name_of(Basis basis) {
  for (const auto& [known, name] : kBases) {
    if (basis == known) return name;
  }
  return {};
}

std::string name_of(Kind kind) {
  constexpr std::array<const char*, 6> kNames{"governed", "ungoverned", "driver", "idle", "gap", "overlap"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool Prices::known(const RunFacts* run) const {
  return general != 0 || (run != nullptr && of_tenants.count(run->tenant) != 0);
}

std::int64_t Prices::of(const RunFacts* run) const {
  const auto own = run == nullptr ? of_tenants.end() : of_tenants.find(run->tenant);
  return own == of_tenants.end() ? general : own->second;
}

void Charges::hide_labels_from(const std::string& user) {
  for (auto& [id, run] : runs)
    if (run.user != user) run.labels.clear();
}

const RunFacts* Charges::run_of(std::int64_t run) const {
  const auto found = runs.find(run);
  return found == runs.end() ? nullptr : &found->second;
}

Result<Charges> collect_charges(Database& database, const Window& window, Slice slice, Basis basis) {
  Window whole;
  whole.from = window.from / kHourMs * kHourMs;
  whole.to = std::min((window.to + kHourMs - 1) / kHourMs * kHourMs, read_mark(database, "recorded_to"));
  if (window.from < 0 || window.from >= window.to) {
    return fail("E1916", fmt::format("the window from {} to {} is empty.", rfc3339(window.from), rfc3339(window.to)),
                "Give a window whose end is after its beginning.", 2);
  }
  if (whole.to < whole.from) whole.to = whole.from;  // the window lies after the recorded time
  Charges charges = Collector(database, whole, slice, basis).collect();
  RATION_TRY(database.outcome());
  return charges;
}

}  // namespace ration::history
