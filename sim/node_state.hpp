// The layout of a node's state file, which its processes share. Used by node*.cpp and shared_blocks.cpp only. Changed
// under the node's lock, but for the turnstiles (turnstile.hpp) and `touched`.
//
// A process may be killed between any two stores. So the owner tables, the records of the living processes and those of
// the shared blocks are the truth, each change of them is one store that leaves them true, and a dead process's record
// stays until everything in it has been given back: doing that again changes nothing. All other fields are sums of
// these, and are computed again when a holder of the lock has died.
#pragma once

#include "node.hpp"
#include "node_lock.hpp"
#include "turnstile.hpp"

namespace ration::sim {

inline constexpr std::size_t kMaxGroupPath = 512;
inline constexpr std::uint32_t kMaxGroups = 256;

inline constexpr std::uint32_t kMaxShared = 1U << 15;
inline constexpr int kMaxImporters = 64;

/// Its process lives, and runs the program that took it, while the byte of the state file with its index is locked
/// (base/byte_lock.hpp), as long as a real driver's files would be open. `in_use` is set last when the record is made,
/// and cleared last when the holdings of a dead process have been given back.
struct ProcessRecord {
  std::uint32_t in_use;
  std::uint32_t parked;  // a checkpoint moved all its memory to the host: it does not count on the devices
  ProcessIdentity identity;
  std::uint64_t contexts[kMaxDevices];  // bytes
  std::uint64_t managed[kMaxDevices];   // bytes of managed memory that are there
  std::uint64_t granules[kMaxDevices];  // sum over the owner tables and the blocks charged to it
  std::uint64_t pinned;                 // bytes of pinned host memory
  std::uint32_t unmovable;              // flags of Unmovable that it has or had
  std::uint32_t restore_failed;         // a restore found no room
  char group[kMaxGroupPath];            // its cgroup, as a full path
};

/// A block of granules that several processes may hold (shared_blocks.hpp). `id` is set last when the block is
/// published, and cleared last when it is freed.
struct SharedRecord {
  std::uint64_t id;  // 0: unused
  std::uint32_t device;
  std::uint16_t owner;                     // process slot + 1; 0: it gave the block up, or ended
  std::uint16_t charged;                   // process slot + 1 for which the granules count; 0: for none
  std::uint32_t importers[kMaxImporters];  // process slot + 1, with its number of imports in the upper half; 0: unused
};

struct DeviceRecord {
  std::uint32_t hint;  // where the last run was found
  // Sums, as recount() makes them.
  std::uint32_t used_granules;
  std::uint64_t context_bytes;
  std::uint64_t managed_bytes;
  std::uint64_t peak_bytes;
  std::uint16_t owner[kMaxPlaces];  // process slot + 1, or kShared + index of a shared block; 0 = free
  std::uint8_t touched[kMaxPlaces];
};

/// The limits of one cgroup.
struct GroupRecord {
  char path[kMaxGroupPath];  // empty: unused; its first letter is set last
  std::uint64_t inode;       // its folder's: a group that is made again has no limits
  std::uint64_t soft[kMaxDevices], hard[kMaxDevices];
};

struct NodeState {
  NodeLock lock;
  std::uint32_t groups_in_use;
  std::uint32_t process_bound;  // no record from here on was ever in use
  GroupRecord groups[kMaxGroups];
  std::uint32_t shared_bound;  // no block from here on was ever in use
  std::uint64_t last_shared;   // how many blocks were ever published
  std::uint64_t pinned_peak;   // bytes of pinned host memory at most
  ProcessRecord processes[kMaxProcesses];
  Turnstile turnstiles[kMaxProcesses];  // of the process in the same slot
  SharedRecord shared[kMaxShared];
  DeviceRecord devices[kMaxDevices];
};

/// From here on an owner of a granule is a shared block.
inline constexpr std::uint16_t kShared = 1U << 15;
static_assert(kMaxProcesses < kShared && kShared + kMaxShared <= 1U << 16);

}  // namespace ration::sim
