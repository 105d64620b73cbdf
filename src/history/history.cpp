#include "history/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "history/store.hpp"

namespace ration::history {
namespace {

constexpr int kTenantLine = 1, kWorkloadLine = 2;

/// Bounds the denials of a run, because a book may contain any number; sums of bounded ones do not overflow.
constexpr std::uint64_t kMaxDenials = std::uint64_t{1} << 40;

}  // namespace

Result<History> History::open(const std::string& path, const Options& options) {
  RATION_TRY(auto file, HistoryFile::open(path));
  History history(std::move(file), options);
  if (auto good = history.load(); !good) {
    if (!history.file_.database().damaged()) return tl::unexpected(good.error());
    RATION_TRY(history.begin_anew());
  }
  return history;
}

// Loads the state as of the last commit.
Result<void> History::load() {
  Database& database = file_.database();
  names_.load(database);
  upkeep_.load(database);
  Instant last = load_last(database);
  committed_to_ = last.time;
  if (last.time != 0) integrator_.resume(std::move(last));
  return database.outcome();
}

// Begins a new file. Uncommitted data goes into that file, in which watching begins with that data.
Result<void> History::begin_anew() {
  RATION_TRY(file_.begin_anew());
  integrator_.begin_anew(committed_to_);
  names_.note_nothing_stored();
  return {};
}

Result<Recorded> History::record(const Sample& sample) {
  const auto impossible = [](const std::string& what) {
    return fail("E1918", fmt::format("a sample cannot be recorded: {}.", what),
                "This is a fault of ration: please report it with the daemon's log.");
  };
  for (const PinnedSample& pinned : sample.pinned)
    if (std::max(pinned.used, pinned.peak) > Bytes{kMaxDevice})
      return impossible(fmt::format("run {} has {} bytes of pinned memory", pinned.run.number, pinned.used.count()));
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
    const auto capacity = static_cast<std::int64_t>(device.capacity.count());
    now.devices.push_back({names_.device(device), capacity, static_cast<std::int64_t>(device.driver_used.count()),
                           static_cast<std::int64_t>(device.ungoverned.count()),
                           static_cast<std::int64_t>(device.unexplained.count())});
  }
  const auto take_news = [&](Instant::HoldingNow& holding, Bytes peak, std::uint64_t denials) {
    const auto news = readings_.news(
        file_.database(), {holding.run, holding.device},
        {static_cast<std::int64_t>(peak.count()), static_cast<std::int64_t>(std::min(denials, kMaxDenials))});
    holding.peak = std::max(news.peak, holding.used);
    holding.denials = news.denials;
  };
  std::map<RunKey, std::int64_t> runs;
  for (const auto& workload : sample.workloads) {
    const Names::Run& run = names_.run(file_.database(), workload);
    runs[workload.run] = run.id;
    const auto& device = now.devices[workload.device];
    const std::int64_t id = device.device;
    const Bytes capacity{static_cast<std::uint64_t>(device.capacity)};
    Instant::HoldingNow holding;
    holding.run = run.id;
    holding.device = id;
    holding.used = static_cast<std::int64_t>(workload.used.count());
    holding.limited = static_cast<std::int64_t>(std::min(workload.limit, capacity).count());
    holding.guaranteed = static_cast<std::int64_t>(std::min(workload.guarantee, capacity).count());
    take_news(holding, workload.peak, workload.denials);
    holding.ended = workload.ended;
    holding.workload_line = names_.line(kWorkloadLine, run.facts.tenant + "/" + run.facts.workload, id);
    holding.tenant_line = names_.line(kTenantLine, run.facts.tenant, id);
    now.holdings.push_back(holding);
  }
  for (const PinnedSample& pinned : sample.pinned) {
    const auto run = runs.find(pinned.run);
    if (run == runs.end()) continue;
    Instant::HoldingNow holding;
    holding.run = run->second, holding.device = kPinnedHost;
    holding.used = static_cast<std::int64_t>(pinned.used.count());
    holding.ended = pinned.ended;
    take_news(holding, pinned.peak, pinned.denials);
    now.holdings.push_back(holding);
  }
  const TimeMs before = integrator_.last().time;
  const TimeMs at = now.time;
  const Recorded outcome = integrator_.take(std::move(now));
  if (outcome == Recorded::kGap) upkeep_.note_gap(before, at);
  return outcome;
}

Result<void> History::transaction(const std::function<void()>& write) {
  auto good = file_.transaction(write);
  if (good || !file_.database().damaged()) return good;
  RATION_TRY(begin_anew());
  return file_.transaction(write);
}

Result<void> History::commit() {
  if (file_.was_changed() && check()) file_.accept_changes();
  const TimeMs recorded_to = integrator_.last().time;
  const auto stored = transaction([&] {
    Database& database = file_.database();
    names_.store(database);
    store_sums(database, integrator_.pending());
    store_last(database, integrator_.last());
    upkeep_.step(database, recorded_to);
  });
  if (!stored) return stored;
  names_.note_stored(integrator_.last());
  readings_.note_stored(integrator_.last());
  integrator_.pending() = Pending{};
  committed_to_ = recorded_to;
  upkeep_.note_done(recorded_to);
  return events_.store_kept([this](std::vector<Event>& events) { return store(events); });
}

Result<void> History::append(std::vector<Event>& events) {
  return events_.append(events, [this](std::vector<Event>& some) { return store(some); });
}

Result<std::int64_t> History::append(Event event) {
  std::vector<Event> events;
  events.push_back(std::move(event));
  RATION_TRY(append(events));
  return events[0].id;
}

Result<void> History::store(std::vector<Event>& events) {
  auto stored = transaction([&] { store_events(file_.database(), events); });
  if (!stored)
    for (Event& event : events) event.id = 0;
  return stored;
}

bool History::check() {
  if (file_.is_sound()) return true;
  if (auto fresh = begin_anew(); !fresh) file_.set_unusable(fresh.error());
  return false;
}

}  // namespace ration::history
