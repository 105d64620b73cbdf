// The node at one moment: the books compared with the driver's figures.
// Promise: an unknown number is absent, never 0.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/message.hpp"
#include "machine/devices.hpp"
#include "node/books/registry.hpp"

namespace ration::node {

enum class ProcessState {
  kGoverned,    ///< in a book, and uses no more than the book says
  kViolator,    ///< uses more than its book says
  kUngoverned,  ///< in no book
  kUnknown,     ///< another user's process, in no book that this user may read
};

struct ProcessView {
  std::int32_t pid = 0;  ///< pid in the host's pid namespace, if it is known there
  std::string user, command;
  ProcessState state = ProcessState::kGoverned;
  Bytes used, context, pooled;  ///< bytes according to the book; `used` includes the other two
  Bytes host;                   ///< pinned host memory, of no device
  Bytes managed;  ///< part of `used` that is managed memory, which the driver's figures for processes leave out
  Bytes shared;   ///< part of `used` that other processes may hold too, whichever process is charged
  std::optional<Bytes> driver_used;  ///< bytes that the driver reports; absent if unknown, as `unknown_reason` explains
  FixedMessage unknown_reason = machine::kNotAttributed;

  /// Returns the part of `used` that the driver's figure includes.
  [[nodiscard]] Bytes used_by_driver() const { return used - std::min(used, managed); }
};

/// Pinned host memory of a workload, all its devices and processes together.
struct HostView {
  bool counted = false;  ///< false if an older ration made its book, which counts none
  Bytes used, peak;
  Bytes limit = kUnlimited;
  std::uint64_t denials = 0;
};

/// One workload on one device.
struct AccountView {
  std::string path;           ///< path of its book
  std::uint32_t account = 0;  ///< index in its book
  std::string workload, tenant, user, slice, labels, command;
  std::string simulation;  ///< name of the simulated node that it runs on; empty for real hardware
  std::uint32_t owner = 0;
  ProcessIdentity creator;  ///< its `ration run`
  std::uint64_t run = 0, started_ns = 0;
  std::optional<int> gpu;  ///< absent if the device is not, or no longer, on this machine
  std::string uuid, device;
  Bytes used, limit, configured_limit, guarantee, peak, context, pooled;
  Bytes managed;      ///< part of `used`; see ProcessView
  Bytes movable;      ///< part of `managed` that moves to the host when the workload requests more than fits
  Bytes shared;       ///< part of `used` that several processes may hold, even of other workloads
  Bytes unrequested;  ///< part of `used` that no request shows, only the driver (Account::unrequested())
  std::uint64_t denials = 0, last_denial = 0, limit_changes = 0;
  std::uint64_t unlisted_count = 0;   ///< number of calls of driver functions that no table of ration lists
  std::vector<std::string> unlisted;  ///< the latest of these functions, oldest first
  /// Programs that it started and that start other programs out of reach of the limit: `docker`, `srun`.
  std::vector<std::string> launchers;
  std::optional<std::uint64_t> idle_ns;  ///< time since the last allocation, free or denial; absent if none was seen
  bool waiting = false;
  bool ended = false;            ///< true if no process is left, but others still hold its memory
  bool driver_enforced = false;  ///< true if the driver enforces the limit too, through the cgroup
  bool contexts_counted = true;  ///< false if its book counts allocations only
  bool suspended = false;  ///< true if its memory is on the host: `used` is 0, and `suspended_bytes` is what it held
  bool resuming = false;   ///< true if it is suspended and asks for its device
  Bytes suspended_bytes;
  HostView host;         ///< host memory of the workload, the same on each of its devices
  Message altered;       ///< damage to its book, so that its whole limit counts as used; empty if sound
  Message held_back_by;  ///< why `limit` is below `configured_limit`; empty if it is not
  std::vector<ProcessView> processes;

  [[nodiscard]] bool shrinking() const { return used > limit; }
  /// Returns the usage according to the book, or 0 if the driver lists none of the workload's processes, since a book
  /// can claim anything. The book's figure may rightly exceed the driver's, which leaves out managed memory.
  [[nodiscard]] Bytes trusted_usage() const;
};

/// A process that holds memory on a device and is in no book that could be read.
struct UngovernedView {
  ProcessView process;
  std::optional<std::uint32_t> owner;  ///< its user; absent if it has ended
  int gpu = 0;
  std::string workload;  ///< workload that it descends from, but whose guard it does not have; empty if there is none
  std::string removed_book;       ///< book that it was started with, and that was removed; empty if none was
  std::string container;          ///< container that it runs in; empty for none
  std::string origin;             ///< what started it, by its cgroup: `ssh session 3`, `cron.service`; empty if unknown
  const char* policy = "report";  ///< report, warn or terminate; null if no daemon runs

  /// Returns why it is in no book, as text.
  [[nodiscard]] Message why() const;
};

struct DeviceView {
  machine::Device device;
  Bytes governed;    ///< usage according to the books
  Bytes ungoverned;  ///< usage of processes in no book, as the driver reports it
  Bytes undecided;   ///< usage of processes of which only a daemon of root sees whether they are in a book
  /// The reason why the driver does not report bytes of each process; absent if it does.
  std::optional<FixedMessage> unknown_reason;
  std::optional<Bytes> unexplained;  ///< usage of the driver itself and of unknown holders; absent if not reported
  std::optional<Bytes> orphaned;     ///< usage of no listed process; absent if not reported
  /// Guarantees and slices. Each tenant counts with its own guarantee or with the sum of its workloads' guarantees,
  /// whichever is larger.
  Bytes promised;
  Bytes keep_free;  ///< bytes that the configuration keeps free
  Bytes sliced;     ///< slices without a workload; an occupied slice counts as its workload's guarantee
  Bytes available;  ///< bytes free for a workload without a guarantee
  std::map<std::string, Bytes> kept_for;         ///< unused guarantees by tenant, of the tenant or of its workloads
  std::optional<std::uint64_t> seconds_to_full;  ///< time until it is full at the present growth; absent without growth

  /// Returns the bytes in use; absent if the driver does not report them.
  [[nodiscard]] std::optional<Bytes> used() const {
    return device.free ? std::optional(device.total - std::min(device.total, *device.free)) : std::nullopt;
  }
};

struct Snapshot {
  std::uint64_t time_ns = 0;
  std::string driver_version;
  Message machine_problem;  ///< why the driver could not be queried; empty if it was
  std::vector<DeviceView> devices;
  std::vector<AccountView> accounts;  ///< ordered by path and account
  std::vector<UngovernedView> ungoverned;
  /// The seconds until a tenant's workloads on a GPU reach their limits at the present growth. There is no entry where
  /// usage does not grow.
  std::map<std::pair<std::string, int>, std::uint64_t> seconds_to_limit;

  /// Returns the account; null if there is no such account.
  [[nodiscard]] const AccountView* account_of(const std::string& path, std::uint32_t account) const;
};

/// The daemon's own record of a workload, beyond its book.
struct WorkloadStatus {
  std::vector<Bytes> limits;             ///< limits by account, as last written into the book
  std::vector<Bytes> configured_limits;  ///< limits by account, as configured
  std::vector<Bytes> guarantees;         ///< guarantees by account
  std::vector<Message> held_back_by;     ///< reasons for lower limits in force, by account
  std::optional<std::uint64_t> last_activity_ns;
  std::uint64_t limit_changes = 0;
  Message altered;  ///< damage to its book
  bool suspended = false, resuming = false;
  bool driver_enforced = false;
};

/// Builds the snapshot. DevicePromises::note() fills in `promised`, `available` and `kept_for` of the devices later.
[[nodiscard]] Snapshot build_snapshot(const Registry& registry, const Result<machine::Machine>& machine,
                                      const std::unordered_map<std::string, WorkloadStatus>& known,
                                      std::uint64_t now_ns);

}  // namespace ration::node
