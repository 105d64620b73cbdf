// One simulated machine: its devices' memory and the processes that hold it, shared by every process that uses the same
// node through a memory-mapped state file and one sparse memory file a device.
// Used by the simulated driver and the simulated NVML. Promises: bytes of a process that ended, however and wherever it
// ended, or executed another program, come back at the next shortage or question, and are no part of a new peak; a
// device takes no host memory until its contents are written.
#pragma once

#include <fcntl.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/process.hpp"
#include "node_spec.hpp"

namespace ration::sim {

inline constexpr int kMaxDevices = 16;
inline constexpr int kMaxProcesses = 1024;
inline constexpr std::uint32_t kMaxGranules = 1U << 17;  // 256 GiB a device
inline constexpr std::uint32_t kMaxPlaces = 1U << 18;    // of a device's window: see places()

struct ProcessUse {
  std::int32_t pid = 0;
  std::uint64_t pid_namespace = 0;
  Bytes held;      ///< granules, contexts, and what managed memory has on the device
  Bytes contexts;  ///< of these
  Bytes managed;   ///< of these
  Bytes on_host;   ///< moved there by a checkpoint: no part of `held`
};

struct DeviceUse {
  Bytes free;
  Bytes peak;  ///< held at most at any instant since the node was made
  std::vector<ProcessUse> processes;
};

/// No limit, as the driver writes it.
inline constexpr Bytes kNoGroupLimit{~std::uint64_t{0}};

/// The limits of one cgroup on one device, and what the processes in it and below it hold there.
struct GroupLimits {
  Bytes soft;  ///< kept and told; nothing here is evicted
  Bytes hard = kNoGroupLimit;
  Bytes used;
};

/// A device as a process sees that is in a limited cgroup; the whole device where no limit binds.
struct MemorySeen {
  Bytes total, free;
  Bytes headroom = kNoGroupLimit;  ///< before the nearest limit, whatever the device has left
  Bytes used;                      ///< of the group whose limit is `total`
};

/// The calling process's cgroup, as a full path: /sys/fs/cgroup and what /proc/self/cgroup says.
[[nodiscard]] std::string own_group();
/// The folder of a cgroup, without links and dots. False: there is none.
[[nodiscard]] bool find_group(const char* path, std::string& out);

/// What a process has that drivers do not move at a checkpoint.
enum class Unmovable : std::uint32_t { kManaged = 1, kShared = 2 };

/// kGone: the process ended. kUnmovable: it has what this driver does not move, and has failed. kLost: an earlier
/// restore found no room. kKilled: the driver could not do without persistence mode.
enum class Move { kDone, kGone, kUnmovable, kFull, kLost, kKilled };

struct NodeState;
struct ProcessRecord;
struct Turnstile;

/// Granules of one device that belong together: nearly always one run, else the pieces one by one.
struct Granules {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::vector<std::uint32_t> scattered;  ///< empty when they are the run that starts at `first`

  [[nodiscard]] std::uint32_t at(std::uint32_t index) const {
    return scattered.empty() ? first + index : scattered[index];
  }
};

/// How the node's files are opened: whoever can write in its folder must not lead elsewhere.
inline constexpr int kOpenFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;

/// This process's view of the node. Thread-safe.
class Node {
 public:
  /// The node named by RATION_SIM (`T4:16GiB*2,A100-40`; one T4 if unset) in the folder RATION_SIM_DIR. Null: no device
  /// description could be read, or the folder cannot be written.
  static Node* get();

  /// Maps the devices' memory; whoever only asks who holds what need not. False: the folder cannot be written.
  bool open_memory();

  [[nodiscard]] const std::vector<Model>& models() const { return spec_.devices; }
  [[nodiscard]] const NodeSpec& spec() const { return spec_; }
  void uuid(int device, unsigned char (&out)[16]) const;
  /// As NVIDIA's tools print it: `GPU-…`, of an instance `MIG-…`.
  [[nodiscard]] std::string uuid_text(int device) const;
  /// Of the card that a device is, or is a part of.
  void card_uuid(int device, unsigned char (&out)[16]) const;
  [[nodiscard]] std::string card_uuid_text(int device) const;

  /// This process is a user of the node's devices: others can lock it, and the limits of its cgroup are its own. It is
  /// also what the first take() does. False: the node has too many processes.
  bool attach();

  /// Takes whole granules for this process, contiguous if it can be. Managed memory makes room for them. False: the
  /// device is full, or its cgroup's limit is reached.
  bool take(int device, std::uint64_t count, Granules& out);
  /// Gives back those of them that are this process's.
  void give(int device, const Granules& granules);
  /// Managed memory of this process moves to the device: as much of it as that has free, in whole granules, is
  /// returned. It counts for no cgroup's limit.
  Bytes take_managed(int device, Bytes more);
  void give_managed(int device, Bytes bytes);
  /// What it has there now: less than it took where others needed the room.
  [[nodiscard]] Bytes managed(int device);
  bool take_context(int device);
  void give_context(int device);

  [[nodiscard]] Bytes free(int device);
  /// Who holds bytes of the device. Whom a checkpoint moved to the host does not.
  [[nodiscard]] std::vector<ProcessUse> uses(int device);
  /// Everything about one device at one instant.
  [[nodiscard]] DeviceUse survey(int device);

  /// Address of a granule in this process. The whole device is mapped once, so no allocation needs the system.
  [[nodiscard]] char* window(int device) const { return windows_[device]; }
  [[nodiscard]] int memory_file(int device) const { return files_[device]; }
  /// Backs the granules with host memory before they are written. False: the host has no more.
  bool touch(int device, std::uint32_t granule);

  /// Places for granules in the device's window: several times what the device has, so that memory that checkpoints
  /// moved to the host keeps its place while others take its bytes.
  [[nodiscard]] std::uint32_t places(int device) const;

  // node_groups.cpp: limits of cgroups.
  /// False: too many groups have limits. kNoGroupLimit and no soft limit: none.
  bool set_limits(int device, const std::string& group, Bytes soft, Bytes hard);
  [[nodiscard]] GroupLimits limits(int device, const std::string& group);
  [[nodiscard]] MemorySeen seen(int device);

  /// This process has such memory, or had: what is left of it when it is freed, no driver says.
  void note(Unmovable what);

  // node_checkpoint.cpp: checkpoints of any process on the node.
  /// The living process of that number, as the caller numbers processes. Null: it is none of this node's.
  Turnstile* find_process(int pid, ProcessIdentity& out);
  /// What each step does to the node; each holds the process's turnstile, and sets the state it leads to.
  Move lock_process(Turnstile& turnstile, const ProcessIdentity& process);
  Move unlock_process(Turnstile& turnstile, const ProcessIdentity& process);
  /// Moves all that the process holds to the host, and back. kFull: the device or a cgroup's limit has no room.
  Move park(Turnstile& turnstile, const ProcessIdentity& process);
  Move unpark(Turnstile& turnstile, const ProcessIdentity& process);

  // For blocks that several processes hold (shared_blocks.hpp). All but folder() under the lock.
  [[nodiscard]] const std::string& folder() const { return folder_; }
  void lock();
  void unlock();
  [[nodiscard]] NodeState& state() { return *state_; }
  /// Gives back what dead processes held.
  void reap();
  /// Frees all granules of that owner.
  void free_all_of(int device, std::uint16_t owner);
  /// So many granules more count for that process; for none if it is 0.
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
  std::string folder_, state_path_;
  NodeState* state_ = nullptr;
  std::once_flag memory_opened_;
  bool memory_usable_ = false;
  char* windows_[kMaxDevices] = {};
  int files_[kMaxDevices] = {};
};

}  // namespace ration::sim
