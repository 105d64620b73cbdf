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
  kGoverned,  ///< in a book, and uses no more than it says
  kViolator,  ///< uses more than its book says
  kUngoverned,
};

struct ProcessView {
  std::int32_t pid = 0;  ///< in this host's namespace, if known there
  std::string user, command;
  ProcessState state = ProcessState::kGoverned;
  Bytes used, context, pooled;       ///< by its book; `used` includes the other two
  Bytes host;                        ///< pinned host memory, of no device
  Bytes managed;                     ///< part of `used`; the driver's figures for processes leave it out
  Bytes shared;                      ///< part of `used` that other processes may hold too, whichever is charged
  std::optional<Bytes> driver_used;  ///< absent: not reported; `unknown_reason` says why
  FixedMessage unknown_reason = machine::kNotAttributed;

  /// Returns the part of `used` that the driver's figure includes.
  [[nodiscard]] Bytes used_by_driver() const { return used - std::min(used, managed); }
};

/// Pinned host memory of a workload, all its devices and processes together.
struct HostView {
  bool counted = false;  ///< false: an older ration made its book, and counts none
  Bytes used, peak;
  Bytes limit = kUnlimited;
  std::uint64_t denials = 0;
};

/// One workload on one device.
struct AccountView {
  std::string path;           ///< path of its book
  std::uint32_t account = 0;  ///< index in its book
  std::string workload, tenant, user, slice, labels, command;
  std::string simulation;  ///< the simulated node that it runs on; empty: real hardware
  std::uint32_t owner = 0;
  ProcessIdentity creator;  ///< its `ration run`
  std::uint64_t run = 0, started_ns = 0;
  std::optional<int> gpu;  ///< absent: the device is not (or no longer) on this machine
  std::string uuid, device;
  Bytes used, limit, configured_limit, guarantee, peak, context, pooled;
  Bytes managed;      ///< part of `used`; see ProcessView
  Bytes movable;      ///< part of `managed` that moves to the host when the workload requests more than fits
  Bytes shared;       ///< part of `used` that several processes may hold, even of other workloads
  Bytes unrequested;  ///< part of `used` that the driver holds beyond all charges (Account::unrequested())
  std::uint64_t denials = 0, last_denial = 0, limit_changes = 0;
  std::uint64_t unlisted_count = 0;   ///< calls of driver functions that no table of ration lists
  std::vector<std::string> unlisted;  ///< the newest of those functions, oldest first
  std::vector<std::string>
      launchers;  ///< programs it started that make others run elsewhere, beyond the limit: `docker`, `srun`
  std::optional<std::uint64_t> idle_ns;  ///< since its last allocation, free or denial; absent: not observed yet
  bool waiting = false;
  bool ended = false;            ///< no process is left, but others still hold its memory
  bool driver_enforced = false;  ///< the driver enforces the limit too, through the cgroup
  bool contexts_counted = true;  ///< false: its book counts allocations only
  bool suspended = false;        ///< its memory is in host memory: `used` is 0, `suspended_bytes` is what it held
  bool resuming = false;         ///< suspended, and asks for its device
  Bytes suspended_bytes;
  HostView host;         ///< of the workload, the same on each of its devices
  Message altered;       ///< damage to its book, which then counts as if it held all it may; empty: none
  Message held_back_by;  ///< why `limit` is below `configured_limit`; empty: it is not
  std::vector<ProcessView> processes;

  [[nodiscard]] bool shrinking() const { return used > limit; }
  /// Returns what its book says, or nothing where the driver lists none of its processes: a book can claim anything.
  /// Managed memory is in no figure of the driver, so a book may rightly exceed that figure.
  [[nodiscard]] Bytes trusted_usage() const;
};

/// An ungoverned process: it holds memory on a device, and is in no book.
struct UngovernedView {
  ProcessView process;
  int gpu = 0;
  std::string workload;           ///< the workload that it descends from, but whose guard it does not have; empty: none
  std::string removed_book;       ///< the book that it was started with, which was removed; empty: none was
  std::string container;          ///< empty: in none
  std::string origin;             ///< what started it, by its cgroup: `ssh session 3`, `cron.service`; empty: unknown
  const char* policy = "report";  ///< report, warn or terminate; null: no daemon runs

  /// Returns why it is in no book, as text.
  [[nodiscard]] Message why() const;
};

struct DeviceView {
  machine::Device device;
  Bytes governed;    ///< by the books
  Bytes ungoverned;  ///< by the driver, for processes in no book
  std::optional<FixedMessage>
      unknown_reason;                ///< why the driver does not report bytes of each process; absent: it does
  std::optional<Bytes> unexplained;  ///< the driver's own bytes, and those of unknown holders; absent: not reported
  std::optional<Bytes> orphaned;     ///< bytes of no listed process; absent: not reported
  Bytes
      promised;  ///< guarantees and slices; of a tenant, the larger of its own guarantee and the sum of its workloads'
  Bytes keep_free;  ///< kept free by the configuration
  Bytes sliced;     ///< slices without a workload; an occupied slice counts as its workload's guarantee
  Bytes available;  ///< free for a workload without a guarantee
  std::optional<std::uint64_t> seconds_to_full;  ///< until full at the present growth; absent: no growth

  /// Absent: the driver does not report it.
  [[nodiscard]] std::optional<Bytes> used() const {
    return device.free ? std::optional(device.total - std::min(device.total, *device.free)) : std::nullopt;
  }
};

struct Snapshot {
  std::uint64_t time_ns = 0;
  std::string driver_version;
  Message machine_problem;  ///< why the driver could not be queried; empty: it was
  std::vector<DeviceView> devices;
  std::vector<AccountView> accounts;  ///< ordered by path and account
  std::vector<UngovernedView> ungoverned;
  /// By tenant and GPU: seconds until its workloads reach their limits at the present growth; absent: no growth.
  std::map<std::pair<std::string, int>, std::uint64_t> seconds_to_limit;

  /// Returns null if there is no such account.
  [[nodiscard]] const AccountView* account_of(const std::string& path, std::uint32_t account) const;
};

/// The daemon's own record of a workload, beyond its book.
struct WorkloadStatus {
  std::vector<Bytes> limits;             ///< by account, as last written into the book
  std::vector<Bytes> configured_limits;  ///< by account, as configured
  std::vector<Bytes> guarantees;         ///< by account
  std::vector<Message> held_back_by;     ///< by account
  std::optional<std::uint64_t> last_activity_ns;
  std::uint64_t limit_changes = 0;
  Message altered;  ///< damage to its book
  bool suspended = false, resuming = false;
  bool driver_enforced = false;
};

/// Builds the snapshot; note_promises() fills `promised` and `available` of the devices later.
[[nodiscard]] Snapshot build_snapshot(const Registry& registry, const Result<machine::Machine>& machine,
                                      const std::unordered_map<std::string, WorkloadStatus>& known,
                                      std::uint64_t now_ns);

}  // namespace ration::node
