#include "node/queue/leases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "admission/promises.hpp"
#include "base/strings.hpp"
#include "base/time.hpp"
#include "node/events/event_text.hpp"
#include "node/state/whole_number.hpp"

namespace ration::node {
namespace {

using nlohmann::json;

Result<std::vector<int>> parse_gpus(const std::string& text) {
  std::vector<int> gpus;
  if (text.empty() || text == "auto") return gpus;
  for (const std::string_view part : split(text, ',')) {
    int number = 0;
    const char* const end = part.data() + part.size();
    const auto read = std::from_chars(part.data(), end, number);
    if (read.ec != std::errc{} || read.ptr != end || number < 0) {
      return fail("E1407", fmt::format("'{}' is not a GPU to wait for.", text), "--gpu auto, --gpu 0 or --gpu 0,1", 2);
    }
    gpus.push_back(number);
  }
  return gpus;
}

Program program_of(const LeaseWish& wish) { return {wish.user, wish.tenant, wish.name, command_hash(wish.command)}; }

json wish_json(const LeaseWish& wish, std::uint64_t submitted_ns) {
  json row{
      {"tenant", wish.tenant},       {"user", wish.user},
      {"command", wish.command},     {"gpu", wish.gpu},
      {"owner", wish.owner},         {"waiter", {wish.waiter.pid, wish.waiter.start_time, wish.waiter.pid_namespace}},
      {"bytes", wish.bytes.count()}, {"guarantee", wish.guarantee.count()},
      {"priority", wish.priority},   {"submitted_ns", submitted_ns}};
  if (wish.wait_ns) row["wait_ns"] = *wish.wait_ns;
  if (!wish.key.empty()) row["key"] = wish.key;
  if (!wish.name.empty()) row["name"] = wish.name;
  return row;
}

LeaseWish wish_of(const json& row) {
  LeaseWish wish;
  row.at("tenant").get_to(wish.tenant);
  row.at("user").get_to(wish.user);
  row.at("command").get_to(wish.command);
  row.at("gpu").get_to(wish.gpu);
  wish.owner = whole_number<std::uint32_t>(row.at("owner"));
  const auto read = [](const json& value, auto& number) {
    number = whole_number<std::remove_reference_t<decltype(number)>>(value);
  };
  read(row.at("waiter").at(0), wish.waiter.pid);
  read(row.at("waiter").at(1), wish.waiter.start_time);
  read(row.at("waiter").at(2), wish.waiter.pid_namespace);
  wish.bytes = Bytes{whole_number<std::uint64_t>(row.at("bytes"))};
  wish.guarantee = Bytes{whole_number<std::uint64_t>(row.at("guarantee"))};
  read(row.at("priority"), wish.priority);
  if (row.contains("wait_ns")) wish.wait_ns = whole_number<std::uint64_t>(row["wait_ns"]);
  wish.key = row.value("key", "");
  wish.name = row.value("name", "");
  return wish;
}

}  // namespace

Leases::Leases(std::string file) : file_(std::move(file)) {
  const char* lost = "who waited for memory has to ask again: ration run --wait.";
  file_.read(lost, [this](const json& document) {
    std::map<std::string, Entry> kept;
    const json& waiting = document.at("waiting");
    if (!waiting.is_object()) throw std::invalid_argument("'waiting' is not an object");
    for (const auto& [id, row] : waiting.items())
      kept[id] = {wish_of(row), whole_number<std::uint64_t>(row.at("submitted_ns")), std::nullopt, {}, false, false};
    const json running = document.value("running", json::object());  // files of before have none
    if (!running.is_object()) throw std::invalid_argument("'running' is not an object");
    for (const auto& [id, row] : running.items()) {
      Lease lease;
      lease.taken_up = true;
      lease.granted_ns = whole_number<std::uint64_t>(row.at("granted_ns"));
      for (const json& gpu : row.at("gpus")) lease.gpus.push_back(whole_number<int>(gpu));
      kept[id] = {wish_of(row), whole_number<std::uint64_t>(row.at("submitted_ns")), lease,
                  row.at("workload").get<std::string>()};
    }
    last_ = whole_number<std::uint64_t>(document.at("last"));
    kept_ = std::move(kept);
  });
}

Result<LeaseRequest> Leases::request_of(const std::string& id, const LeaseWish& wish,
                                        std::uint64_t submitted_ns) const {
  RATION_TRY(auto gpus, parse_gpus(wish.gpu));
  LeaseRequest request;
  request.id = id;
  request.tenant = wish.tenant;
  request.bytes = wish.bytes;
  request.guarantee = wish.guarantee;
  request.gpus = std::move(gpus);
  request.priority = wish.priority;
  request.submitted_ns = submitted_ns;
  if (wish.wait_ns) request.deadline_ns = submitted_ns + *wish.wait_ns;
  request.expected = run_lengths_.expected(program_of(wish));
  return request;
}

void Leases::learn(const Program& program, std::uint64_t length_ns) {
  run_lengths_.add(program, length_ns);
  const auto expected = run_lengths_.expected(program);
  for (const auto& [id, entry] : entries_)
    if (!entry.to_return && entry.because.empty() && program_of(entry.wish) == program) queue_.expect(id, expected);
}

// Before the devices are counted: else what they hold would count twice.
void Leases::take_back_running() {
  for (auto kept = kept_.begin(); kept != kept_.end();) {
    auto& [id, entry] = *kept;
    if (!entry.granted) {
      ++kept;
      continue;
    }
    if (auto request = request_of(id, entry.wish, entry.submitted_ns)) {
      entry.granted->request = std::move(*request);
      queue_.adopt(*entry.granted);
      entries_[id] = std::move(entry);
    }
    kept = kept_.erase(kept);
  }
}

// One that was granted and not taken up waits again, at its place: it was before all others.
void Leases::queue_again(std::uint64_t now_ns) {
  std::vector<std::pair<std::string, Entry>> all;
  for (auto& kept : std::exchange(kept_, {})) all.push_back(std::move(kept));
  std::sort(all.begin(), all.end(),
            [](const auto& one, const auto& two) { return one.second.submitted_ns < two.second.submitted_ns; });
  for (auto& [id, entry] : all) {
    auto request = request_of(id, entry.wish, std::min(entry.submitted_ns, now_ns));
    if (request && queue_.submit(std::move(*request))) entries_[id] = std::move(entry);
  }
}

void Leases::save() {
  json waiting = json::object(), running = json::object();
  for (const auto& [id, entry] : entries_) {
    if (entry.workload.empty() && !entry.over) waiting[id] = wish_json(entry.wish, entry.submitted_ns);
    if (entry.workload.empty() || !entry.granted || entry.to_return) continue;
    json& row = running[id] = wish_json(entry.wish, entry.submitted_ns);
    row.update(
        {{"workload", entry.workload}, {"gpus", entry.granted->gpus}, {"granted_ns", entry.granted->granted_ns}});
  }
  (void)file_.write({{"last", last_}, {"waiting", waiting}, {"running", running}});  // tried again at the next step
}

std::string Leases::id_of(const LeaseWish& wish) const {
  if (wish.key.empty()) return {};
  for (const auto* known : {&entries_, &kept_})
    for (const auto& [id, entry] : *known)
      if (entry.wish.key == wish.key && entry.wish.waiter.same_as(wish.waiter) && !entry.over) return id;
  return {};
}

Result<std::string> Leases::submit(const LeaseWish& wish, std::uint64_t now_ns) {
  if (std::string known = id_of(wish); !known.empty()) return known;
  RATION_TRY(auto request, request_of(fmt::format("q-{}", last_ + 1), wish, now_ns));
  const auto of_user = std::count_if(entries_.begin(), entries_.end(),
                                     [&](const auto& each) { return each.second.wish.owner == wish.owner; });
  if (of_user >= static_cast<std::ptrdiff_t>(kMaxPerUser))
    return fail("E1528", fmt::format("{} leases of {} wait or run already.", of_user, wish.user),
                "ration ps   shows them", 4);
  const std::string id = request.id;
  RATION_TRY(queue_.submit(std::move(request)));
  ++last_;
  entries_[id] = {wish, now_ns, std::nullopt, {}, false, false};
  save();
  return id;
}

bool Leases::cancel(const std::string& id, std::optional<std::uint32_t> user, const std::string& by) {
  constexpr std::size_t kMaxRemembered = 1'000;  // whoever waits asks again within a second
  const auto found = entries_.find(id);
  if (found == entries_.end() || (user && found->second.wish.owner != *user)) return false;
  drop(id);
  cancelled_.push_back({id, by, found->second.wish.owner});
  if (cancelled_.size() > kMaxRemembered) cancelled_.pop_front();
  entries_.erase(found);
  save();
  return true;
}

const CancelledLease* Leases::cancelled(const std::string& id) const {
  const auto found =
      std::find_if(cancelled_.begin(), cancelled_.end(), [&](const auto& each) { return each.id == id; });
  return found == cancelled_.end() ? nullptr : &*found;
}

void Leases::drop(const std::string& id) {
  if (!queue_.cancel(id)) (void)queue_.release(id);
}

void Leases::leave(const std::string& path) {
  for (auto& [id, entry] : entries_) {
    if (entry.workload != path) continue;
    drop(id);
    entry.away = true;
    entry.granted.reset();
  }
}

namespace {

/// What of a device can be given at all.
Bytes capacity_of(const DeviceView& device) {
  return device.device.total - std::min(device.device.total, device.keep_free + device.sliced);
}

/// What a device is taken by outside the queue, added up by policy/promises. Beside guarantees it counts what is not
/// promised to anybody: who waits for memory beside what it holds comes before whoever comes to the device, so what it
/// may still take is not given away.
void add_taken(admission::Promises& taken, const AccountView& account, const DeviceView& device) {
  const bool waits = account.waiting && account.trusted_usage() > Bytes{0};
  const Bytes claim = waits ? std::min(account.limit, device.device.total) : Bytes{0};
  taken.add_workload(account.tenant, std::max(account.guarantee, claim), account.trusted_usage());
}

/// Of nobody who has a limit.
Bytes outside_of_limits(const DeviceView& device) {
  return device.ungoverned + device.unexplained.value_or(Bytes{0}) + device.orphaned.value_or(Bytes{0});
}

bool is_on(const AccountView& account, const DeviceView& device) {
  return account.gpu == device.device.index && !account.suspended;
}

}  // namespace

void Leases::ask_again(const std::string& path, const std::string& because, const Snapshot& snapshot,
                       std::uint64_t now_ns, bool sure) {
  std::vector<AccountView> accounts;
  std::copy_if(snapshot.accounts.begin(), snapshot.accounts.end(), std::back_inserter(accounts),
               [&](const AccountView& each) { return each.path == path; });
  if (accounts.empty()) return;
  const AccountView& account = accounts.front();
  auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const auto& each) { return each.second.workload == path; });
  if (found == entries_.end()) {  // it started without a lease; it returns with one
    Entry entry;
    entry.wish.tenant = account.tenant;
    entry.wish.user = account.user;
    entry.wish.owner = account.owner;
    entry.wish.command = account.command;
    entry.wish.waiter = account.creator;
    entry.workload = path;
    entry.to_return = true;
    found = entries_.emplace(fmt::format("q-{}", ++last_), std::move(entry)).first;
  }
  auto& [id, entry] = *found;
  entry.because = because;
  drop(id);
  entry.wish.bytes = entry.wish.guarantee = Bytes{0};
  for (const AccountView& each : accounts) {
    const auto device = std::find_if(snapshot.devices.begin(), snapshot.devices.end(),
                                     [&](const DeviceView& view) { return each.gpu == view.device.index; });
    // A limit above what there is asks for all of it, not for what can never be free.
    const Bytes most = device == snapshot.devices.end() ? kUnlimited : round_down(capacity_of(*device), kGranule);
    entry.wish.bytes = std::max({entry.wish.bytes, std::min(each.limit, most), each.away});
    entry.wish.guarantee = std::max(entry.wish.guarantee, each.guarantee);
  }
  entry.submitted_ns = now_ns;
  entry.away = false;
  LeaseRequest request;
  request.id = id;
  request.tenant = entry.wish.tenant;
  request.bytes = entry.wish.bytes;
  request.guarantee = entry.wish.guarantee;
  for (const AccountView& each : accounts)
    if (each.gpu) request.gpus.push_back(*each.gpu);
  entry.wish.gpu = fmt::format("{}", fmt::join(request.gpus, ","));
  request.priority = entry.wish.priority;
  request.submitted_ns = now_ns;
  request.sure = sure;
  request.held = Bytes{0};
  for (const AccountView& each : accounts) request.held = std::max(*request.held, each.away);
  if (!queue_.submit(std::move(request))) returning_.push_back(path);  // no queue can tell when: it is tried at once
}

bool Leases::take_up(const std::string& id, const std::string& path, std::uint32_t user) {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.wish.owner != user || !found->second.granted) return false;
  if (!queue_.take_up(id)) return false;
  found->second.workload = path;
  return true;
}

Events Leases::step(const Snapshot& snapshot, std::uint64_t now_ns, const TenantShares& shares) {
  Events events;
  clock_ahead_ns_ = snapshot.time_ns - now_ns;
  std::set<std::string> running, here, leased;
  for (const AccountView& account : snapshot.accounts) {
    running.insert(running.end(), account.path);  // they come in order
    if (!account.suspended) here.insert(here.end(), account.path);
  }
  if (!snapshot.devices.empty()) take_back_running();
  for (auto each = entries_.begin(); each != entries_.end();) {
    auto& [id, entry] = *each;
    const bool runs = running.count(entry.workload) != 0;
    // Who comes back was there already: where it is no longer, nobody does.
    const bool ended = !runs && (entry.to_return || liveness(entry.wish.waiter) == Liveness::kDead);
    const bool is_back = entry.to_return && entry.granted && here.count(entry.workload) != 0;
    if (!ended && !is_back) {
      if (!entry.workload.empty()) leased.insert(entry.workload);
      ++each;
      continue;
    }
    drop(id);
    each = entries_.erase(each);
  }
  devices_.clear();
  Capacity capacity;
  for (const DeviceView& device : snapshot.devices) {
    devices_[device.device.index] = takers_of(device, snapshot);
    admission::Promises taken, of_tenants;  // a tenant is charged for what its books say
    for (const AccountView& account : snapshot.accounts) {
      if (!is_on(account, device) || leased.count(account.path) != 0) continue;
      add_taken(taken, account, device);
      of_tenants.add_workload(account.tenant, account.guarantee, account.used);
    }
    capacity.set_device(device.device.index, capacity_of(device), outside_of_limits(device) + taken.taken());
    for (const auto& [where, share] : shares)
      if (where.second == device.device.index)
        capacity.set_tenant(where.first, where.second, share.limit, share.guarantee, of_tenants.taken_by(where.first));
  }
  queue_.update(std::move(capacity));
  if (!kept_.empty() && !snapshot.devices.empty()) queue_again(now_ns);  // else nothing would fit for ever
  const StepResult result = queue_.step(now_ns);
  for (const Lease& lease : result.granted) {
    Entry& entry = entries_.at(lease.request.id);
    entry.granted = lease;
    if (!entry.workload.empty()) {  // its processes are there: they only come back
      (void)queue_.take_up(lease.request.id);
      returning_.push_back(entry.workload);
      continue;
    }
    // What an earlier daemon wrote down was by its clock.
    waits_.note(static_cast<double>(now_ns - std::min(now_ns, entry.submitted_ns)) / 1e9);
    events.push_back(granted_event({"", entry.wish.tenant, entry.wish.user, {}}, lease.request.id, entry.wish.bytes,
                                   lease.gpus, lease.passed ? to_text(*lease.passed) : ""));
  }
  for (const LeaseRequest& request : result.expired) entries_.at(request.id).over = true;
  for (const Lease& lease : result.lapsed) entries_.at(lease.request.id).over = true;
  save();
  return events;
}

std::vector<Taker> Leases::takers_of(const DeviceView& device, const Snapshot& snapshot) const {
  std::vector<Taker> takers;
  for (const AccountView& account : snapshot.accounts) {
    if (!is_on(account, device)) continue;
    const auto leased = std::find_if(entries_.begin(), entries_.end(), [&](const auto& each) {
      return each.second.granted && each.second.workload == account.path;
    });
    admission::Promises alone;
    add_taken(alone, account, device);
    const Bytes taken =
        leased == entries_.end() ? alone.taken() : std::max(leased->second.wish.bytes, leased->second.wish.guarantee);
    takers.push_back({account.tenant + "/" + account.workload, taken, account.trusted_usage()});
  }
  for (const auto& [id, entry] : entries_) {
    if (!entry.granted || !entry.workload.empty()) continue;
    const auto& gpus = entry.granted->gpus;
    if (std::find(gpus.begin(), gpus.end(), device.device.index) != gpus.end())
      takers.push_back({entry.wish.tenant + "/" + id, std::max(entry.wish.bytes, entry.wish.guarantee), std::nullopt});
  }
  const Bytes outside = outside_of_limits(device);
  takers.push_back({"without a limit", outside, outside});
  takers.push_back({"slices", device.sliced, std::nullopt});
  takers.push_back({"kept free", device.keep_free, std::nullopt});
  std::erase_if(takers, [](const Taker& taker) { return taker.taken == Bytes{0}; });
  std::stable_sort(takers.begin(), takers.end(),
                   [](const Taker& one, const Taker& two) { return one.taken > two.taken; });
  return takers;
}

std::optional<LeaseView> Leases::view(const std::string& id) const {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return std::nullopt;
  const Entry& entry = found->second;
  LeaseView view{id, entry.wish, entry.submitted_ns + clock_ahead_ns_};
  view.position = queue_.position(id);
  view.of = queue_.waiting();
  const bool runs = !entry.workload.empty();
  if (entry.away) {
    view.state = LeaseState::kSuspended;
  } else if (entry.over) {
    view.state = LeaseState::kOver;
  } else if (entry.granted) {
    view.state = runs ? LeaseState::kRunning : LeaseState::kGranted;
    view.gpus = entry.granted->gpus;
    if (entry.granted->passed) view.reason = to_text(*entry.granted->passed);
  } else if (view.position == 0) {  // it is brought back without a place in the queue
    view.state = runs ? LeaseState::kRunning : LeaseState::kOver;
  } else {
    view.estimate = queue_.estimate();
    const auto reason = queue_.reason(id);
    if (!reason) return view;
    view.reason = (entry.because.empty() ? "" : fmt::format("to come back to its device ({}): ", entry.because)) +
                  to_text(*reason);
    if (reason->kind == WaitReason::Kind::kTenant) return view;
    const auto takers = devices_.find(reason->gpu);
    view.taken_by = takers == devices_.end() ? std::vector<Taker>{} : takers->second;
  }
  return view;
}

std::vector<LeaseView> Leases::waiting_views() const {
  std::vector<LeaseView> views;
  for (const LeaseRequest& request : queue_.requests()) views.push_back(*view(request.id));
  return views;
}

}  // namespace ration::node
