// What the processes on a node share: the layout of its state file. Used by node.cpp, node_groups.cpp, node_managed.cpp
// and node_checkpoint.cpp only. Changed under the node's lock, but for the turnstiles (turnstile.hpp).
#pragma once

#include "node.hpp"
#include "node_lock.hpp"
#include "turnstile.hpp"

namespace ration::sim {

inline constexpr std::size_t kMaxGroupPath = 512;
inline constexpr std::uint32_t kMaxGroups = 256;

/// Its process lives, and runs the program that took it, while the byte of the state file with its index is locked
/// (base/byte_lock.hpp): as long as a real driver's files would be open.
struct ProcessRecord {
  std::uint32_t in_use;
  ProcessIdentity identity;
  std::uint64_t contexts[kMaxDevices];  // bytes
  std::uint64_t granules[kMaxDevices];  // how many of the owner table are this process's
  std::uint64_t managed[kMaxDevices];   // bytes of managed memory that are there
  // Of a checkpointed process: granules that have their places but do not count, and bytes of contexts.
  std::uint64_t parked[kMaxDevices], parked_contexts[kMaxDevices];
  std::uint32_t unmovable;       // of Unmovable, what it has or had
  std::uint32_t restore_failed;  // one found no room
  char group[kMaxGroupPath];     // its cgroup, as a full path
};

struct DeviceRecord {
  std::uint32_t used_granules;
  std::uint32_t hint;  // where the last run was found
  std::uint64_t context_bytes;
  std::uint64_t managed_bytes;
  std::uint64_t peak_bytes;
  std::uint16_t owner[kMaxPlaces];  // process slot + 1; 0 = free
  std::uint8_t touched[kMaxPlaces];
};

/// The limits of one cgroup.
struct GroupRecord {
  char path[kMaxGroupPath];  // empty: unused
  std::uint64_t inode;       // of its folder: a group that is made anew has no limits
  std::uint64_t soft[kMaxDevices], hard[kMaxDevices];
};

struct NodeState {
  NodeLock lock;
  std::uint32_t groups_in_use;
  std::uint32_t process_bound;  // no record from here on was ever in use
  GroupRecord groups[kMaxGroups];
  ProcessRecord processes[kMaxProcesses + 1];  // the last is not a process: what only descriptors hold
  Turnstile turnstiles[kMaxProcesses];         // of the process in the same slot
  DeviceRecord devices[kMaxDevices];
};

/// An owner that is nobody.
inline constexpr std::uint16_t kNobody = kMaxProcesses + 1;

}  // namespace ration::sim
