// The layout of a node's state file, which its processes share. Used by node*.cpp and shared_blocks.cpp only. Changes
// require the node's lock, except for the turnstiles (turnstile.hpp) and `touched`.
//
// A process may be killed between any two stores. Therefore only the owner tables, the records of living processes and
// the records of shared blocks are authoritative, and each change to them is one store, which leaves them correct. A
// dead process's record stays until everything in it has been given back; giving back may be repeated without harm. All
// other fields are sums of the authoritative ones. They are computed again after a process died while it held the lock.
#pragma once

#include "node.hpp"
#include "node_lock.hpp"
#include "turnstile.hpp"

namespace ration::sim {

inline constexpr std::size_t kMaxGroupPath = 512;
inline constexpr std::uint32_t kMaxGroups = 256;

inline constexpr std::uint32_t kMaxShared = 1U << 15;
inline constexpr int kMaxImporters = 64;

/// A process that uses the node. While the process lives and runs the program that took the record, the byte of the
/// state file at the record's index is locked (base/byte_lock.hpp). With a real driver, the process's files would be
/// open for as long. `in_use` is the last field to be set when the record is made. It is cleared last, after the
/// holdings of a dead process have been given back.
struct ProcessRecord {
  std::uint32_t in_use;
  std::uint32_t parked;  // a checkpoint moved its memory to the host; that memory counts on no device
  ProcessIdentity identity;
  std::uint64_t contexts[kMaxDevices];  // bytes
  std::uint64_t managed[kMaxDevices];   // bytes of managed memory on the device
  std::uint64_t granules[kMaxDevices];  // the sum over the owner tables and the shared blocks charged to the process
  std::uint64_t pinned;                 // bytes of pinned host memory
  std::uint32_t unmovable;              // the kinds of Unmovable memory that it has or had
  std::uint32_t restore_failed;         // a restore found no room
  char group[kMaxGroupPath];            // its cgroup as a full path
};

/// A block of granules that several processes may hold (shared_blocks.hpp). `id` is the last field to be set when the
/// block is published, and the last to be cleared when the block is freed.
struct SharedRecord {
  std::uint64_t id;  // 0: unused
  std::uint32_t device;
  std::uint16_t owner;                     // process slot + 1; 0: the owner gave the block up or ended
  std::uint16_t charged;                   // process slot + 1 of the process that the granules count for; 0: none
  std::uint32_t importers[kMaxImporters];  // process slot + 1, and the number of imports in the upper half; 0: unused
};

struct DeviceRecord {
  std::uint32_t hint;  // the place where the last run was found
  // The next three fields are sums, which recount() computes.
  std::uint32_t used_granules;
  std::uint64_t context_bytes;
  std::uint64_t managed_bytes;
  std::uint64_t peak_bytes;
  std::uint16_t owner[kMaxPlaces];  // process slot + 1, or kShared + index of a shared block; 0: free
  std::uint8_t touched[kMaxPlaces];
};

/// The limits of one cgroup.
struct GroupRecord {
  char path[kMaxGroupPath];  // empty: unused; its first letter is written last
  std::uint64_t inode;       // its folder's inode; another inode means that the group was made anew, without limits
  std::uint64_t soft[kMaxDevices], hard[kMaxDevices];
};

struct NodeState {
  NodeLock lock;
  std::uint32_t groups_in_use;
  std::uint32_t process_bound;  // no record from this index on was ever used
  GroupRecord groups[kMaxGroups];
  std::uint32_t shared_bound;  // no block from this index on was ever used
  std::uint64_t last_shared;   // the number of blocks that were ever published
  std::uint64_t pinned_peak;   // the most bytes of pinned host memory at once
  ProcessRecord processes[kMaxProcesses];
  Turnstile turnstiles[kMaxProcesses];  // the turnstile of the process in the same slot
  SharedRecord shared[kMaxShared];
  DeviceRecord devices[kMaxDevices];
};

/// The smallest value of `DeviceRecord::owner` that stands for a shared block.
inline constexpr std::uint16_t kShared = 1U << 15;
static_assert(kMaxProcesses < kShared && kShared + kMaxShared <= 1U << 16);

}  // namespace ration::sim
