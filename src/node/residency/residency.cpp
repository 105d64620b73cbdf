#include "node/residency/residency.hpp"

#include <algorithm>

#include "base/say.hpp"
#include "machine/checkpoint.hpp"
#include "machine/host_memory.hpp"

namespace ration::node {
namespace {

/// Host memory to leave free when device memory moves there.
constexpr Bytes kHostReserve{std::uint64_t{1} << 30};

// Returns the larger of the driver's and the book's figure for each account. The book's figure leaves out loaded code
// and rounding, and the driver's leaves out managed memory.
std::vector<Bytes> to_be_moved(const Moment& moment, const Workload& workload) {
  std::vector<Bytes> bytes = workload.used;
  for (const AccountView& account : moment.snapshot.accounts) {
    if (account.path != workload.path) continue;
    Bytes by_driver;
    for (const ProcessView& process : account.processes) by_driver += process.driver_used.value_or(Bytes{0});
    bytes[account.account] = std::max(bytes[account.account], by_driver);
  }
  return bytes;
}

Result<void> host_has_room(bool simulated, const Workload& workload, const std::vector<ProcessIdentity>& processes,
                           Bytes needed) {
  const std::string fix = "Free host memory, or trim: ration trim " + workload.book.name;
  const Bytes available = machine::host_memory_available();
  if (needed + kHostReserve > available)
    return fail("E1547",
                say<"suspension.host_full">("free_bytes"_is(available), "needed_bytes"_is(needed),
                                            "workload"_is(workload.book.name)),
                fix, 4);
  if (simulated) return {};  // on a simulated device, no process holds the memory
  for (const ProcessIdentity& process : processes) {
    const auto room = machine::room_in_memory_group(process.pid);
    if (!room || needed <= room->left) continue;
    return fail("E1547",
                say<"suspension.cgroup_full">("group"_is(room->group), "left_bytes"_is(room->left),
                                              "needed_bytes"_is(needed), "workload"_is(workload.book.name)),
                fix, 4);
  }
  return {};
}

}  // namespace

Bytes sum(const std::vector<Bytes>& parts) {
  Bytes total;
  for (const Bytes part : parts) total += part;
  return total;
}

// An owner can write any pid into the book, so each process must belong to the owner.
Result<std::vector<ProcessIdentity>> own_processes(const Workload& workload, const std::vector<std::int32_t>& pids) {
  std::vector<ProcessIdentity> processes;
  for (const std::int32_t pid : pids) {
    const auto process = identity_of(pid);
    if (!process || process->user != workload.person)
      return fail(
          "E1547",
          say<"suspension.unseen_process">("pid"_is(pid), "workload"_is(workload.book.name), "user"_is(workload.user)),
          "The workload's container needs the host's pid namespace.", 1);
    processes.push_back(*process);
  }
  if (processes.empty())
    return fail("E1547", say<"suspension.no_device">("workload"_is(workload.book.name)), "ration ps", 1);
  return processes;
}

Result<std::vector<ProcessIdentity>> processes_of(const Moment& moment, const Workload& workload) {
  std::vector<std::int32_t> pids;
  for (const AccountView& account : moment.snapshot.accounts) {
    if (account.path != workload.path || account.account != 0) continue;
    for (const ProcessView& view : account.processes) pids.push_back(view.pid);
  }
  return own_processes(workload, pids);
}

Result<void> Residency::begin_suspension(const Moment& moment, const Workload& workload, bool by_person) {
  OwnedWorkload* owned = limits_.find(workload.path);
  if (owned == nullptr || suspension_.state_of(workload.path) != Suspension::State::kOnDevice)
    return fail("E1546", say<"suspension.already">("workload"_is(workload.book.name)), "ration ps", 4);
  RATION_TRY(const auto processes, processes_of(moment, workload));
  if (!moment.machine) return tl::unexpected(moment.machine.error());
  RATION_TRY(machine::may_be_moved(workload.book, *moment.machine, runtime_folder_, simulated_));
  const std::vector<Bytes> moved = to_be_moved(moment, workload);
  RATION_TRY(host_has_room(simulated_, workload, processes, sum(moved)));
  for (std::size_t i = 0; i < std::min(moved.size(), owned->accounts.size()); ++i) owned->accounts[i].moved = moved[i];
  owned->suspended = true;
  owned->held_by_person = by_person;
  limits_.changed();
  if (const auto saved = limits_.save(); !saved) {  // saves before memory moves
    owned->suspended = owned->held_by_person = false;
    return tl::unexpected(saved.error());
  }
  suspension_.suspend(workload.path, processes, by_person, moment.now_ns);
  return {};
}

void Residency::end_suspension(OwnedWorkload& owned) {
  owned.suspended = owned.held_by_person = false;
  limits_.changed();
}

std::optional<std::uint64_t> Residency::failed_ns(const std::string& path) const {
  const auto known = known_.find(path);
  return known == known_.end() ? std::nullopt : known->second.failed_ns;
}

bool Residency::ask_to_resume(const std::string& path, const Message& reason) {
  if (!suspension_.request_resume(path, reason)) return false;
  if (OwnedWorkload* owned = limits_.find(path); owned != nullptr) {
    owned->held_by_person = false;  // so that a daemon that starts now resumes it
    limits_.changed();
  }
  return true;
}

void Residency::approve_resume(const Moment& moment, const std::string& path) {
  if (moment.registry.workloads().contains(path)) known_[path].may_resume = true;
}

bool Residency::may_resume(const std::string& path) const {
  const auto known = known_.find(path);
  return known != known_.end() && known->second.may_resume;
}

bool Residency::resume(const std::string& path) {
  known_[path].may_resume = false;
  return suspension_.resume(path);
}

void Residency::set_guarantee_lapsed(const Moment& moment, const Workload& workload, OwnedWorkload& owned, bool lapsed,
                                     Events& events) {
  owned.guarantee_lapsed = lapsed;
  limits_.changed();
  if (const auto written = limits_.write(workload); !written)
    events.push_back(book_unwritable_event(event_subject(moment, workload), written.error()));
}

void Residency::begin_trim(const Moment& moment, const Workload& workload, const std::string& by) {
  known_[workload.path].trim = {sum(workload.used), moment.now_ns, by};
}

const Residency::Trim* Residency::trim_of(const std::string& path) const {
  const auto known = known_.find(path);
  return known == known_.end() || !known->second.trim ? nullptr : &*known->second.trim;
}

void Residency::forget(const std::string& path) {
  suspension_.forget(path);
  known_.erase(path);
}

}  // namespace ration::node
