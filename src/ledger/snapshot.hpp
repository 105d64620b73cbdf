// What stood in a book at one moment, copied out of it. Used by whoever watches workloads.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/process.hpp"
#include "ledger/terms.hpp"

namespace ration::ledger {

/// One denied charge, copied out of the book.
struct Denial {
  std::uint64_t sequence = 0;
  std::uint64_t time_ns = 0;
  Bytes requested;
  Bytes used;
  Bytes limit;
  std::uint64_t device_free = kUnknownBytes;
  std::int32_t pid = 0;
  std::uint32_t account = 0;
  DenialReason reason = DenialReason::kLimit;
  std::string function;
  std::uint64_t waited_ns = 0;
  DeviceUuid device{};  ///< on which it was asked for; all zeros where that is not known
};

struct AccountSnapshot {
  DeviceUuid device{};
  std::string device_name;
  Bytes device_total;
  Bytes limit;
  Bytes guarantee;
  Bytes used;
  Bytes peak;
  std::uint64_t denials = 0;
  Bytes kept;         ///< of `used`: given up by the process that took it, or that has ended, and held by others
  Bytes shared;       ///< of `used`: several processes may hold it, also some of other workloads
  Bytes unrequested;  ///< beside `used`: see Account::unrequested()
  std::uint64_t times_emptied = 0;  ///< how often the workload was left without a process
  Bytes reach;                      ///< what the daemon raises `limit` to at once; 0: not above it
  Bytes own_limit = kUnlimited;     ///< what a program of the workload set for it; `limit` is what outsiders set
  Bytes granted;                    ///< the limit that was granted; `limit` is lower while others need the room
};

struct ProcessSnapshot {
  std::uint32_t slot = 0;
  ProcessIdentity identity;
  std::string command;
  std::uint64_t attached_ns = 0;
  std::uint32_t waiting = 0;                          ///< threads of it that sleep until bytes come back
  std::vector<Bytes> held, context, pooled, managed;  // by account
  std::vector<Bytes> shared;    // by account: what it holds that others may hold, too, whoever is charged
  std::uint32_t unmovable = 0;  // of Unmovable, what it has or had
  [[nodiscard]] bool has(Unmovable what) const { return (unmovable & static_cast<std::uint32_t>(what)) != 0; }
};

/// Memory that several processes may hold, as the book has it. Processes go by their slot.
struct SharedSnapshot {
  using Holders = std::bitset<1024>;  ///< by slot; as many as a book has

  std::uint64_t number = 0;
  std::uint64_t part_of = 0;  ///< the number of what lives while this piece is held; 0: it stands for itself
  std::uint32_t account = 0;
  std::optional<std::uint32_t> maker;  ///< who is charged what it lends; absent: it has ended
  Bytes lent;
  Bytes given_up;  ///< of what is lent
  Bytes kept;      ///< charged to nobody in particular
  Holders holders;
  std::uint64_t control_device = 0, control_inode = 0;  ///< of the file of its descriptors; see layout.hpp
};

/// Everything in a book at one moment, copied with bounds checks: safe to take from a file somebody else writes.
struct BookSnapshot {
  std::string name, tenant, slice, labels, command, simulation;
  std::uint64_t run_number = 0, created_ns = 0, ended_ns = 0, limit_changes = 0, denial_count = 0;
  std::uint32_t waiting = 0;           ///< threads that sleep until bytes come back
  std::uint64_t granted_waits = 0;     ///< requests that slept and then got their memory
  std::uint64_t unlisted_count = 0;    ///< functions called that no table lists and that may concern memory
  std::vector<std::string> unlisted;   ///< the newest of them by name, oldest first
  std::vector<std::string> launchers;  ///< programs that its processes started, and that have others started elsewhere
  std::int32_t exit_status = 0;
  ProcessIdentity creator;
  OnDeny on_deny = OnDeny::kFail;
  AccountMode account_mode = AccountMode::kDevice;
  ManagedPolicy managed = ManagedPolicy::kResident;
  std::vector<AccountSnapshot> accounts;
  std::vector<Bytes> wanted;  ///< by account: the largest charge that sleeps until bytes come back
  std::vector<ProcessSnapshot> processes;
  std::vector<Denial> denials;  // oldest first
  std::vector<SharedSnapshot> shared_memory;
  std::string control_path;  ///< the file that exported descriptors are of
};

/// What the workload holds on each device, by account: what living processes are charged, and what others hold of
/// memory that those gave up, or that have ended; never more than the book's own count. The processes of `book` are the
/// living. As Processes::reap() and SharedMemory::settle() would find it; the book stays as it is, so its file may be
/// anybody's.
[[nodiscard]] std::vector<Bytes> held_by_the_living(const BookSnapshot& book);

}  // namespace ration::ledger
