// The devices of this machine and the processes on them, as reported by the management library or, without one, by the
// driver. Used by the command line and the node daemon. Promise: an unknown number is absent, never 0.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "book/terms.hpp"

namespace ration::machine {

/// The reason why the memory held by a process is unknown.
extern const FixedMessage kNotAttributed, kNotAttributedInContainer;

struct DeviceProcess {
  std::int32_t pid = 0;
  std::optional<Bytes> held{};  ///< absent if the driver does not report it: `unknown_reason` is the reason
  FixedMessage unknown_reason = kNotAttributed;
  std::optional<int> utilisation{};  ///< percent of the last seconds in which it computed; absent: not reported
};

/// Formats a UUID as NVIDIA's tools print a card's: `GPU-5fd4c2a1-…`.
[[nodiscard]] std::string uuid_text(const book::DeviceUuid& uuid);
/// Returns true if `text` is that UUID, of a card or of an instance (`MIG-…`).
[[nodiscard]] bool is_uuid(const std::string& text, const book::DeviceUuid& uuid);

/// The card and profile of a MIG instance.
struct MigInstance {
  int gpu = 0;           ///< the card, in PCI order
  std::string gpu_uuid;  ///< the card's: GPU-…
  int number = 0;        ///< on its card, as `nvidia-smi -L` counts
  std::string profile;   ///< 3g.20gb

  /// Returns it as typed instead of an index: `0.1`.
  [[nodiscard]] std::string label() const;
};

/// A card, or an instance of a card in MIG mode, which is then not a device itself.
struct Device {
  int index = 0;     ///< in PCI order, as nvidia-smi counts; for an instance 100 × (1 + its card's) + its number
  std::string uuid;  ///< as printed: GPU-…, MIG-…
  book::DeviceUuid bytes{};
  std::string name;
  std::optional<std::string> compute_capability;  ///< CUDA's, such as 8.0
  bool cgroup_limits = false;                     ///< the driver accepts limits of cgroups for it from this process
  std::vector<int> numa_nodes;                    ///< those nearest to it; empty: not reported
  Bytes total;
  std::optional<Bytes> free;                            ///< absent: not reported, as if it is the host's memory
  std::optional<Bytes> reserved;                        ///< the part in use by the driver itself
  std::optional<int> utilisation;                       ///< percent of the last sample period
  std::optional<int> temperature;                       ///< degrees Celsius
  std::optional<bool> persistence;                      ///< the driver stays loaded while no program uses the device
  std::optional<std::vector<DeviceProcess>> processes;  ///< absent without a management library
  std::optional<MigInstance> mig;                       ///< absent: it is a whole card

  /// Returns true if `wanted` is its index, its label, or the beginning of its UUID.
  [[nodiscard]] bool is_named(const std::string& wanted) const;
  /// Returns an estimate of the free memory, for decisions only: if the driver does not report it, what the processes
  /// listed by NVML leave. Others may hold part of that.
  [[nodiscard]] Bytes room() const;
};

struct Machine {
  std::vector<Device> devices;
  std::string driver_version;  ///< empty: not reported
  bool management = false;     ///< NVML answered; false: the driver itself was asked
};

/// The driver's files on this machine, and stubs that were passed over.
struct DriverFiles {
  std::string driver, management;  ///< empty: there is none, for the reason below
  std::string driver_problem, management_problem;
  std::vector<std::string> stubs;
};
[[nodiscard]] DriverFiles driver_files(const std::string& driver_folder);

/// Returns the bytes that the driver reports in use by no process that it lists, as after a process that hangs in the
/// kernel while it dies. Absent: the driver does not report its own use, or not what each process holds.
[[nodiscard]] std::optional<Bytes> orphaned(const Device& device);

/// Reads the devices. `driver_folder` contains libcuda.so.1 and libnvidia-ml.so.1; empty: the loader's own search.
/// E1403: no driver, or no device.
[[nodiscard]] Result<Machine> query_devices(const std::string& driver_folder);

/// Selects devices by `0`, `0.1` (an instance), `GPU-5fd4` (a UUID or the beginning of one), `auto` (the most free
/// bytes), or several of them: `0,1`. E1407.
[[nodiscard]] Result<std::vector<Device>> choose_devices(const std::vector<Device>& devices, const std::string& wanted);

/// Returns the cost of one CUDA context on the device, as measured once on this machine with this driver. Absent: not
/// measured yet.
[[nodiscard]] std::optional<Bytes> context_cost(const Device& device, const std::string& driver_version,
                                                const std::string& runtime_folder);
void remember_context_cost(const Device& device, const std::string& driver_version, const std::string& runtime_folder,
                           Bytes cost);

/// Makes a context on the device in the calling process and returns its cost. Absent: it could not be measured.
[[nodiscard]] std::optional<Bytes> measure_context(const std::string& driver_folder, const std::string& uuid);

}  // namespace ration::machine
