// The devices of this machine and the processes on them, as NVML reports them or, without NVML, the driver. Used by the
// command line and the node daemon. Promise: an unknown number is absent, never 0.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "book/terms.hpp"

namespace ration::machine {

/// The reasons why the memory that a process holds is unknown.
extern const FixedMessage kNotAttributed, kNotAttributedInContainer;

struct DeviceProcess {
  std::int32_t pid = 0;
  std::optional<Bytes> held{};  ///< absent if unknown; `unknown_reason` says why
  FixedMessage unknown_reason = kNotAttributed;
  std::optional<int> utilisation{};  ///< percent of the last seconds; absent if not reported
};

/// Formats a UUID as NVIDIA's tools print the UUID of a GPU: `GPU-5fd4c2a1-…`.
[[nodiscard]] std::string uuid_text(const book::DeviceUuid& uuid);
/// Returns true if `text` is that UUID in the form for a GPU (`GPU-…`) or for an instance (`MIG-…`).
[[nodiscard]] bool is_uuid(const std::string& text, const book::DeviceUuid& uuid);

/// The GPU and profile of a MIG instance.
struct MigInstance {
  int gpu = 0;           ///< its GPU, in PCI order
  std::string gpu_uuid;  ///< its GPU's UUID, `GPU-…`
  int number = 0;        ///< its number on that GPU, as `nvidia-smi -L` counts
  std::string profile;   ///< such as `3g.20gb`

  /// Returns the name that is typed instead of an index: `0.1`.
  [[nodiscard]] std::string label() const;
};

/// One GPU, or one instance of a GPU in MIG mode; such a GPU is not a device itself.
struct Device {
  int index = 0;     ///< in PCI order, as nvidia-smi counts; for an instance 100 × (1 + its GPU's index) + its number
  std::string uuid;  ///< as printed: `GPU-…`, `MIG-…`
  book::DeviceUuid bytes{};
  std::string name;
  std::optional<std::string> compute_capability;  ///< CUDA's number, such as 8.0
  bool cgroup_limits = false;                     ///< true if this process may set limits of cgroups on it
  std::vector<int> numa_nodes;                    ///< the nearest ones; empty if not reported
  Bytes total;
  std::optional<Bytes> free;                            ///< absent if not reported
  std::optional<Bytes> reserved;                        ///< the driver's own part
  std::optional<int> utilisation;                       ///< percent of the last sample period
  std::optional<int> temperature;                       ///< degrees Celsius
  std::optional<bool> persistence;                      ///< true if the driver stays loaded without programs
  std::optional<std::vector<DeviceProcess>> processes;  ///< absent without NVML
  std::optional<MigInstance> mig;                       ///< absent for a whole GPU

  /// Returns true if `wanted` is the device's index, label, or UUID, or a beginning of the UUID.
  [[nodiscard]] bool is_named(const std::string& wanted) const;
  /// Returns the free memory, or an estimate if the driver does not report it: the total minus the memory that the
  /// listed processes hold. Used for decisions only, since other processes may hold part of the estimate.
  [[nodiscard]] Bytes room() const;
};

struct Machine {
  std::vector<Device> devices;
  std::string driver_version;  ///< empty if not reported
  bool management = false;     ///< true if NVML answered; false if the driver itself was asked
};

/// The files of the driver on this machine, and the stubs that the search skipped.
struct DriverFiles {
  std::string driver, management;  ///< empty if not found; the reason is below
  std::string driver_problem, management_problem;
  std::vector<std::string> stubs;
};
[[nodiscard]] DriverFiles driver_files(const std::string& driver_folder);

/// Returns the bytes in use that belong to no process the driver lists, for example because an ending process hangs in
/// the kernel. Absent if the driver does not report its own use or each process's use.
[[nodiscard]] std::optional<Bytes> orphaned(const Device& device);

/// Reads the devices. `driver_folder` contains libcuda.so.1 and libnvidia-ml.so.1; if it is empty, the loader's own
/// search finds them. Fails with E1403 if there is no driver or no device.
[[nodiscard]] Result<Machine> query_devices(const std::string& driver_folder);

/// Selects devices by `0`, `0.1` (an instance), `GPU-5fd4` (a UUID or its beginning), `auto` (the device with the most
/// free bytes), or several of them: `0,1`. Fails with E1407.
[[nodiscard]] Result<std::vector<Device>> choose_devices(const std::vector<Device>& devices, const std::string& wanted);

/// Selects the devices that CUDA_VISIBLE_DEVICES names, as CUDA does: up to the first name that is none, and none if a
/// name occurs twice. All devices if the variable is not set. Fails with E1407 if it leaves no device visible.
[[nodiscard]] Result<std::vector<Device>> visible_devices(const std::vector<Device>& devices);

/// Returns the cost of one CUDA context on the device, as measured on this machine with this driver; absent if not
/// measured yet.
[[nodiscard]] std::optional<Bytes> context_cost(const Device& device, const std::string& driver_version,
                                                const std::string& runtime_folder);
void remember_context_cost(const Device& device, const std::string& driver_version, const std::string& runtime_folder,
                           Bytes cost);

/// Makes a context on the device in the calling process and returns its cost; absent if it could not be measured.
[[nodiscard]] std::optional<Bytes> measure_context(const std::string& driver_folder, const std::string& uuid);

}  // namespace ration::machine
