// The contents of a book at one moment, copied out of it. Used by programs that watch workloads.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/process.hpp"
#include "book/denial_reason.hpp"
#include "book/terms.hpp"

namespace ration::book {

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
  DeviceUuid device{};  ///< the device of the request; all zeros if unknown
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
  Bytes kept;         ///< the part of `used` that a process gave up, or left at its end, and that others still hold
  Bytes shared;       ///< the part of `used` that several processes may hold, even processes of other workloads
  Bytes unrequested;  ///< the bytes beyond `used`; see Account::unrequested()
  std::uint64_t times_emptied = 0;  ///< how often the workload was left without a process
  Bytes reach;                      ///< the value up to which the daemon raises `limit` at once; 0 if it does not
  Bytes own_limit = kUnlimited;     ///< the limit that a program of the workload set; `limit` is set from outside
  Bytes granted;                    ///< the limit that was granted; `limit` is lower while others need the room
};

/// Pinned host memory of a workload.
struct HostSnapshot {
  bool counted = false;  ///< false in the book of an older ration, which does not count host memory
  Bytes limit = kUnlimited;
  Bytes own_limit = kUnlimited;  ///< as in an AccountSnapshot
  Bytes used;
  Bytes peak;
  std::uint64_t denials = 0;
  /// Returns the binding limit.
  [[nodiscard]] Bytes in_force() const { return std::min(limit, own_limit); }
};

struct ProcessSnapshot {
  std::uint32_t slot = 0;
  ProcessIdentity identity;
  std::string command;
  std::uint64_t attached_ns = 0;
  std::uint32_t waiting = 0;                          ///< number of its threads that sleep until bytes come back
  std::vector<Bytes> held, context, pooled, managed;  // one value per account
  Bytes host;                                         // pinned host memory
  std::vector<Bytes> shared;    // per account, the held memory that others may hold too, whichever process is charged
  std::uint32_t unmovable = 0;  // flags of Unmovable for memory that it has or had
  [[nodiscard]] bool has(Unmovable what) const { return (unmovable & static_cast<std::uint32_t>(what)) != 0; }
};

/// Memory that several processes may hold, as the book has it. Processes are identified by their slots.
struct SharedSnapshot {
  using Holders = std::bitset<1024>;  ///< one bit for each slot of a book

  std::uint64_t number = 0;
  std::uint64_t part_of = 0;  ///< the number of the memory that lives while this piece is held; 0 if not a piece
  std::uint32_t account = 0;  ///< a device's account, or kHostAccount
  std::optional<std::uint32_t> maker;  ///< the process that is charged for the lent bytes; absent if it has ended
  Bytes lent;
  Bytes given_up;  ///< the part of the lent bytes that is given up
  Bytes kept;      ///< the bytes charged to the common slot
  Holders holders;
  std::uint64_t control_device = 0, control_inode = 0;  ///< the file of its descriptors; see layout.hpp
};

/// Everything in a book at one moment, copied with bounds checks, since another process may be writing the file.
struct BookSnapshot {
  std::string name, tenant, slice, labels, command, simulation;
  std::uint64_t run_number = 0, created_ns = 0, ended_ns = 0, limit_changes = 0, denial_count = 0;
  std::uint32_t waiting = 0;           ///< number of threads that sleep until bytes come back
  std::uint64_t granted_waits = 0;     ///< requests that slept and then got their memory
  std::uint64_t unlisted_count = 0;    ///< unlisted functions called so far that may concern memory
  std::vector<std::string> unlisted;   ///< the newest of them by name, oldest first
  std::vector<std::string> launchers;  ///< launchers that its processes started
  std::int32_t exit_status = 0;
  ProcessIdentity creator;
  OnDeny on_deny = OnDeny::kFail;
  AccountMode account_mode = AccountMode::kDevice;
  ManagedPolicy managed = ManagedPolicy::kResident;
  std::vector<AccountSnapshot> accounts;
  HostSnapshot host;
  std::vector<Bytes> wanted;  ///< per account, the largest charge that waits until bytes come back
  std::vector<ProcessSnapshot> processes;
  std::vector<Denial> denials;  // oldest first
  std::vector<SharedSnapshot> shared_memory;
  std::string control_path;  ///< path of the file whose descriptors are exported
};

/// Returns the bytes that the workload holds, per account: the charges of living processes, and memory that they gave
/// up, or that ended processes left, while others hold it; never more than the book's own count. The processes of
/// `book` are the living ones. The result is what Processes::reap() and SharedMemory::settle() would arrive at; the
/// book stays unchanged, so its file may be another user's.
[[nodiscard]] std::vector<Bytes> held_by_living(const BookSnapshot& book);
/// Returns the same figure for pinned host memory.
[[nodiscard]] Bytes host_held_by_living(const BookSnapshot& book);

}  // namespace ration::book
