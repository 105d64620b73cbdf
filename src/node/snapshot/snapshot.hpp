// The node at one moment: the books compared with what the driver says. Used by everything that shows,
// records or exports it. Promise: a number that nobody could tell is absent, never 0.
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
  kManaged,   ///< in a book, and uses no more than that says
  kViolator,  ///< uses more than its book says it was given
  kUnmanaged,
};

struct ProcessView {
  std::int32_t pid = 0;  ///< on this host, where that is known
  std::string user, command;
  ProcessState state = ProcessState::kManaged;
  Bytes used, context, pooled;       ///< by its book; the last two are part of the first
  Bytes managed;                     ///< so, too: the driver's figures for processes leave it out
  Bytes shared;                      ///< what it holds that others may hold, too, whoever is charged for it
  std::optional<Bytes> driver_used;  ///< absent where the driver does not say: `untold` is why
  const char* untold = machine::kNotAttributed;

  /// What of `used` is in `driver_used`.
  [[nodiscard]] Bytes used_by_driver() const { return used - std::min(used, managed); }
};

/// One workload on one device.
struct AccountView {
  std::string path;           ///< of its book
  std::uint32_t account = 0;  ///< in its book
  std::string workload, tenant, user, slice, labels, command;
  std::string simulation;  ///< the simulated node that it runs on; empty: the machine itself
  std::uint32_t owner = 0;
  ProcessIdentity creator;  ///< its `ration run`
  std::uint64_t run = 0, started_ns = 0;
  std::optional<int> gpu;  ///< absent: the device is not on this machine (any more)
  std::string uuid, device;
  Bytes used, limit, configured_limit, guarantee, peak, context, pooled;
  Bytes managed;      ///< of `used`: see ProcessView
  Bytes movable;      ///< of these: what moves to the host when the workload asks for more than fits
  Bytes shared;       ///< of `used`: several processes may hold it, also some of other workloads
  Bytes unrequested;  ///< of `used`: held by the driver beyond all charges (Account::unrequested())
  std::uint64_t denials = 0, last_denial = 0, limit_changes = 0;
  std::uint64_t unlisted_count = 0;      ///< functions of the driver that it called and no table lists
  std::vector<std::string> unlisted;     ///< the newest of them, oldest first
  std::vector<std::string> launchers;    ///< what it started that has programs started elsewhere, where no limit is
  std::optional<std::uint64_t> idle_ns;  ///< since it last took or gave back anything; absent: nobody watched it
  bool waiting = false;
  bool ended = false;            ///< and what it made is held elsewhere
  bool by_driver = false;        ///< the driver holds its limit as well, over its cgroup
  bool contexts_counted = true;  ///< false: its book enters allocations only
  bool suspended = false;        ///< its memory is not on the device: `used` is 0, `away` says how much it was
  bool comes_back = false;       ///< suspended, and asks for its device
  Bytes away;
  std::string altered;       ///< what was done to its book: it counts as if it held all it may; empty: nothing
  std::string held_back_by;  ///< why limit < configured_limit; empty: it is not
  std::vector<ProcessView> processes;

  [[nodiscard]] bool shrinking() const { return used > limit; }
  /// What it holds as its book says, or nothing where the driver knows that none of its processes is there: a book can
  /// say what it likes. (Managed memory is in no number of the driver, so a book may well say more than that.)
  [[nodiscard]] Bytes trusted_usage() const;
};

/// A process with memory on a device that is in no book.
struct UngovernedView {
  ProcessView process;
  int gpu = 0;
  std::string workload;   ///< that it descends from, whose guard it does not have; empty: from none
  std::string container;  ///< empty: in none
  std::string origin;     ///< how it came to be, from its cgroup: `ssh session 3`, `cron.service`; empty: not told
  const char* policy = "report";  ///< what is done about it: report, warn or terminate; null: no daemon runs

  /// Why it is in no book, for people.
  [[nodiscard]] Message why() const;
};

struct DeviceView {
  machine::Device device;
  Bytes governed;                    ///< by the books
  Bytes ungoverned;                  ///< by the driver, of processes in no book
  const char* untold = nullptr;      ///< why it does not say what each of them holds; null: it does
  std::optional<Bytes> unexplained;  ///< the driver's own, and what nobody accounts for; absent: it does not say
  std::optional<Bytes> orphaned;     ///< of no process that the driver lists; absent: it does not tell
  Bytes promised;   ///< guarantees and slices: of a tenant what it has of its own, or its workloads have together
  Bytes keep_free;  ///< that nobody is given, by the configuration
  Bytes sliced;     ///< slices in which nothing runs; those of the others are guarantees
  Bytes available;  ///< that somebody without a guarantee may take at this moment
  std::optional<std::uint64_t> seconds_to_full;  ///< if its use goes on growing; absent: it does not grow
  /// Absent: the driver does not say.
  [[nodiscard]] std::optional<Bytes> used() const {
    return device.free ? std::optional(device.total - std::min(device.total, *device.free)) : std::nullopt;
  }
};

struct Snapshot {
  std::uint64_t time_ns = 0;
  std::string driver_version;
  std::string machine_problem;  ///< why no device could be asked; empty: they were
  std::vector<DeviceView> devices;
  std::vector<AccountView> accounts;  ///< by path and number in the book
  std::vector<UngovernedView> ungoverned;
  /// By tenant and GPU: until its workloads' limits, if their use goes on growing; absent: it does not grow.
  std::map<std::pair<std::string, int>, std::uint64_t> seconds_to_limit;

  /// Null: it is not there.
  [[nodiscard]] const AccountView* account_of(const std::string& path, std::uint32_t account) const;
};

/// What the node itself knows of a workload beyond its book.
struct Knowledge {
  std::vector<Bytes> limits;              ///< by account, as its book has them by now
  std::vector<Bytes> configured_limits;   ///< by account, as asked for
  std::vector<Bytes> guarantees;          ///< by account, as the daemon owns them
  std::vector<std::string> held_back_by;  ///< by account
  std::optional<std::uint64_t> last_activity_ns;
  std::uint64_t limit_changes = 0;
  std::string altered;  ///< what was done to its book
  bool suspended = false, comes_back = false;
  bool by_driver = false;
};

/// Leaves `promised` and `available` of the devices to note_promises().
[[nodiscard]] Snapshot build_snapshot(const Registry& registry, const Result<machine::Machine>& machine,
                                      const std::unordered_map<std::string, Knowledge>& known, std::uint64_t now_ns);

}  // namespace ration::node
