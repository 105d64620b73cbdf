#include "node/residency/residency.hpp"

#include <algorithm>

#include "base/say.hpp"
#include "machine/checkpoint.hpp"
#include "machine/host_memory.hpp"

namespace ration::node {
namespace {

/// Host memory to leave free when device memory moves there.
constexpr Bytes kHostReserve{std::uint64_t{1} << 30};

// Returns the larger of the driver's and the book's figure: the book lacks code and rounding, the driver lacks managed
// memory.
std::vector<Bytes> to_be_moved(const NodeState& state, const Workload& workload) {
  std::vector<Bytes> bytes = workload.used;
  for (const AccountView& account : state.snapshot.accounts) {
    if (account.path != workload.path) continue;
    Bytes by_driver;
    for (const ProcessView& process : account.processes) by_driver += process.driver_used.value_or(Bytes{0});
    bytes[account.account] = std::max(bytes[account.account], by_driver);
  }
  return bytes;
}

Result<void> host_has_room(const NodeState& state, const Workload& workload,
                           const std::vector<ProcessIdentity>& processes, Bytes needed) {
  const std::string fix = "Free host memory, or trim: ration trim " + workload.book.name;
  const Bytes available = machine::host_memory_available();
  if (needed + kHostReserve > available)
    return fail("E1547",
                say<"suspension.host_full">("free_bytes"_is(available), "needed_bytes"_is(needed),
                                            "workload"_is(workload.book.name)),
                fix, 4);
  if (state.options.simulated) return {};  // a simulated device's memory is in no process
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

// An owner can write any pid into the book, so each process must belong to the owner.
Result<std::vector<ProcessIdentity>> own_processes(const Workload& workload, const std::vector<std::int32_t>& pids) {
  std::vector<ProcessIdentity> processes;
  for (const std::int32_t pid : pids) {
    const auto process = identity_of(pid);
    if (!process || process->user != workload.person)
      return fail(
          "E1547",
          say<"suspension.unseen_process">("pid"_is(pid), "workload"_is(workload.book.name), "user"_is(workload.user)),
          "Its container needs the host's pid namespace.", 1);
    processes.push_back(*process);
  }
  if (processes.empty())
    return fail("E1547", say<"suspension.no_device">("workload"_is(workload.book.name)), "ration ps", 1);
  return processes;
}

Result<std::vector<ProcessIdentity>> processes_of(const NodeState& state, const Workload& workload) {
  std::vector<std::int32_t> pids;
  for (const AccountView& account : state.snapshot.accounts) {
    if (account.path != workload.path || account.account != 0) continue;
    for (const ProcessView& view : account.processes) pids.push_back(view.pid);
  }
  return own_processes(workload, pids);
}

Result<void> begin_suspension(NodeState& state, const Workload& workload, bool by_person) {
  OwnedWorkload* owned = state.limits.find(workload.path);
  if (owned == nullptr || state.suspension.state_of(workload.path) != Suspension::State::kOnDevice)
    return fail("E1546", say<"suspension.already">("workload"_is(workload.book.name)), "ration ps", 4);
  RATION_TRY(const auto processes, processes_of(state, workload));
  if (!state.machine) return tl::unexpected(state.machine.error());
  if (auto good =
          machine::may_be_moved(workload.book, *state.machine, state.options.runtime_folder, state.options.simulated);
      !good)
    return good;
  const std::vector<Bytes> moved = to_be_moved(state, workload);
  RATION_TRY(host_has_room(state, workload, processes, sum(moved)));
  for (std::size_t i = 0; i < std::min(moved.size(), owned->accounts.size()); ++i) owned->accounts[i].moved = moved[i];
  owned->suspended = true;
  owned->held_by_person = by_person;
  state.limits.changed();
  if (const auto saved = state.limits.save(); !saved) {  // before memory moves
    owned->suspended = owned->held_by_person = false;
    return tl::unexpected(saved.error());
  }
  state.suspension.suspend(workload.path, processes, by_person, state.now_ns);
  return {};
}

void begin_trim(NodeState& state, const Workload& workload, const std::string& by) {
  state.running[workload.path].trim = {sum(workload.used), state.now_ns, by};
}

void approve_resume(NodeState& state, const std::string& path) {
  if (state.registry.workloads().count(path) != 0) state.running[path].may_resume = true;
}

void set_guarantee_lapsed(NodeState& state, const Workload& workload, OwnedWorkload& owned, bool lapsed,
                          Events& events) {
  owned.guarantee_lapsed = lapsed;
  state.limits.changed();
  if (const auto written = state.limits.write(workload); !written)
    events.push_back(book_unwritable_event(event_subject(state, workload), written.error()));
}

}  // namespace ration::node
