#include "history/history.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>

#include "history/schema.hpp"
#include "history/set_aside.hpp"
#include "history/upkeep.hpp"

namespace ration::history {
namespace {

constexpr int kTenantLine = 1, kWorkloadLine = 2;

// A clock that leaps further may be wrong, and removing what is old by a wrong clock would remove everything: nothing
// is removed before it has run on for so long.
constexpr TimeMs kTrustAfter = 7 * kDayMs;

Result<void> prepare(Database& database, const std::string& path) {
  // NORMAL: a commit survives the daemon's death without a sync; a power cut may take the last ones, never consistency.
  database.run("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 16777216");
  if (auto good = database.outcome(); !good) return good;
  return migrate(database, path);
}

}  // namespace

Result<Database> History::open_file(const std::string& path, std::vector<std::string>& notices, bool again) {
  for (;; again = true) {
    // With the rights it is to have, before SQLite would create it with others.
    if (const FileDescriptor file{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)}; !file) {
      return fail("E1912", fmt::format("the history at {} cannot be opened: {}.", path, std::strerror(errno)),
                  "Give the daemon a folder of its own that it may write to.");
    }
    auto database = Database::open(path, Database::Access::kWrite);
    if (!database) return database;
    const auto prepared = prepare(*database, path);
    if (prepared) {
      // Numbers of events go on above all that the lost file can have given: fewer than one for each second since 1970.
      if (again) {
        Statement(*database, "INSERT INTO sqlite_sequence VALUES('events', ?)")
            .with(std::int64_t{std::time(nullptr)})
            .done();
      }
      return database;
    }
    if (!database->damaged() || again) return tl::unexpected(prepared.error());
    *database = Database{};
    const std::string aside = set_aside(path);
    if (aside.empty()) return tl::unexpected(prepared.error());
    notices.push_back(fmt::format("{} It was kept as {}, and a new history begun.", prepared.error().what, aside));
  }
}

namespace {

Result<FileDescriptor> take_lock(const std::string& path) {
  FileDescriptor lock{::open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  if (!lock) {
    return fail("E1912", fmt::format("the history at {} cannot be opened: {}.", path, std::strerror(errno)),
                "Give the daemon a folder of its own that it may write to.");
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail("E1913", fmt::format("another daemon writes the history at {}.", path),
                "Stop it first, or give this one a folder of its own.");
  }
  return lock;
}

/// The folder of the history, and a lock in it, where somebody removed it.
Result<void> make_folder_again(const std::string& path, FileDescriptor& lock) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!std::filesystem::create_directories(folder, error)) return {};
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  auto fresh = take_lock(path);
  if (!fresh) return tl::unexpected(fresh.error());
  lock = std::move(*fresh);
  return {};
}

}  // namespace

Result<History> History::open(const std::string& path, const Options& options) {
  auto lock = take_lock(path);
  if (!lock) return tl::unexpected(lock.error());
  std::vector<std::string> notices;
  auto database = open_file(path, notices, false);
  if (!database) return tl::unexpected(database.error());
  History history(std::move(*database), options);
  history.lock_ = std::move(*lock);
  history.path_ = path;
  history.notices_ = std::move(notices);
  if (auto good = history.load(); !good) {
    if (!history.database_.damaged()) return tl::unexpected(good.error());
    if (auto fresh = history.start_afresh(); !fresh) return tl::unexpected(fresh.error());
  }
  return history;
}

// Where the last commit left everything.
Result<void> History::load() {
  Statement numbers(database_,
                    "SELECT (SELECT ifnull(max(id), 0) FROM runs), (SELECT ifnull(max(id), 0) FROM devices),"
                    "(SELECT ifnull(max(id), 0) FROM lines)");
  if (numbers.row()) last_run_ = numbers.integer(0), last_device_ = numbers.integer(1), last_line_ = numbers.integer(2);
  Statement devices(database_, "SELECT id, uuid, name, capacity FROM devices");
  while (devices.row()) devices_[devices.text(1)] = {devices.integer(0), devices.integer(3), devices.text(2), true};
  Statement runs(database_,
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
  Statement lines(database_, "SELECT id, kind, name, device FROM lines");
  while (lines.row())
    lines_[{static_cast<int>(lines.integer(1)), lines.text(2), lines.integer(3)}] = {lines.integer(0), true};

  prune_from_ = read_mark(database_, "prune_from");
  Instant last;
  last.time = committed_to_ = read_mark(database_, "recorded_to");
  Statement present(database_,
                    "SELECT device, capacity, driver_used, ungoverned, unexplained, begins FROM last_devices");
  while (present.row()) {
    last.devices.push_back({present.integer(0), present.integer(1), present.integer(2), present.integer(3),
                            present.integer(4), present.integer(5)});
  }
  Statement holdings(database_,
                     "SELECT run, device, used, limited, guaranteed, workload_line, tenant_line FROM last_holdings");
  while (holdings.row()) {
    last.holdings.push_back({holdings.integer(0), holdings.integer(1), holdings.integer(2), holdings.integer(3),
                             holdings.integer(4), holdings.integer(5), holdings.integer(6)});
  }
  if (last.time != 0) integrator_.resume(std::move(last));
  return database_.outcome();
}

// Sets a file that turned out to be damaged, or is not the one that was written, aside. What is not committed yet goes
// into the new one.
Result<void> History::start_afresh() {
  (void)database_.outcome();
  database_ = Database{};
  const bool removed = identity() == Identity{}, damaged = in_place();
  const std::string aside = removed ? "" : set_aside(path_);
  if (aside.empty() && !removed) {
    return fail("E1912", fmt::format("the history at {} is damaged and cannot be set aside.", path_),
                "Look at the rights of its folder.");
  }
  if (auto folder = make_folder_again(path_, lock_); !folder) return folder;
  auto database = open_file(path_, notices_, true);
  if (!database) return tl::unexpected(database.error());
  database_ = std::move(*database);
  left_ = {};
  unusable_.reset();
  notices_.push_back(
      removed ? fmt::format("the history at {} was removed, and a new one begun.", path_)
      : damaged
          ? fmt::format("the history at {} was damaged: it was kept as {}, and a new one begun.", path_, aside)
          : fmt::format("the history at {} was exchanged for another file: that was kept as {}, and a new one begun.",
                        path_, aside));
  // Nothing before is in the new file: as far as it goes, watching began with what is not committed yet.
  integrator_.begin_anew(committed_to_);
  for (auto& [key, run] : runs_) run.stored = false;
  for (auto& [uuid, device] : devices_) device.stored = false;
  for (auto& [name, line] : lines_) line.stored = false;
  return {};
}

std::int64_t History::line(int kind, const std::string& name, std::int64_t device) {
  Numbered& line = lines_[{kind, name, device}];
  if (line.id == 0) line.id = ++last_line_;
  return line.id;
}

const History::Run& History::known_run(const WorkloadSample& workload) {
  Run& run = runs_[workload.run];
  if (run.id != 0) return run;
  run.facts = workload;
  // It may have been here before, and away for a while.
  Statement asked(database_, "SELECT id, workload, tenant, user, labels FROM runs WHERE number = ? AND started = ?");
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

Result<Recorded> History::record(const Sample& sample) {
  const auto impossible = [](const std::string& what) {
    return fail("E1918", fmt::format("a sample cannot be recorded: {}.", what), "This is a fault of ration.");
  };
  std::vector<std::uint64_t> governed(sample.devices.size());
  for (const auto& workload : sample.workloads) {
    if (workload.device >= sample.devices.size()) return impossible("a workload is on a device that is not in it");
    if (std::max(workload.used, workload.peak) > Bytes{kMaxDevice})
      return impossible(fmt::format("{} holds {} bytes", workload.workload, workload.used.count()));
    governed[workload.device] += workload.used.count();
  }
  for (std::size_t index = 0; index < sample.devices.size(); ++index) {
    const auto& device = sample.devices[index];
    const Bytes most = std::max({device.capacity, device.driver_used, device.ungoverned, device.unexplained});
    if (std::max(most, Bytes{governed[index]}) > Bytes{kMaxDevice})
      return impossible(fmt::format("{} has {} bytes", device.uuid, most.count()));
  }

  Instant now;
  now.time = sample.time_ns / 1'000'000;
  for (const auto& device : sample.devices) {
    Device& known = devices_[device.uuid];
    if (known.id == 0) known.id = ++last_device_;
    const auto capacity = static_cast<std::int64_t>(device.capacity.count());
    if (known.name != device.name || known.capacity != capacity) {
      known.name = device.name, known.capacity = capacity;
      known.stored = false;
    }
    now.devices.push_back({known.id, capacity, static_cast<std::int64_t>(device.driver_used.count()),
                           static_cast<std::int64_t>(device.ungoverned.count()),
                           static_cast<std::int64_t>(device.unexplained.count())});
  }
  for (const auto& workload : sample.workloads) {
    const Run& run = known_run(workload);
    const auto& device = now.devices[workload.device];
    const std::int64_t id = device.device;
    const Bytes capacity{static_cast<std::uint64_t>(device.capacity)};
    Instant::HoldingNow holding;
    holding.run = run.id;
    holding.device = id;
    holding.used = static_cast<std::int64_t>(workload.used.count());
    holding.limited = static_cast<std::int64_t>(std::min(workload.limit, capacity).count());
    holding.guaranteed = static_cast<std::int64_t>(std::min(workload.guarantee, capacity).count());
    holding.peak = static_cast<std::int64_t>(std::max(workload.peak, workload.used).count());
    holding.denials = static_cast<std::int64_t>(workload.denials);
    holding.ended = workload.ended;
    holding.workload_line = line(kWorkloadLine, run.facts.tenant + "/" + run.facts.workload, id);
    holding.tenant_line = line(kTenantLine, run.facts.tenant, id);
    now.holdings.push_back(holding);
  }
  const TimeMs before = integrator_.last().time;
  const TimeMs at = now.time;
  const Recorded outcome = integrator_.take(std::move(now));
  if (outcome == Recorded::kGap && at - before > kTrustAfter) prune_from_ = at + kTrustAfter;
  return outcome;
}

void History::run_ended(const RunKey& run, TimeMs ended, int exit_code) { ended_.push_back({run, ended, exit_code}); }

Result<void> History::transaction(const std::function<void()>& write) {
  for (bool again = false;; again = true) {
    if (unusable_) return tl::unexpected(*unusable_);
    database_.run("BEGIN IMMEDIATE");
    write();
    database_.run("COMMIT");
    auto good = database_.outcome();
    if (good) {
      // What goes into a file that is removed or exchanged is lost: commit() has to see that it is.
      if (in_place()) left_ = identity();
      return good;
    }
    if (!database_.damaged() || again) {
      database_.run("ROLLBACK");
      (void)database_.outcome();
      return good;
    }
    if (auto fresh = start_afresh(); !fresh) return fresh;
  }
}

Result<void> History::commit() {
  check_if_changed();
  const TimeMs recorded_to = integrator_.last().time;
  const auto stored = transaction([&] {
    store_names();
    store_sums();
    store_last();
    roll_up(database_, recorded_to);
    if (recorded_to / kHourMs != pruned_hour_ && recorded_to >= prune_from_) prune(database_, recorded_to);
  });
  if (!stored) return stored;
  for (auto& [uuid, device] : devices_) device.stored = true;
  for (auto& [name, line] : lines_) line.stored = true;
  std::map<std::int64_t, bool> alive;
  for (const auto& holding : integrator_.last().holdings) alive[holding.run] = true;
  for (auto run = runs_.begin(); run != runs_.end();) {
    run->second.stored = true;
    run = alive.contains(run->second.id) ? std::next(run) : runs_.erase(run);
  }
  integrator_.pending() = Pending{};
  ended_.clear();
  committed_to_ = recorded_to;
  pruned_hour_ = recorded_to / kHourMs;
  return store_kept();
}

Result<std::int64_t> History::append(Event event) {
  std::vector<Event> events;
  events.push_back(std::move(event));
  if (auto good = append(events); !good) return tl::unexpected(good.error());
  return events[0].id;
}

History::Identity History::identity() const {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0) return {};
  return {status.st_ino, status.st_size, status.st_ctim.tv_sec * std::int64_t{1'000'000'000} + status.st_ctim.tv_nsec};
}

bool History::in_place() const { return left_ == Identity{} || identity().inode == left_.inode; }

void History::check_if_changed() {
  if (left_ == Identity{} || identity() == left_) return;
  if (check()) left_ = identity();
}

bool History::check() {
  bool damaged = identity() == Identity{} || !in_place();
  if (auto fresh = Database::open(path_, Database::Access::kRead);
      fresh && !damaged) {  // with no page of before at hand
    {
      Statement asked(*fresh, "PRAGMA quick_check(1)");
      damaged = asked.row() && asked.text(0) != "ok";
    }
    (void)fresh->outcome();
    damaged = damaged || fresh->damaged();
  }
  if (!damaged) return true;  // what cannot be read now is not damaged for that
  if (auto fresh = start_afresh(); !fresh) unusable_ = fresh.error();
  return false;
}

}  // namespace ration::history
