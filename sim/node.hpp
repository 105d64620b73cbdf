// One simulated machine: its devices' memory and the processes that hold it. All processes that use the same node share
// it through a memory-mapped state file and one sparse memory file per device. Used by the simulated driver and NVML.
// Promises: the bytes of a process that has ended in any way, or has executed another program, never raise the peak,
// and are given back before a request is denied or figures are returned; a device takes no host memory until its
// contents are written.
#pragma once

#include <fcntl.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/process.hpp"
#include "node_spec.hpp"

namespace ration::sim {

inline constexpr int kMaxDevices = 16;
inline constexpr int kMaxProcesses = 1024;
inline constexpr std::uint32_t kMaxGranules = 1U << 17;  // 256 GiB a device
inline constexpr std::uint32_t kMaxPlaces = 1U << 18;    // in a device's window, see places()

struct ProcessUse {
  std::int32_t pid = 0;
  std::uint64_t pid_namespace = 0;
  Bytes held;      ///< granules, contexts, and managed memory on the device
  Bytes contexts;  ///< part of `held`
  Bytes managed;   ///< part of `held`
  Bytes on_host;   ///< moved to the host by a checkpoint, not part of `held`
};

struct DeviceUse {
  Bytes free;
  Bytes peak;  ///< the most ever held at once since the node was made
  std::vector<ProcessUse> processes;
};

/// The pinned host memory: the total, its peak since the node was made, and that of each process that has some.
struct PinnedUse {
  Bytes all;
  Bytes peak;
  std::vector<std::pair<std::int32_t, Bytes>> processes;
};

/// The driver's value for no limit.
inline constexpr Bytes kNoGroupLimit{~std::uint64_t{0}};

/// The limits of one cgroup on one device, and the memory that processes in it and below it hold there.
struct GroupLimits {
  Bytes soft;  ///< stored and reported; nothing is evicted
  Bytes hard = kNoGroupLimit;
  Bytes used;
};

/// The view that a process in a limited cgroup has of a device: the whole device if no limit binds.
struct MemorySeen {
  Bytes total, free;
  Bytes headroom = kNoGroupLimit;  ///< room up to the nearest limit, even if the device has less left
  Bytes used;                      ///< use of the group whose limit is `total`
};

/// Returns the calling process's cgroup as a full path: /sys/fs/cgroup followed by the path in /proc/self/cgroup.
[[nodiscard]] std::string own_group();
/// Finds the folder of a cgroup and removes links and dots from its path. Returns false if there is none.
[[nodiscard]] bool find_group(const char* path, std::string& out);

/// The kinds of memory that some drivers do not move at a checkpoint.
enum class Unmovable : std::uint32_t { kManaged = 1, kShared = 2 };

/// The result of a step of a checkpoint. kGone: the process ended. kUnmovable: the process has memory that this driver
/// does not move, and has failed. kLost: an earlier restore found no room. kKilled: the process uses a device without
/// persistence mode, and must be killed.
enum class Move { kDone, kGone, kUnmovable, kFull, kLost, kKilled };

struct NodeState;
struct ProcessRecord;
struct Turnstile;

/// The granules of one allocation on a device. They are nearly always one run.
struct Granules {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::vector<std::uint32_t> scattered;  ///< empty if they are the run that starts at `first`

  [[nodiscard]] std::uint32_t at(std::uint32_t index) const {
    return scattered.empty() ? first + index : scattered[index];
  }
};

/// Opens a file of the node, or makes it for the users who may write in its folder. Such a user must not redirect the
/// file elsewhere, so links are not followed. Returns a descriptor, or -1.
[[nodiscard]] int open_node_file(const std::string& folder, const std::string& name);
/// Gives a new file or folder in `folder` to the users who may write in `folder`.
void share_as(const std::string& folder, int made);

/// The view that this process has of the node. Thread-safe.
class Node {
 public:
  /// Returns the node in the folder RATION_SIM_DIR that RATION_SIM describes (`T4:16GiB*2,A100-40`). If RATION_SIM is
  /// not set, node.toml in that folder describes the node; without that file, the node has one T4. Returns null if the
  /// description is invalid or the folder cannot be written.
  static Node* get();

  /// Maps the devices' memory. The mapping is not needed to read the holdings. Returns false if the folder cannot be
  /// written.
  bool open_memory();

  [[nodiscard]] const std::vector<Model>& models() const { return spec_.devices; }
  [[nodiscard]] const NodeSpec& spec() const { return spec_; }
  /// Returns the numbers of the GPUs that this process sees: all, or those whose device nodes (nvidia0 for the first)
  /// it may open.
  [[nodiscard]] const std::vector<int>& cards() const { return cards_; }
  [[nodiscard]] bool finds(int device) const;
  void uuid(int device, unsigned char (&out)[16]) const;
  /// Returns the UUID as NVIDIA's tools print it: `GPU-…`, or `MIG-…` for an instance.
  [[nodiscard]] std::string uuid_text(int device) const;
  /// Writes the UUID of the GPU that the device is or belongs to.
  void card_uuid(int device, unsigned char (&out)[16]) const;
  [[nodiscard]] std::string card_uuid_text(int device) const;

  /// Registers this process as a user of the node's devices, so that other processes can lock this process and the
  /// limits of its cgroup apply. take() does this, too. Returns false if the node has too many processes.
  bool attach();

  /// Takes whole granules for this process, contiguous if possible. Evicts managed memory to make room for them.
  /// Returns false if the device is full or a limit of the cgroup is reached.
  bool take(int device, std::uint64_t count, Granules& out);
  /// Gives back those granules that belong to this process.
  void give(int device, const Granules& granules);
  /// Moves managed memory of this process to the device. Returns the bytes for which the device had room, in whole
  /// granules. Managed memory counts for no limit of a cgroup.
  Bytes take_managed(int device, Bytes more);
  void give_managed(int device, Bytes bytes);
  /// Returns the managed memory that this process has on the device now: less than it took if others needed the room.
  [[nodiscard]] Bytes managed(int device);
  bool take_context(int device);
  void give_context(int device);

  /// Adds to the pinned host memory of this process; unpin() subtracts from it. Returns false if the node has too many
  /// processes.
  bool pin(Bytes bytes);
  void unpin(Bytes bytes);
  [[nodiscard]] PinnedUse pinned();

  [[nodiscard]] Bytes free(int device);
  /// Returns the processes that hold bytes of the device, except those that a checkpoint moved to the host.
  [[nodiscard]] std::vector<ProcessUse> uses(int device);
  /// Returns all figures of one device at one instant.
  [[nodiscard]] DeviceUse survey(int device);

  /// Returns the address of the device's window in this process. The whole device is mapped once, so allocations need
  /// no system call.
  [[nodiscard]] char* window(int device) const { return windows_[device]; }
  [[nodiscard]] int memory_file(int device) const { return files_[device]; }
  /// Backs a granule with host memory before it is written. Returns false if the host has no more.
  bool touch(int device, std::uint32_t granule);
  /// Returns true if a granule was written since it was given out. If not, all its bytes are zero.
  [[nodiscard]] bool is_touched(int device, std::uint32_t granule) const;

  /// Returns the number of places for granules in the device's window: several times its granules, so that memory that
  /// a checkpoint moved to the host keeps its place while others take its bytes.
  [[nodiscard]] std::uint32_t places(int device) const;

  // Limits of cgroups (node_groups.cpp). set_limits() returns false if too many groups have limits. A soft limit of 0
  // with a hard limit of kNoGroupLimit removes the limits of a group.
  bool set_limits(int device, const std::string& group, Bytes soft, Bytes hard);
  [[nodiscard]] GroupLimits limits(int device, const std::string& group);
  [[nodiscard]] MemorySeen seen(int device);

  /// Records that this process has memory of that kind. The record stays even if the memory is freed, because no driver
  /// reports whether any is left.
  void note(Unmovable what);

  // Checkpoints of any process on the node (node_checkpoint.cpp). find_process() returns the turnstile of the living
  // process with that number in the caller's pid namespace, or null if it is not on this node.
  Turnstile* find_process(int pid, ProcessIdentity& out);
  /// Locks a process for a checkpoint. Like the steps below, requires that the caller holds the process's turnstile,
  /// and sets the process's new state.
  Move lock_process(Turnstile& turnstile, const ProcessIdentity& process);
  Move unlock_process(Turnstile& turnstile, const ProcessIdentity& process);
  /// Moves all holdings of the process to the host; unpark() moves them back, and returns kFull if the device or a
  /// cgroup's limit has no room.
  Move park(Turnstile& turnstile, const ProcessIdentity& process);
  Move unpark(Turnstile& turnstile, const ProcessIdentity& process);

  // Blocks that several processes hold (shared_blocks.hpp). All these functions except folder() require the lock.
  [[nodiscard]] const std::string& folder() const { return folder_; }
  void lock();
  void unlock();
  [[nodiscard]] NodeState& state() { return *state_; }
  /// Gives back the holdings of dead processes.
  void reap();
  /// Frees all granules of that owner.
  void free_all_of(int device, std::uint16_t owner);
  /// Charges `granules` more to the process in slot `process` - 1, or to no process if `process` is 0.
  void charge(int device, std::uint16_t process, std::int64_t granules);

 private:
  bool open();
  [[nodiscard]] FileDescriptor reopen() const;
  int slot();
  void recount();
  [[nodiscard]] bool lives(const FileDescriptor& state_file, int index) const;
  void reap_if_anybody_died();
  void free_granule(int device, std::uint32_t granule);
  [[nodiscard]] Bytes used_locked(int device) const;
  [[nodiscard]] Bytes free_locked(int device) const;
  void note_peak(int device);
  void make_room(int slot, int device, Bytes needed);
  [[nodiscard]] bool fits_locked(int slot, int device, Bytes needed) const;
  void evict_managed(int device, Bytes needed);

  void forget_removed_groups();
  void recount_groups();
  [[nodiscard]] GroupLimits limits_of_locked(const char* path, int device) const;
  [[nodiscard]] MemorySeen seen_locked(const char* path, int device) const;
  [[nodiscard]] Bytes headroom_locked(int slot, int device) const;
  template <typename Change>
  Move change(Turnstile& turnstile, const ProcessIdentity& process, std::uint32_t state, Change&& step);

  NodeSpec spec_;
  std::vector<int> cards_;
  std::string folder_, state_path_;
  NodeState* state_ = nullptr;
  std::once_flag memory_opened_;
  bool memory_usable_ = false;
  char* windows_[kMaxDevices] = {};
  int files_[kMaxDevices] = {};
};

}  // namespace ration::sim
