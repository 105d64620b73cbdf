// One simulated machine: its devices' memory and the processes that hold it, shared by every process that uses the same
// node through a memory-mapped state file and one sparse memory file a device.
// Used by the simulated driver and the simulated NVML. Promises: bytes of a process that was killed come back at the
// next shortage or question; a device takes no host memory until its contents are written.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/process.hpp"
#include "node_spec.hpp"

namespace ration::sim {

inline constexpr int kMaxDevices = 16;
inline constexpr int kMaxProcesses = 1024;
inline constexpr std::uint32_t kMaxGranules = 1U << 17;  // 256 GiB a device

struct ProcessUse {
  std::int32_t pid = 0;
  Bytes held;      ///< granules and contexts
  Bytes contexts;  ///< of these
};

struct DeviceUse {
  Bytes free;
  Bytes peak;  ///< held at most at any instant since the node was made
  std::vector<ProcessUse> processes;
};

struct NodeState;

/// Granules of one device that belong together: nearly always one run, else the pieces one by one.
struct Granules {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::vector<std::uint32_t> scattered;  ///< empty when they are the run that starts at `first`

  [[nodiscard]] std::uint32_t at(std::uint32_t index) const {
    return scattered.empty() ? first + index : scattered[index];
  }
};

/// This process's view of the node. Thread-safe.
class Node {
 public:
  /// The node named by RATION_SIM (`T4:16GiB*2,A100-40`; one T4 if unset) in the folder RATION_SIM_DIR. Null: no device
  /// description could be read, or the folder cannot be written.
  static Node* get();

  /// Maps the devices' memory; whoever only asks who holds what need not. False: the folder cannot be written.
  bool open_memory();

  [[nodiscard]] const std::vector<Model>& models() const { return models_; }
  void uuid(int device, unsigned char (&out)[16]) const;

  /// Takes whole granules for this process, contiguous if it can be. False: the device is full.
  bool take(int device, std::uint64_t count, Granules& out);
  void give(int device, const Granules& granules);
  bool take_context(int device);
  void give_context(int device);

  [[nodiscard]] Bytes free(int device);
  [[nodiscard]] std::vector<ProcessUse> uses(int device) { return survey(device).processes; }
  /// Everything about one device at one instant.
  [[nodiscard]] DeviceUse survey(int device);

  /// Address of a granule in this process. The whole device is mapped once, so no allocation needs the system.
  [[nodiscard]] char* window(int device) const { return windows_[device]; }
  [[nodiscard]] int memory_file(int device) const { return files_[device]; }
  /// Backs the granules with host memory before they are written. False: the host has no more.
  bool touch(int device, std::uint32_t granule);

  /// Places for granules in the device's window: more than the device has, so that memory that a checkpoint moved to
  /// the host keeps its place while others take its bytes.
  [[nodiscard]] std::uint32_t places(int device) const;
  /// Moves all that this process holds to the host, and back. False: the device is full, nothing was moved.
  void park();
  bool unpark();
  /// Whether this process has published memory that it still holds.
  [[nodiscard]] bool shares_memory();

  /// The process ends: what it holds comes back at once. It takes nothing any more.
  void leave();

  // For blocks that several processes hold (shared_blocks.hpp).
  [[nodiscard]] const std::string& folder() const { return folder_; }
  void lock();
  void unlock();
  /// give() of any process's granules, under the lock.
  void give_locked(int device, const Granules& granules);

 private:
  bool open();
  int slot();
  void recount();
  void reap();
  void reap_if_anybody_died();
  [[nodiscard]] Bytes used_locked(int device) const;
  [[nodiscard]] Bytes free_locked(int device) const;
  void note_peak(int device);

  std::vector<Model> models_;
  std::string folder_;
  NodeState* state_ = nullptr;
  std::once_flag memory_opened_;
  bool memory_usable_ = false;
  char* windows_[kMaxDevices] = {};
  int files_[kMaxDevices] = {};
  std::atomic<int> slot_{-1};
  bool left_ = false;  // under the lock
};

}  // namespace ration::sim
