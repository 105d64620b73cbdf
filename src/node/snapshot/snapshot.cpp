#include "node/snapshot/snapshot.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/process.hpp"
#include "base/say.hpp"
#include "machine/process_origin.hpp"
#include "machine/user_names.hpp"

namespace ration::node {
namespace {

using book::DeviceUuid;

// The most bytes that a process may use beyond those in its book before it counts as a violator. The driver's own
// rounding and the code that it loads are in no book; the kernels of the largest framework take 500 MB (PyTorch with
// cuDNN).
constexpr Bytes kNotInBooks{std::uint64_t{1} << 30};

/// The pid namespace of a process, and its pid there. A book names a process by these two.
using Key = std::pair<std::uint64_t, std::int32_t>;

/// A process on one device, as the driver lists it.
struct DriverProcess {
  std::int32_t host_pid = 0;
  std::optional<Bytes> held;
  FixedMessage unknown_reason = machine::kNotAttributed;
  bool governed = false;
};
struct DriverProcesses {
  std::map<Key, DriverProcess> by_key;
  /// True if books of this namespace name some of the processes, so that books and driver use the same pids.
  bool known_here = false;
  bool reported = true;  // true if the driver reports the bytes of every process, so that an unlisted one holds none
};

constexpr std::uint64_t kFirstPidNamespace = 0xEFFFFFFC;  // PROC_PID_INIT_INO of the kernel's include/linux/proc_ns.h

Key key_of(const ProcessIdentity& identity) { return {identity.pid_namespace, identity.pid}; }

std::set<Key> keys_in_books(const Registry& registry) {
  std::set<Key> keys;
  for (const auto& [path, workload] : registry.workloads()) {
    for (const auto& process : workload.book.processes) keys.insert(key_of(process.identity));
  }
  return keys;
}

bool has_ended(std::int32_t pid) {
  const auto identity = identity_of(pid);
  return identity ? liveness(*identity) == Liveness::kDead : ::kill(pid, 0) != 0 && errno == ESRCH;
}

// Lists the driver's processes on a device. Looks up a process in its inner namespace only if no book names it by its
// pid here.
DriverProcesses processes_on(const machine::Device& device, const std::set<Key>& in_books) {
  static const std::uint64_t own_namespace = own_pid_namespace();
  DriverProcesses found;
  if (!device.processes) return found;
  for (const auto& process : *device.processes) {
    Key key{own_namespace, process.pid};
    if (in_books.count(key) == 0)
      (void)machine::inner_identity(process.pid, key.second, key.first);
    else
      found.known_here = true;
    found.reported = found.reported && process.held;
    found.by_key[key] = {process.pid, process.held, process.unknown_reason, false};
  }
  // A process that ended after the driver's answer may be in no book any more.
  if (found.known_here || own_namespace == kFirstPidNamespace)
    std::erase_if(found.by_key, [&](const auto& entry) {
      return in_books.count(entry.first) == 0 && has_ended(entry.second.host_pid);
    });
  return found;
}

// Returns the view of a process of the workload. A process of the workload's user has the user's name, and any other
// process the uid as text, since looking up a name for each process would be slow.
ProcessView view_of(const Workload& workload, const book::ProcessSnapshot& process, std::size_t account,
                    DriverProcess* driver) {
  ProcessView view;
  view.pid = driver != nullptr ? driver->host_pid : process.identity.pid;
  view.user = process.identity.user == workload.person ? workload.user : fmt::format("uid {}", process.identity.user);
  view.command = process.command;
  view.used = process.held[account];
  view.context = process.context[account];
  view.pooled = process.pooled[account];
  view.managed = process.managed[account];
  view.shared = process.shared[account];
  view.host = process.host;
  if (driver != nullptr) {
    driver->governed = true;
    view.driver_used = driver->held;
    view.unknown_reason = driver->unknown_reason;
  }
  // The driver may count shared memory for this process although another process is charged for it.
  if (view.driver_used && *view.driver_used > view.used_by_driver() + view.shared + kNotInBooks)
    view.state = ProcessState::kViolator;
  return view;
}

AccountView view_of(const Workload& workload, std::uint32_t account, const WorkloadStatus* known,
                    std::uint64_t now_ns) {
  const book::BookSnapshot& book = workload.book;
  const book::AccountSnapshot& entry = book.accounts[account];
  AccountView view;
  view.path = workload.path;
  view.account = account;
  view.workload = book.name;
  view.tenant = book.tenant;
  view.user = workload.user;
  view.owner = workload.person;
  view.creator = book.creator;
  view.slice = book.slice;
  view.labels = book.labels;
  view.command = book.command;
  view.simulation = book.simulation;
  view.run = book.run_number;
  view.started_ns = book.created_ns;
  view.device = entry.device_name;
  view.used = workload.used[account];
  view.shared = std::min(entry.shared, view.used);
  view.unrequested = std::min(entry.unrequested, view.used);
  view.limit = view.configured_limit = entry.limit;
  view.guarantee = entry.guarantee;
  view.peak = std::max(entry.peak, view.used);  // no book's peak includes unrequested bytes
  view.denials = entry.denials;
  view.last_denial = book.denial_count;
  view.unlisted_count = book.unlisted_count;
  view.unlisted = book.unlisted;
  view.launchers = book.launchers;
  view.waiting = book.waiting > 0;
  view.ended = workload.ended;
  view.altered = workload.unreadable;
  view.contexts_counted = book.account_mode == book::AccountMode::kDevice;
  view.host = {book.host.counted, workload.host_used, std::max(book.host.peak, workload.host_used),
               book.host.in_force(), book.host.denials};
  if (known != nullptr) {
    if (account < known->limits.size()) view.limit = known->limits[account];
    if (account < known->configured_limits.size()) view.configured_limit = known->configured_limits[account];
    if (account < known->guarantees.size()) view.guarantee = known->guarantees[account];
    if (account < known->held_back_by.size()) view.held_back_by = known->held_back_by[account];
    view.limit_changes = known->limit_changes;
    if (!known->altered.empty()) view.altered = known->altered;
    if (known->last_activity_ns) view.idle_ns = now_ns - std::min(now_ns, *known->last_activity_ns);
    view.suspended = known->suspended;
    view.resuming = known->resuming;
    view.driver_enforced = known->driver_enforced;
  }
  if (entry.own_limit < view.limit) {
    view.limit = entry.own_limit;
    view.held_back_by = say<"limit.own_request">();
  }
  for (const auto& process : book.processes) {
    view.context += process.context[account];
    view.pooled += process.pooled[account];
    view.managed += process.managed[account];
  }
  if (book.managed == book::ManagedPolicy::kResident) view.movable = view.managed;
  if (view.suspended) {
    view.suspended_bytes = std::exchange(view.used, Bytes{0});
    view.context = view.pooled = view.managed = view.movable = view.shared = view.unrequested = Bytes{0};
  }
  return view;
}

}  // namespace

Bytes AccountView::trusted_usage() const {
  const bool nothing_there =
      !processes.empty() && std::all_of(processes.begin(), processes.end(),
                                        [](const ProcessView& each) { return each.driver_used == Bytes{0}; });
  return nothing_there ? Bytes{0} : used;
}

const AccountView* Snapshot::account_of(const std::string& path, std::uint32_t account) const {
  const auto found = std::lower_bound(
      accounts.begin(), accounts.end(), std::tie(path, account),
      [](const AccountView& view, const auto& wanted) { return std::tie(view.path, view.account) < wanted; });
  return found != accounts.end() && found->path == path && found->account == account ? &*found : nullptr;
}

Message UngovernedView::why() const {
  if (!workload.empty()) return say<"process.without_guard">("workload"_is(workload));
  if (process.state == ProcessState::kUnknown) return say<"process.of_another_user">();
  return removed_book.empty() ? say<"process.outside">() : say<"process.book_removed">("book"_is(removed_book));
}

namespace {

/// Returns the name of the workload that started the process, as its ancestors or its environment show; empty if none
/// did.
std::string workload_over(const Registry& registry, std::int32_t pid, const std::string& its_book) {
  for (const auto& [path, workload] : registry.workloads()) {
    const std::int32_t creator = workload.book.creator.pid;
    if ((creator > 1 && machine::descends_from(pid, creator)) || path == its_book) return workload.book.name;
  }
  return {};
}

/// Returns true if the process sees no file of that name. Returns false if it sees one, or if the daemon cannot see the
/// process's files.
bool is_removed(std::int32_t pid, const std::string& book) {
  const std::string root = fmt::format("/proc/{}/root", pid);
  return ::access(root.c_str(), F_OK) == 0 && ::access((root + book).c_str(), F_OK) != 0 && errno == ENOENT;
}

}  // namespace

Snapshot build_snapshot(const Registry& registry, const Result<machine::Machine>& machine,
                        const std::unordered_map<std::string, WorkloadStatus>& known, std::uint64_t now_ns) {
  Snapshot snapshot;
  static const std::uint64_t own_namespace = own_pid_namespace();
  std::vector<DriverProcesses> by_driver;
  const std::set<Key> in_books = keys_in_books(registry);
  if (machine) {
    snapshot.driver_version = machine->driver_version;
    for (const machine::Device& device : machine->devices) {
      snapshot.devices.emplace_back().device = device;
      by_driver.push_back(processes_on(device, in_books));
    }
  } else {
    snapshot.machine_problem = machine.error().what;
  }
  for (const auto& [path, workload] : registry.workloads()) {
    const auto found = known.find(path);
    for (std::uint32_t account = 0; account < workload.book.accounts.size(); ++account) {
      AccountView view = view_of(workload, account, found == known.end() ? nullptr : &found->second, now_ns);
      const DeviceUuid& uuid = workload.book.accounts[account].device;
      const auto device = std::find_if(snapshot.devices.begin(), snapshot.devices.end(),
                                       [&](const DeviceView& each) { return each.device.bytes == uuid; });
      DriverProcesses* processes = nullptr;
      if (device != snapshot.devices.end()) {
        view.gpu = device->device.index;
        view.uuid = device->device.uuid;
        processes = &by_driver[static_cast<std::size_t>(device - snapshot.devices.begin())];
      }
      for (const auto& process : workload.book.processes) {
        DriverProcess* driver = nullptr;
        if (processes != nullptr) {
          if (const auto same = processes->by_key.find(key_of(process.identity)); same != processes->by_key.end())
            driver = &same->second;
        }
        ProcessView& shown = view.processes.emplace_back(view_of(workload, process, account, driver));
        // A process that the driver does not list holds nothing, whatever its book says. In a container the driver may
        // list no process, or no bytes.
        if (driver == nullptr && processes != nullptr && processes->known_here && processes->reported &&
            process.identity.pid_namespace == own_namespace)
          shown.driver_used = Bytes{0};
        if (driver == nullptr && processes != nullptr && !processes->reported)
          shown.unknown_reason = machine::kNotAttributedInContainer;
        if (view.suspended) shown.used = shown.context = shown.pooled = shown.managed = Bytes{0};
      }
      if (device != snapshot.devices.end()) device->governed += view.trusted_usage();
      snapshot.accounts.push_back(std::move(view));
    }
  }
  for (std::size_t i = 0; i < snapshot.devices.size(); ++i) {
    DeviceView& device = snapshot.devices[i];
    for (const auto& [key, process] : by_driver[i].by_key) {
      if (process.governed) continue;
      const machine::Origin origin = machine::origin_of(process.host_pid);
      ProcessView view;
      view.pid = process.host_pid;
      view.user = origin.user;
      view.command = origin.command;
      view.used = process.held.value_or(Bytes{0});
      view.driver_used = process.held;
      view.unknown_reason = process.unknown_reason;
      if (!process.held) device.unknown_reason = process.unknown_reason;
      const auto started_with = machine::variable_of(process.host_pid, "RATION_BOOK");
      std::string book = started_with.value_or("");
      std::string workload = workload_over(registry, process.host_pid, book);
      const bool is_known = started_with || !workload.empty() || origin.uid == ::geteuid();
      view.state = is_known ? ProcessState::kUngoverned : ProcessState::kUnknown;
      if (!workload.empty() || book.empty() || !is_removed(process.host_pid, book)) book.clear();
      snapshot.ungoverned.push_back({std::move(view), origin.uid, device.device.index, std::move(workload),
                                     std::move(book), origin.container, origin.how, "report"});
      (is_known ? device.ungoverned : device.undecided) += process.held.value_or(Bytes{0});
    }
    const auto used = device.used();
    if (!used) continue;
    const Bytes explained = device.governed + device.ungoverned + device.undecided;
    device.unexplained = *used - std::min(*used, explained);
    device.orphaned = machine::orphaned(device.device);
    if (device.orphaned) {  // so that no byte counts twice
      device.orphaned = std::min(*device.orphaned, *device.unexplained);
      *device.unexplained -= *device.orphaned;
    }
  }
  return snapshot;
}

}  // namespace ration::node
