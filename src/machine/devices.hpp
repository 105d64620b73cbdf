// The devices of this machine and the processes on them, as the management library (or, without one, the driver) names
// them. Used by the command line and the node daemon. Promise: a number that nobody could tell is absent, never 0.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "ledger/terms.hpp"

namespace ration::machine {

/// Why nobody knows what a process holds.
inline constexpr const char* kUntold = "the driver does not attribute memory to this process";
inline constexpr const char* kUntoldInContainer = "the driver does not tell it in a container";

struct DeviceProcess {
  std::int32_t pid = 0;
  std::optional<Bytes> held{};  ///< absent where the driver does not say: `untold` is why
  const char* untold = kUntold;
  std::optional<int> utilisation{};  ///< percent of the last seconds in which it computed; absent: nobody said
};

/// As NVIDIA's tools print a card's: `GPU-5fd4c2a1-…`.
[[nodiscard]] std::string uuid_text(const ledger::DeviceUuid& uuid);
/// Whether `text` is that UUID, of a card or of an instance (`MIG-…`).
[[nodiscard]] bool is_uuid(const std::string& text, const ledger::DeviceUuid& uuid);

/// What a MIG instance is a part of.
struct MigInstance {
  int gpu = 0;           ///< the card, in PCI order
  std::string gpu_uuid;  ///< of the card: GPU-…
  int number = 0;        ///< on its card, as `nvidia-smi -L` counts
  std::string profile;   ///< 3g.20gb

  /// As it is typed beside an index: `0.1`.
  [[nodiscard]] std::string label() const;
};

/// A card, or an instance of a card in MIG mode, which then is not a device itself.
struct Device {
  int index = 0;     ///< in PCI order, as nvidia-smi counts; of an instance 100 × (1 + its card's) + its number
  std::string uuid;  ///< as printed: GPU-…, MIG-…
  ledger::DeviceUuid bytes{};
  std::string name;
  std::optional<std::string> compute_capability;  ///< CUDA's: 8.0
  bool cgroup_limits = false;                     ///< the driver takes limits of cgroups for it from this process
  std::vector<int> numa_nodes;                    ///< whose processors and memory are nearest; empty: nobody says
  Bytes total;
  std::optional<Bytes> free;                            ///< absent: nobody says, as where it is the host's memory
  std::optional<Bytes> reserved;                        ///< of what is not free, by the driver for itself
  std::optional<int> utilisation;                       ///< percent of the last sample period
  std::optional<int> temperature;                       ///< degrees Celsius
  std::optional<bool> persistence;                      ///< the driver stays loaded while nobody uses the device
  std::optional<std::vector<DeviceProcess>> processes;  ///< absent without a management library
  std::optional<MigInstance> mig;                       ///< absent: it is a whole card

  /// Whether `wanted` is its index, its label, or the beginning of its UUID.
  [[nodiscard]] bool is_named(const std::string& wanted) const;
  /// For decisions, never to be shown: what is free; where nobody says, what the processes that NVML lists leave.
  /// Others may have some of that.
  [[nodiscard]] Bytes room() const;
};

struct Machine {
  std::vector<Device> devices;
  std::string driver_version;  ///< empty: nobody said
  bool management = false;     ///< NVML answered; false: the devices were asked of the driver itself
};

/// The files that stand for the driver here, and those that were passed over because they only look like it.
struct DriverFiles {
  std::string driver, management;  ///< empty: there is none, for the reason below
  std::string driver_problem, management_problem;
  std::vector<std::string> stubs;
};
[[nodiscard]] DriverFiles driver_files(const std::string& driver_folder);

/// In use by the driver's word, and of no process that it lists: as after a process that hangs in the kernel while it
/// dies. Absent: the driver does not say what it needs itself, or not what each process holds.
[[nodiscard]] std::optional<Bytes> orphaned(const Device& device);

/// `driver_folder`: where libcuda.so.1 and libnvidia-ml.so.1 are, or empty for the loader's own search.
/// E1403: no driver, or no device.
[[nodiscard]] Result<Machine> query_devices(const std::string& driver_folder);

/// `0`, `0.1` (an instance), `GPU-5fd4` (a UUID or the beginning of one), `auto` (the most free bytes), or several of
/// them: `0,1`. E1407.
[[nodiscard]] Result<std::vector<Device>> choose_devices(const std::vector<Device>& devices, const std::string& wanted);

/// What one CUDA context costs on the device, as measured once on this machine with this driver. Absent: not measured
/// yet.
[[nodiscard]] std::optional<Bytes> context_cost(const Device& device, const std::string& driver_version,
                                                const std::string& runtime_folder);
void remember_context_cost(const Device& device, const std::string& driver_version, const std::string& runtime_folder,
                           Bytes cost);

/// Makes a context on the device in the calling process and says what it cost. Absent: it could not be told.
[[nodiscard]] std::optional<Bytes> measure_context(const std::string& driver_folder, const std::string& uuid);

}  // namespace ration::machine
