#include "node/queue/leases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "admission/promises.hpp"
#include "base/message_json.hpp"
#include "base/say.hpp"
#include "base/strings.hpp"
#include "base/time.hpp"
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
      return fail("E1407", fmt::format("'{}' does not name GPUs.", text), "--gpu auto, --gpu 0 or --gpu 0,1", 2);
    }
    gpus.push_back(number);
  }
  return gpus;
}

Program program_of(const LeaseSubmission& submission) {
  return {submission.user, submission.tenant, submission.name, command_hash(submission.command)};
}

json submission_json(const LeaseSubmission& submission, std::uint64_t submitted_ns) {
  json row{{"tenant", submission.tenant},
           {"user", submission.user},
           {"command", submission.command},
           {"gpu", submission.gpu},
           {"owner", submission.owner},
           {"waiter", {submission.waiter.pid, submission.waiter.start_time, submission.waiter.pid_namespace}},
           {"bytes", submission.bytes.count()},
           {"guarantee", submission.guarantee.count()},
           {"priority", submission.priority},
           {"submitted_ns", submitted_ns}};
  if (submission.wait_ns) row["wait_ns"] = *submission.wait_ns;
  if (!submission.key.empty()) row["key"] = submission.key;
  if (!submission.name.empty()) row["name"] = submission.name;
  return row;
}

LeaseSubmission submission_from(const json& row) {
  LeaseSubmission submission;
  row.at("tenant").get_to(submission.tenant);
  row.at("user").get_to(submission.user);
  row.at("command").get_to(submission.command);
  row.at("gpu").get_to(submission.gpu);
  submission.owner = whole_number<std::uint32_t>(row.at("owner"));
  const auto read = [](const json& value, auto& number) {
    number = whole_number<std::remove_reference_t<decltype(number)>>(value);
  };
  read(row.at("waiter").at(0), submission.waiter.pid);
  read(row.at("waiter").at(1), submission.waiter.start_time);
  read(row.at("waiter").at(2), submission.waiter.pid_namespace);
  submission.bytes = Bytes{whole_number<std::uint64_t>(row.at("bytes"))};
  submission.guarantee = Bytes{whole_number<std::uint64_t>(row.at("guarantee"))};
  read(row.at("priority"), submission.priority);
  if (row.contains("wait_ns")) submission.wait_ns = whole_number<std::uint64_t>(row["wait_ns"]);
  submission.key = row.value("key", "");
  submission.name = row.value("name", "");
  return submission;
}

EventSubject charged_to(const LeaseSubmission& submission) { return {"", submission.tenant, submission.user, {}}; }

}  // namespace

QueuedFacts facts_of(const std::string& id, const LeaseSubmission& submission) {
  return {id, submission.name, submission.bytes};
}

Leases::Entry Leases::entry_from(const json& row) {
  Entry entry{submission_from(row),
              whole_number<std::uint64_t>(row.at("submitted_ns")),
              std::nullopt,
              row.value("workload", ""),
              false,
              row.value("away", false),
              row.value("to_return", false),
              message_in(row, "because"),
              row.value("sure", true)};
  if (row.contains("held")) entry.held = Bytes{whole_number<std::uint64_t>(row["held"])};
  if (row.contains("due")) entry.due = whole_number<std::int64_t>(row["due"]);
  if (!row.contains("granted_ns")) return entry;
  Lease lease;
  lease.running = !entry.workload.empty();
  lease.granted_ns = whole_number<std::uint64_t>(row["granted_ns"]);
  for (const json& gpu : row.at("gpus")) lease.gpus.push_back(whole_number<int>(gpu));
  entry.granted = std::move(lease);
  return entry;
}

json Leases::entry_json(const std::string& id, const Entry& entry) const {
  json row = submission_json(entry.submission, entry.submitted_ns);
  if (!entry.workload.empty()) row["workload"] = entry.workload;
  if (entry.granted) row.update({{"gpus", entry.granted->gpus}, {"granted_ns", entry.granted->granted_ns}});
  if (const auto due = queue_.due(id)) row["due"] = *due;
  if (entry.suspended) row["away"] = true;
  if (entry.for_resume) row["to_return"] = true;
  if (!entry.resume_reason.empty()) {
    put_message(row, "because", entry.resume_reason);
    row["sure"] = entry.confirmed;
  }
  if (entry.held) row["held"] = entry.held->count();
  return row;
}

Leases::Leases(std::string file) : file_(std::move(file)) {
  file_.read(fixed<"state.queue_lost">(), [this](const json& document) {
    std::map<std::string, Entry> kept;
    const json& waiting = document.at("waiting");
    if (!waiting.is_object()) throw std::invalid_argument("'waiting' is not an object");
    for (const auto& [id, row] : waiting.items()) kept[id] = entry_from(row);
    for (const char* of_workloads : {"running", "returning"}) {
      const json rows = document.value(of_workloads, json::object());  // older files lack them
      if (!rows.is_object()) throw std::invalid_argument(fmt::format("'{}' is not an object", of_workloads));
      for (const auto& [id, row] : rows.items()) {
        (void)row.at("workload");
        kept[id] = entry_from(row);
      }
    }
    last_id_ = whole_number<std::uint64_t>(document.at("last"));
    restored_ = std::move(kept);
  });
}

Result<LeaseRequest> Leases::request_of(const std::string& id, const Entry& entry) const {
  const LeaseSubmission& submission = entry.submission;
  auto gpus = parse_gpus(submission.gpu);
  if (!gpus) return tl::unexpected(gpus.error());
  LeaseRequest request;
  request.id = id;
  request.tenant = submission.tenant;
  request.bytes = submission.bytes;
  request.guarantee = submission.guarantee;
  request.gpus = std::move(*gpus);
  request.priority = submission.priority;
  request.submitted_ns = entry.submitted_ns;
  request.confirmed = entry.confirmed;
  request.held = entry.held;
  request.due = entry.due;
  if (!entry.resume_reason.empty()) return request;  // a workload that resumes: how much longer it runs is unknown
  if (submission.wait_ns) request.deadline_ns = entry.submitted_ns + *submission.wait_ns;
  request.expected = run_lengths_.expected(program_of(submission));
  return request;
}

void Leases::learn(const Program& program, std::uint64_t length_ns) {
  run_lengths_.add(program, length_ns);
  const auto expected = run_lengths_.expected(program);
  for (const auto& [id, entry] : entries_)
    if (!entry.for_resume && entry.resume_reason.empty() && program_of(entry.submission) == program)
      queue_.expect(id, expected);
}

// Restores running leases before the devices are counted, so that their usage does not count twice.
void Leases::restore_running() {
  for (auto kept = restored_.begin(); kept != restored_.end();) {
    auto& [id, entry] = *kept;
    if (!entry.granted) {
      ++kept;
      continue;
    }
    if (auto request = request_of(id, entry)) {
      entry.granted->request = std::move(*request);
      queue_.restore(*entry.granted);
      entries_[id] = std::move(entry);
    }
    kept = restored_.erase(kept);
  }
}

// Queues the requests of the previous daemon in the order of their submission. Each request takes its former place, so
// that no request delays another one anew.
void Leases::restore_waiting(std::uint64_t now_ns) {
  std::vector<std::pair<std::string, Entry>> all;
  for (auto& kept : std::exchange(restored_, {})) all.push_back(std::move(kept));
  std::sort(all.begin(), all.end(),
            [](const auto& one, const auto& two) { return one.second.submitted_ns < two.second.submitted_ns; });
  for (auto& [id, entry] : all) {
    entry.submitted_ns = std::min(entry.submitted_ns, now_ns);
    auto request = request_of(id, entry);
    if (entry.suspended || (request && queue_.submit(std::move(*request)))) entries_[id] = std::move(entry);
  }
}

void Leases::save() {
  json waiting = json::object(), running = json::object(), returning = json::object();
  for (const auto& [id, entry] : entries_) {
    const bool runs = entry.granted && !entry.for_resume;
    if (entry.over) continue;
    (entry.workload.empty() ? waiting : runs ? running : returning)[id] = entry_json(id, entry);
  }
  // Ignores a failure, since the next step saves again.
  (void)file_.write({{"last", last_id_}, {"waiting", waiting}, {"running", running}, {"returning", returning}});
}

std::string Leases::id_of(const LeaseSubmission& submission) const {
  if (submission.key.empty()) return {};
  for (const auto* known : {&entries_, &restored_})
    for (const auto& [id, entry] : *known)
      if (entry.submission.key == submission.key && entry.submission.waiter.same_as(submission.waiter) && !entry.over)
        return id;
  return {};
}

Result<std::string> Leases::submit(const LeaseSubmission& submission, std::uint64_t now_ns) {
  if (std::string known = id_of(submission); !known.empty()) return known;
  Entry entry{submission, now_ns, std::nullopt, {}, false, false};
  auto request = request_of(fmt::format("q-{}", last_id_ + 1), entry);
  if (!request) return tl::unexpected(request.error());
  const auto of_user = std::count_if(entries_.begin(), entries_.end(), [&](const auto& each) {
    return each.second.submission.owner == submission.owner;
  });
  if (of_user >= static_cast<std::ptrdiff_t>(kMaxPerUser))
    return fail("E1528", fmt::format("{} already has {} leases that wait or are in use.", submission.user, of_user),
                "ration ps   shows them", 4);
  RATION_TRY(queue_.check_promises(*request, submission.limit_is_scheduled));
  const std::string id = request->id;
  if (auto taken = queue_.submit(std::move(*request)); !taken) return tl::unexpected(taken.error());
  ++last_id_;
  entries_[id] = std::move(entry);
  save();
  return id;
}

bool Leases::cancel(const std::string& id, std::optional<std::uint32_t> user, const std::string& by) {
  constexpr std::size_t kMaxRemembered = 1'000;  // a waiting client polls within a second
  const auto found = entries_.find(id);
  if (found == entries_.end() || (user && found->second.submission.owner != *user)) return false;
  remove_from_queue(id);
  cancelled_.push_back({id, by, found->second.submission.owner});
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

void Leases::remove_from_queue(const std::string& id) {
  if (!queue_.cancel(id)) (void)queue_.release(id);
}

void Leases::suspend(const std::string& path) {
  for (auto& [id, entry] : entries_) {
    if (entry.workload != path) continue;
    remove_from_queue(id);
    entry.suspended = true;
    entry.granted.reset();
  }
}

namespace {

/// Returns the most bytes of a device that leases can have.
Bytes capacity_of(const DeviceView& device) {
  return device.device.total - std::min(device.device.total, device.keep_free + device.sliced);
}

/// Adds the room that a workload without a lease occupies: the larger of its guarantee and its usage. While the
/// workload waits for more memory, its whole limit counts, since such a workload precedes newcomers.
void add_taken(admission::Promises& taken, const AccountView& account, const DeviceView& device) {
  const bool waits = account.waiting && account.trusted_usage() > Bytes{0};
  const Bytes claim = waits ? std::min(account.limit, device.device.total) : Bytes{0};
  taken.add_workload(account.tenant, std::max(account.guarantee, claim), account.trusted_usage());
}

/// Returns the usage that no limit covers.
Bytes outside_of_limits(const DeviceView& device) {
  return device.ungoverned + device.unexplained.value_or(Bytes{0}) + device.orphaned.value_or(Bytes{0});
}

bool is_on(const AccountView& account, const DeviceView& device) {
  return account.gpu == device.device.index && !account.suspended;
}

}  // namespace

void Leases::requeue(const std::string& path, const Message& reason, const Snapshot& snapshot, std::uint64_t now_ns,
                     bool confirmed) {
  std::vector<AccountView> accounts;
  std::copy_if(snapshot.accounts.begin(), snapshot.accounts.end(), std::back_inserter(accounts),
               [&](const AccountView& each) { return each.path == path; });
  if (accounts.empty()) return;
  const AccountView& account = accounts.front();
  const auto is_its = [&](const auto& each) { return each.second.workload == path; };
  // A confirmed request that was made before a restart, and is not queued again yet, keeps its place.
  if (const auto kept = std::find_if(restored_.begin(), restored_.end(), is_its); kept != restored_.end()) {
    if (!kept->second.granted && !kept->second.suspended && kept->second.confirmed) return;
    entries_.insert(restored_.extract(kept));
  }
  auto found = std::find_if(entries_.begin(), entries_.end(), is_its);
  if (found == entries_.end()) {  // the workload started without a lease; it resumes with one
    Entry entry;
    entry.submission.tenant = account.tenant;
    entry.submission.user = account.user;
    entry.submission.owner = account.owner;
    entry.submission.command = account.command;
    entry.submission.name = account.workload;
    entry.submission.waiter = account.creator;
    entry.workload = path;
    entry.for_resume = true;
    found = entries_.emplace(fmt::format("q-{}", ++last_id_), std::move(entry)).first;
  }
  auto& [id, entry] = *found;
  entry.resume_reason = reason;
  entry.confirmed = confirmed;
  remove_from_queue(id);
  entry.submission.bytes = entry.submission.guarantee = Bytes{0};
  for (const AccountView& each : accounts) {
    const auto device = std::find_if(snapshot.devices.begin(), snapshot.devices.end(),
                                     [&](const DeviceView& view) { return each.gpu == view.device.index; });
    // A limit above the size of the device counts as the whole device, since more can never be free.
    const Bytes most = device == snapshot.devices.end() ? kUnlimited : round_down(capacity_of(*device), kGranule);
    entry.submission.bytes = std::max({entry.submission.bytes, std::min(each.limit, most), each.suspended_bytes});
    entry.submission.guarantee = std::max(entry.submission.guarantee, each.guarantee);
  }
  entry.submitted_ns = now_ns;
  entry.suspended = false;
  entry.due.reset();
  entry.held = Bytes{0};
  for (const AccountView& each : accounts) entry.held = std::max(*entry.held, each.suspended_bytes);
  std::vector<int> gpus;
  for (const AccountView& each : accounts)
    if (each.gpu) gpus.push_back(*each.gpu);
  entry.submission.gpu = fmt::format("{}", fmt::join(gpus, ","));
  auto request = request_of(id, entry);
  if (!request || !queue_.submit(std::move(*request)))
    resumable_.push_back(path);  // the queue cannot decide, so the resume is tried at once
}

bool Leases::mark_running(const std::string& id, const std::string& path, std::uint32_t user) {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.submission.owner != user || !found->second.granted) return false;
  if (!queue_.mark_running(id)) return false;
  found->second.workload = path;
  save();  // so that a daemon that starts now does not grant the lease again
  return true;
}

Bytes Leases::bytes_on(const Entry& entry, int gpu) {
  if (!entry.granted || entry.for_resume) return Bytes{0};
  const auto& gpus = entry.granted->gpus;
  if (std::find(gpus.begin(), gpus.end(), gpu) == gpus.end()) return Bytes{0};
  return round_up(std::max(entry.submission.bytes, entry.submission.guarantee), kGranule);
}

Bytes Leases::granted(const std::string& id, std::uint32_t user, int gpu) const {
  const auto found = entries_.find(id);
  return found == entries_.end() || found->second.submission.owner != user ? Bytes{0} : bytes_on(found->second, gpu);
}

Bytes Leases::granted_to(const std::string& path, int gpu) const {
  for (const auto* known : {&entries_, &restored_})
    for (const auto& [id, entry] : *known)
      if (entry.workload == path) return bytes_on(entry, gpu);
  return Bytes{0};
}

Events Leases::step(const Snapshot& snapshot, std::uint64_t now_ns, const TenantShares& shares) {
  Events events;
  clock_ahead_ns_ = snapshot.time_ns - now_ns;
  std::set<std::string> running, here, leased;
  for (const AccountView& account : snapshot.accounts) {
    running.insert(running.end(), account.path);  // accounts are ordered by path
    if (!account.suspended) here.insert(here.end(), account.path);
  }
  if (!snapshot.devices.empty()) restore_running();
  const auto remove_ended = [&] {
    for (auto each = entries_.begin(); each != entries_.end();) {
      auto& [id, entry] = *each;
      const bool runs = running.count(entry.workload) != 0;
      // A lease for a resume lasts as long as its workload, even if the waiter has ended.
      const bool ended = !runs && (entry.for_resume || liveness(entry.submission.waiter) == Liveness::kDead);
      const bool is_back = entry.for_resume && entry.granted && here.count(entry.workload) != 0;
      if (!ended && !is_back) {
        if (!entry.workload.empty()) leased.insert(entry.workload);
        ++each;
        continue;
      }
      if (!entry.for_resume && !entry.granted && !entry.over && entry.workload.empty())
        events.push_back(dequeued_event(charged_to(entry.submission), facts_of(id, entry.submission),
                                        now_ns - std::min(now_ns, entry.submitted_ns), say<"lease.left_ended">()));
      remove_from_queue(id);
      each = entries_.erase(each);
    }
  };
  remove_ended();
  devices_.clear();
  Capacity capacity;
  for (const DeviceView& device : snapshot.devices) {
    devices_[device.device.index] = occupants_of(device, snapshot);
    admission::Promises taken, of_tenants;  // `of_tenants` counts usage according to the books
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
  if (!restored_.empty() && !snapshot.devices.empty()) {  // without devices, requests would count as too large
    restore_waiting(now_ns);
    remove_ended();  // whose waiters ended while no daemon ran
  }
  const StepResult result = queue_.step(now_ns);
  for (const Lease& lease : result.granted) {
    Entry& entry = entries_.at(lease.request.id);
    entry.granted = lease;
    if (!entry.workload.empty()) {  // its workload runs already, and only resumes
      (void)queue_.mark_running(lease.request.id);
      resumable_.push_back(entry.workload);
      continue;
    }
    // A restored request may have a later time, by the clock of the previous daemon.
    waits_.note(static_cast<double>(now_ns - std::min(now_ns, entry.submitted_ns)) / 1e9);
    events.push_back(granted_event(charged_to(entry.submission), facts_of(lease.request.id, entry.submission),
                                   lease.gpus, lease.backfill ? to_text(*lease.backfill) : Message()));
  }
  for (const LeaseRequest& request : result.expired) {
    Entry& entry = entries_.at(request.id);
    entry.over = true;
    events.push_back(dequeued_event(charged_to(entry.submission), facts_of(request.id, entry.submission),
                                    now_ns - std::min(now_ns, entry.submitted_ns), say<"lease.left_late">()));
  }
  for (const Lease& lease : result.lapsed) entries_.at(lease.request.id).over = true;
  save();
  return events;
}

std::vector<Occupant> Leases::occupants_of(const DeviceView& device, const Snapshot& snapshot) const {
  std::vector<Occupant> occupants;
  for (const AccountView& account : snapshot.accounts) {
    if (!is_on(account, device)) continue;
    const auto leased = std::find_if(entries_.begin(), entries_.end(), [&](const auto& each) {
      return each.second.granted && each.second.workload == account.path;
    });
    admission::Promises alone;
    add_taken(alone, account, device);
    const Bytes taken = leased == entries_.end()
                            ? alone.taken()
                            : std::max(leased->second.submission.bytes, leased->second.submission.guarantee);
    occupants.push_back({account.tenant + "/" + account.workload, taken, account.trusted_usage()});
  }
  for (const auto& [id, entry] : entries_) {
    if (!entry.granted || !entry.workload.empty()) continue;
    const auto& gpus = entry.granted->gpus;
    if (std::find(gpus.begin(), gpus.end(), device.device.index) != gpus.end())
      occupants.push_back({entry.submission.tenant + "/" + id,
                           std::max(entry.submission.bytes, entry.submission.guarantee), std::nullopt});
  }
  const Bytes outside = outside_of_limits(device);
  occupants.push_back({"without a limit", outside, outside});
  occupants.push_back({"slices", device.sliced, std::nullopt});
  occupants.push_back({"kept free", device.keep_free, std::nullopt});
  std::erase_if(occupants, [](const Occupant& occupant) { return occupant.taken == Bytes{0}; });
  std::stable_sort(occupants.begin(), occupants.end(),
                   [](const Occupant& one, const Occupant& two) { return one.taken > two.taken; });
  return occupants;
}

std::optional<LeaseView> Leases::view(const std::string& id) const {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return std::nullopt;
  const Entry& entry = found->second;
  LeaseView view{id, entry.submission, entry.submitted_ns + clock_ahead_ns_};
  view.position = queue_.position(id);
  view.of = queue_.waiting();
  const bool runs = !entry.workload.empty();
  if (entry.suspended) {
    view.state = LeaseState::kSuspended;
  } else if (entry.over) {
    view.state = LeaseState::kOver;
  } else if (entry.granted) {
    view.state = runs ? LeaseState::kRunning : LeaseState::kGranted;
    view.gpus = entry.granted->gpus;
    if (entry.granted->backfill) view.reason = to_text(*entry.granted->backfill);
  } else if (view.position == 0) {  // its workload resumes without a place in the queue
    view.state = runs ? LeaseState::kRunning : LeaseState::kOver;
  } else {
    view.estimate = queue_.estimate();
    const auto reason = queue_.reason(id);
    if (!reason) return view;
    view.reason = to_text(*reason);
    if (!entry.resume_reason.empty())
      view.reason = say<"lease.returns">("because"_is(entry.resume_reason), "reason"_is(view.reason));
    if (reason->kind == WaitReason::Kind::kTenant || reason->kind == WaitReason::Kind::kBehindInTenant) return view;
    const auto occupants = devices_.find(reason->gpu);
    view.taken_by = occupants == devices_.end() ? std::vector<Occupant>{} : occupants->second;
  }
  return view;
}

std::vector<LeaseView> Leases::waiting_views() const {
  std::vector<LeaseView> views;
  for (const LeaseRequest& request : queue_.requests()) views.push_back(*view(request.id));
  return views;
}

}  // namespace ration::node
