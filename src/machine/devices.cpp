#include "machine/devices.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "base/printable.hpp"
#include "base/say.hpp"
#include "base/strings.hpp"
#include "base/utf8.hpp"
#include "driver/cuda_abi.hpp"
#include "driver/nvml_abi.hpp"
#include "machine/driver_library.hpp"
#include "machine/measured.hpp"

namespace ration::machine {

constinit const FixedMessage kNotAttributed = fixed<"unknown.not_attributed">();
constinit const FixedMessage kNotAttributedInContainer = fixed<"unknown.in_container">();

namespace {

constexpr const char* kNoDriverFix = "In Docker add --gpus all. To try without a GPU: ration demo, or --sim=T4";

bool parse_uuid(const std::string& text, book::DeviceUuid& out) {
  std::string digits;
  for (const char letter : text.substr(std::min<std::size_t>(4, text.size()))) {
    if (letter == '-') continue;
    if (std::isxdigit(static_cast<unsigned char>(letter)) == 0) return false;
    digits += letter;
  }
  if (digits.size() != 2 * out.size()) return false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<std::uint8_t>(std::stoul(digits.substr(2 * i, 2), nullptr, 16));
  }
  return true;
}

using namespace nvml;

std::optional<std::vector<DeviceProcess>> processes_of(const Library& nvml, nvmlDevice_t handle) {
  std::vector<nvmlProcessInfo_t> list(64);
  for (;;) {
    auto count = static_cast<unsigned int>(list.size());
    const auto ask = [&](const char* function) {
      return nvml.call(function, NVML_ERROR_NOT_SUPPORTED, handle, &count, list.data());
    };
    auto result = ask("nvmlDeviceGetComputeRunningProcesses_v3");
    // Release 470 lacks the newer function; the older one gives the same list.
    if (result == NVML_ERROR_NOT_SUPPORTED) result = ask("nvmlDeviceGetComputeRunningProcesses_v2");
    if (result == NVML_ERROR_INSUFFICIENT_SIZE && list.size() < 65536) {
      list.resize(list.size() * 4);
      continue;
    }
    if (result != NVML_SUCCESS) return std::nullopt;
    list.resize(std::min<std::size_t>(count, list.size()));
    break;
  }
  std::vector<DeviceProcess> found;
  for (const auto& process : list) {
    DeviceProcess entry;
    entry.pid = static_cast<std::int32_t>(process.pid);
    // A listed process has a context, so 0 means unknown: NVML before release 570 reports 0 in a container (HAMi-core
    // issue 112).
    if (process.usedGpuMemory == 0)
      entry.unknown_reason = kNotAttributedInContainer;
    else if (process.usedGpuMemory != ~0ULL)
      entry.held = Bytes{process.usedGpuMemory};
    found.push_back(entry);
  }
  return found;
}

/// Reads how much each process computed in the last seconds, if the device reports it. A process without a sample did
/// not compute. Skips processes whose memory the driver does not report in a container: there the samples have the pids
/// of the host, which do not match the listed pids.
void ask_utilisation(const Library& nvml, nvmlDevice_t handle, std::vector<DeviceProcess>& processes) {
  constexpr unsigned long long kWindowMicroseconds = 5'000'000;  // the time between two ticks of an idle daemon
  const unsigned long long since = unix_time_ns() / 1000 - kWindowMicroseconds;
  std::vector<nvmlProcessUtilizationSample_t> samples(4096);
  auto count = static_cast<unsigned int>(samples.size());
  const auto result =
      nvml.call("nvmlDeviceGetProcessUtilization", NVML_ERROR_NOT_SUPPORTED, handle, samples.data(), &count, since);
  if (result == NVML_ERROR_NOT_FOUND) count = 0;  // no process computed
  if (result != NVML_SUCCESS && result != NVML_ERROR_NOT_FOUND) return;
  std::map<std::int32_t, int> highest;
  for (std::size_t i = 0; i < std::min<std::size_t>(count, samples.size()); ++i) {
    int& known = highest[static_cast<std::int32_t>(samples[i].pid)];
    known = std::max(known, static_cast<int>(samples[i].smUtil));
  }
  for (DeviceProcess& process : processes)
    if (!(process.unknown_reason == kNotAttributedInContainer)) process.utilisation = highest[process.pid];
}

std::string capability_text(int major, int minor) { return fmt::format("{}.{}", major, minor); }

/// Reads a GPU's compute capability; NVML does not document the query for instances.
std::optional<std::string> ask_capability(const Library& nvml, nvmlDevice_t card) {
  int major = 0, minor = 0;
  const auto result = nvml.call("nvmlDeviceGetCudaComputeCapability", NVML_ERROR_NOT_SUPPORTED, card, &major, &minor);
  return result == NVML_SUCCESS ? std::optional(capability_text(major, minor)) : std::nullopt;
}

/// Returns true if this process may set limits of cgroups: any user may read such a limit, but only root may set one.
/// Asks about the root of the hierarchy, where no limit is set.
bool takes_cgroup_limits(const Library& nvml, nvmlDevice_t handle) {
  nvmlGetMemoryLimits_v1_t found{"/sys/fs/cgroup", 0, 0, 0};
  return ::geteuid() == 0 && nvml.call("nvmlDeviceGetMemoryLimits_v1", NVML_ERROR_NOT_SUPPORTED, handle, &found) !=
                                 NVML_ERROR_NOT_SUPPORTED;
}

/// Reads the nearest NUMA nodes: "64 NODEs per unsigned long" (NVML API reference, CPU and memory affinity).
std::vector<int> ask_numa_nodes(const Library& nvml, nvmlDevice_t handle) {
  constexpr int kWords = 16, kBits = 64;
  constexpr unsigned int kScopeNode = 0;
  unsigned long words[kWords] = {};
  std::vector<int> nodes;
  if (nvml.call("nvmlDeviceGetMemoryAffinity", NVML_ERROR_NOT_SUPPORTED, handle, unsigned{kWords}, +words,
                kScopeNode) != NVML_SUCCESS)
    return nodes;
  for (int node = 0; node < kWords * kBits; ++node)
    if ((words[node / kBits] >> (node % kBits) & 1) != 0) nodes.push_back(node);
  return nodes;
}

std::optional<Device> ask_nvml(const Library& nvml, nvmlDevice_t handle, int index) {
  char text[96] = {};
  nvmlMemory_t memory{};
  Device device;
  device.index = index;
  if (nvml.call("nvmlDeviceGetUUID", NVML_ERROR_NOT_SUPPORTED, handle, +text, 96U) != NVML_SUCCESS) return std::nullopt;
  device.uuid = text;
  if (!parse_uuid(device.uuid, device.bytes)) return std::nullopt;
  // The answer is "not supported" if the GPU uses the host's memory (GB10, Jetson): query_devices() then asks the
  // driver for the size.
  if (nvml.call("nvmlDeviceGetMemoryInfo", NVML_ERROR_NOT_SUPPORTED, handle, &memory) == NVML_SUCCESS) {
    device.total = Bytes{memory.total};
    device.free = Bytes{memory.free};
  }
  nvmlMemory_v2_t with_reserved{};
  with_reserved.version = sizeof with_reserved | 2U << 24;
  if (nvml.call("nvmlDeviceGetMemoryInfo_v2", NVML_ERROR_NOT_SUPPORTED, handle, &with_reserved) == NVML_SUCCESS)
    device.reserved = Bytes{with_reserved.reserved};
  if (nvml.call("nvmlDeviceGetName", NVML_ERROR_NOT_SUPPORTED, handle, +text, 96U) == NVML_SUCCESS) device.name = text;
  device.compute_capability = ask_capability(nvml, handle);
  device.cgroup_limits = takes_cgroup_limits(nvml, handle);
  device.numa_nodes = ask_numa_nodes(nvml, handle);
  nvmlUtilization_t utilisation{};
  if (nvml.call("nvmlDeviceGetUtilizationRates", NVML_ERROR_NOT_SUPPORTED, handle, &utilisation) == NVML_SUCCESS) {
    device.utilisation = static_cast<int>(utilisation.gpu);
  }
  unsigned int celsius = 0;
  if (nvml.call("nvmlDeviceGetTemperature", NVML_ERROR_NOT_SUPPORTED, handle, 0, &celsius) == NVML_SUCCESS) {
    device.temperature = static_cast<int>(celsius);
  }
  unsigned int persistence = 0;
  if (nvml.call("nvmlDeviceGetPersistenceMode", NVML_ERROR_NOT_SUPPORTED, handle, &persistence) == NVML_SUCCESS)
    device.persistence = persistence != 0;
  device.processes = processes_of(nvml, handle);
  if (device.processes && device.utilisation != 0) ask_utilisation(nvml, handle, *device.processes);
  return device;
}

/// Returns the instances of a GPU in MIG mode, which programs can use instead of the GPU; absent if the mode is off or
/// unknown.
std::optional<std::vector<Device>> ask_instances(const Library& nvml, nvmlDevice_t card, int gpu) {
  unsigned int mode = 0, pending = 0, most = 0;
  if (nvml.call("nvmlDeviceGetMigMode", NVML_ERROR_NOT_SUPPORTED, card, &mode, &pending) != NVML_SUCCESS ||
      mode != NVML_DEVICE_MIG_ENABLE)
    return std::nullopt;
  char uuid[96] = {};
  nvml.call("nvmlDeviceGetUUID", NVML_ERROR_NOT_SUPPORTED, card, +uuid, 96U);
  nvml.call("nvmlDeviceGetMaxMigDeviceCount", NVML_ERROR_NOT_SUPPORTED, card, &most);
  std::vector<Device> instances;
  for (unsigned int number = 0; number < most; ++number) {
    nvmlDevice_t handle{};
    if (nvml.call("nvmlDeviceGetMigDeviceHandleByIndex", NVML_ERROR_NOT_SUPPORTED, card, number, &handle) !=
        NVML_SUCCESS)
      continue;                         // the numbers of instances need not be consecutive
    constexpr int kMaxInstances = 100;  // spacing of the indices; a GPU has at most seven instances
    const int own = static_cast<int>(number);
    auto device = ask_nvml(nvml, handle, kMaxInstances * (gpu + 1) + own);
    if (!device) continue;
    device->compute_capability = ask_capability(nvml, card);
    device->numa_nodes = ask_numa_nodes(nvml, card);
    constexpr std::string_view kBeforeProfile = " MIG ";
    const std::size_t profile = device->name.rfind(kBeforeProfile);
    device->mig = MigInstance{
        gpu, uuid, own,
        profile == std::string::npos ? std::string() : device->name.substr(profile + kBeforeProfile.size())};
    instances.push_back(std::move(*device));
  }
  return instances;
}

/// A scope in which all devices are visible, because the driver counts only visible devices.
class AllDevicesVisible {
 public:
  AllDevicesVisible() {
    if (const char* own = std::getenv(kVariable); own != nullptr) own_ = own;
    ::unsetenv(kVariable);
  }
  ~AllDevicesVisible() {
    if (own_) ::setenv(kVariable, own_->c_str(), 1);
  }
  AllDevicesVisible(const AllDevicesVisible&) = delete;
  AllDevicesVisible& operator=(const AllDevicesVisible&) = delete;

 private:
  static constexpr const char* kVariable = "CUDA_VISIBLE_DEVICES";
  std::optional<std::string> own_;
};

/// Reads from the driver itself the facts that NVML does not report, or all facts where there is no NVML (containers
/// that were given only the driver's "compute" part, some embedded boards). Free memory stays unknown, because reading
/// it needs a context.
void ask_driver(const std::string& folder, Machine& machine, std::string& problem) {
  using namespace cuda;
  ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
  const Library driver(folder, "libcuda.so.1");
  if (!driver) {
    problem = driver.problem();
    return;
  }
  int count = 0, version = 0;
  const AllDevicesVisible all;
  if (const auto result = driver.call("cuInit", CUDA_ERROR_NOT_SUPPORTED, 0U); result != CUDA_SUCCESS) {
    problem = fmt::format("cuInit answers error {}", static_cast<int>(result));
    return;
  }
  if (driver.call("cuDriverGetVersion", CUDA_ERROR_NOT_SUPPORTED, &version) == CUDA_SUCCESS) {
    machine.driver_version = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
  }
  driver.call("cuDeviceGetCount", CUDA_ERROR_NOT_SUPPORTED, &count);
  for (int index = 0; index < count; ++index) {
    Device device;
    device.index = index;
    CUuuid uuid{};
    char name[96] = {};
    std::size_t total = 0;
    // For an instance the older function returns the GPU's UUID.
    if (driver.call("cuDeviceGetUuid_v2", CUDA_ERROR_NOT_SUPPORTED, &uuid, index) != CUDA_SUCCESS &&
        driver.call("cuDeviceGetUuid", CUDA_ERROR_NOT_SUPPORTED, &uuid, index) != CUDA_SUCCESS)
      continue;
    driver.call("cuDeviceGetName", CUDA_ERROR_NOT_SUPPORTED, +name, 96, index);
    driver.call("cuDeviceTotalMem_v2", CUDA_ERROR_NOT_SUPPORTED, &total, index);
    int major = 0, minor = 0;
    if (driver.call("cuDeviceGetAttribute", CUDA_ERROR_NOT_SUPPORTED, &major,
                    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, index) == CUDA_SUCCESS &&
        driver.call("cuDeviceGetAttribute", CUDA_ERROR_NOT_SUPPORTED, &minor,
                    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, index) == CUDA_SUCCESS)
      device.compute_capability = capability_text(major, minor);
    std::copy(std::begin(uuid.bytes), std::end(uuid.bytes), reinterpret_cast<char*>(device.bytes.data()));
    device.uuid = uuid_text(device.bytes);
    device.name = name;
    device.total = Bytes{total};
    machine.devices.push_back(device);
  }
}

/// Reads missing sizes from the driver, and removes devices whose size stays unknown, because they cannot be limited.
void fill_in_sizes(const std::string& folder, Machine& machine, std::string& problem) {
  const auto without_size = [](const Device& device) { return device.total == Bytes{0}; };
  if (std::none_of(machine.devices.begin(), machine.devices.end(), without_size)) return;
  Machine by_driver;
  ask_driver(folder, by_driver, problem);
  for (Device& device : machine.devices) {
    const auto same = std::find_if(by_driver.devices.begin(), by_driver.devices.end(),
                                   [&](const Device& each) { return each.bytes == device.bytes; });
    if (without_size(device) && same != by_driver.devices.end()) device.total = same->total;
  }
  std::erase_if(machine.devices, without_size);
}

std::string costs_file(const std::string& runtime_folder) { return runtime_folder + "/context-costs.json"; }

}  // namespace

std::string uuid_text(const book::DeviceUuid& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < uuid.size(); ++i)
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
  return text;
}

bool is_uuid(const std::string& text, const book::DeviceUuid& uuid) {
  book::DeviceUuid bytes{};
  return parse_uuid(text, bytes) && bytes == uuid;
}

std::string MigInstance::label() const { return fmt::format("{}.{}", gpu, number); }

bool Device::is_named(const std::string& wanted) const {
  return wanted == std::to_string(index) || (mig && wanted == mig->label()) ||
         (wanted.size() > 4 && uuid.rfind(wanted, 0) == 0);
}

Bytes Device::room() const {
  if (free) return *free;
  Bytes held;
  if (processes)
    for (const DeviceProcess& process : *processes) held += process.held.value_or(Bytes{0});
  return total - std::min(total, held);
}

std::optional<Bytes> orphaned(const Device& device) {
  if (!device.reserved || !device.processes || !device.free) return std::nullopt;
  Bytes known = *device.reserved;
  for (const DeviceProcess& process : *device.processes) {
    if (!process.held) return std::nullopt;
    known += *process.held;
  }
  const Bytes used = device.total - std::min(device.total, *device.free);
  return used - std::min(used, known);
}

DriverFiles driver_files(const std::string& driver_folder) {
  DriverFiles files;
  const Library driver(driver_folder, "libcuda.so.1"), nvml(driver_folder, "libnvidia-ml.so.1");
  files.driver = driver.file(), files.driver_problem = driver.problem();
  files.management = nvml.file(), files.management_problem = nvml.problem();
  for (const Library* library : {&driver, &nvml})
    files.stubs.insert(files.stubs.end(), library->stubs().begin(), library->stubs().end());
  return files;
}

Result<Machine> query_devices(const std::string& driver_folder) {
  Machine machine;
  std::string problem;
  const Library nvml(driver_folder, "libnvidia-ml.so.1");
  if (!nvml) {
    problem = nvml.problem();
  } else if (const auto result = nvml.call("nvmlInit_v2", NVML_ERROR_NOT_SUPPORTED); result != NVML_SUCCESS) {
    problem = fmt::format("nvmlInit answers error {}", static_cast<int>(result));
  } else {
    machine.management = true;
    char version[96] = {};
    if (nvml.call("nvmlSystemGetDriverVersion", NVML_ERROR_NOT_SUPPORTED, +version, 96U) == NVML_SUCCESS)
      machine.driver_version = version;
    unsigned int count = 0;
    nvml.call("nvmlDeviceGetCount_v2", NVML_ERROR_NOT_SUPPORTED, &count);
    for (unsigned int index = 0; index < count; ++index) {
      nvmlDevice_t handle{};
      if (nvml.call("nvmlDeviceGetHandleByIndex_v2", NVML_ERROR_NOT_SUPPORTED, index, &handle) != NVML_SUCCESS)
        continue;
      const int gpu = static_cast<int>(index);
      if (auto instances = ask_instances(nvml, handle, gpu)) {
        if (instances->empty()) problem = fmt::format("GPU {} is in MIG mode and has no instance", gpu);
        std::move(instances->begin(), instances->end(), std::back_inserter(machine.devices));
      } else if (auto device = ask_nvml(nvml, handle, gpu)) {
        machine.devices.push_back(std::move(*device));
      }
    }
    if (machine.devices.empty() && problem.empty()) problem = "NVML shows no device";
    fill_in_sizes(driver_folder, machine, problem);
  }
  if (!machine.management) ask_driver(driver_folder, machine, problem);
  if (machine.devices.empty()) return fail("E1403", say<"devices.none">("problem"_is(problem)), kNoDriverFix, 3);
  return machine;
}

Result<std::vector<Device>> choose_devices(const std::vector<Device>& devices, const std::string& wanted) {
  if (wanted == "all") return devices;
  std::vector<Device> chosen;
  for (const std::string_view word : split(wanted, ',')) {
    const std::string entry(word);
    const auto by_name = [&](const Device& device) { return device.is_named(entry); };
    const auto found =
        entry == "auto"
            ? std::max_element(devices.begin(), devices.end(),
                               [](const auto& left, const auto& right) { return left.room() < right.room(); })
            : std::find_if(devices.begin(), devices.end(), by_name);
    if (const std::string meant = in_ascii(wanted); found == devices.end() && meant != wanted)
      return fail("E1407", fmt::format("'{}' contains letters that are not ASCII.", wanted), "Use --gpu " + meant, 2);
    if (found == devices.end()) {
      std::string all;
      for (const Device& device : devices)
        all += fmt::format("{}{} ({})", all.empty() ? "" : ", ",
                           device.mig ? device.mig->label() : std::to_string(device.index), device.name);
      const auto is_part = [&](const Device& device) {
        return device.mig && (entry == std::to_string(device.mig->gpu) ||
                              (entry.size() > 4 && device.mig->gpu_uuid.rfind(entry, 0) == 0));
      };
      if (const auto part = std::find_if(devices.begin(), devices.end(), is_part); part != devices.end())
        return fail("E1407",
                    fmt::format("GPU {} is in MIG mode: programs use its instances. This machine has: {}.", entry, all),
                    fmt::format("Use --gpu {}, --gpu {}, --gpu auto or --gpu all", part->mig->label(), part->uuid), 3);
      return fail(
          "E1407", fmt::format("there is no GPU '{}' on this machine. It has: {}.", entry, all),
          fmt::format("Use --gpu {}, --gpu {}, --gpu auto or --gpu all", devices.front().index, devices.front().uuid),
          3);
    }
    if (std::any_of(chosen.begin(), chosen.end(), [&](const Device& device) { return device.uuid == found->uuid; })) {
      return fail("E1407", fmt::format("GPU {} is named twice.", found->index), "Name each GPU once: --gpu 0,1", 2);
    }
    chosen.push_back(*found);
  }
  return chosen;
}

Result<std::vector<Device>> visible_devices(const std::vector<Device>& devices) {
  const char* names = std::getenv("CUDA_VISIBLE_DEVICES");
  if (names == nullptr) return devices;
  std::vector<Device> visible;
  for (const std::string_view name : split(names, ',')) {
    const auto device = std::find_if(devices.begin(), devices.end(),
                                     [&](const Device& each) { return each.is_named(std::string(trimmed(name))); });
    if (device == devices.end()) break;
    const bool twice =
        std::any_of(visible.begin(), visible.end(), [&](const Device& each) { return each.uuid == device->uuid; });
    if (twice) {
      visible.clear();
      break;
    }
    visible.push_back(*device);
  }
  if (!visible.empty()) return visible;
  const std::string all = devices.size() == 1 ? "GPU 0" : fmt::format("GPUs 0 to {}", devices.size() - 1);
  return fail(
      "E1407",
      fmt::format("CUDA_VISIBLE_DEVICES='{}' leaves no GPU visible: this machine has {}.", printable(names), all),
      "Add --gpu auto, or: unset CUDA_VISIBLE_DEVICES   (a program that uses no GPU needs no ration)", 3);
}

std::optional<Bytes> context_cost(const Device& device, const std::string& driver_version,
                                  const std::string& runtime_folder) {
  const auto cost = measured(costs_file(runtime_folder), device, driver_version);
  return cost.is_number_unsigned() ? std::optional(Bytes{cost.get<std::uint64_t>()}) : std::nullopt;
}

void remember_context_cost(const Device& device, const std::string& driver_version, const std::string& runtime_folder,
                           Bytes cost) {
  remember(costs_file(runtime_folder), device, driver_version, cost.count());
}

std::optional<Bytes> measure_context(const std::string& driver_folder, const std::string& uuid) {
  ::setenv("CUDA_VISIBLE_DEVICES", uuid.c_str(), 1);
  const Library driver(driver_folder, "libcuda.so.1");
  if (!driver || driver.call("cuInit", cuda::CUDA_ERROR_NOT_SUPPORTED, 0U) != cuda::CUDA_SUCCESS) return std::nullopt;
  const auto device_now = [&]() -> std::optional<Device> {
    const auto machine = query_devices(driver_folder);
    if (!machine) return std::nullopt;
    for (const Device& device : machine->devices)
      if (device.uuid == uuid && device.processes) return device;
    return std::nullopt;
  };
  // If the driver does not report what this process holds, the decrease of the device's free memory counts as the
  // context's cost. Another process may take memory meanwhile, so the smallest of a few differences is taken.
  constexpr int kTimes = 3;
  std::optional<Bytes> smallest;
  std::optional<Device> before;
  for (int time = 0; time <= kTimes; ++time) {
    cuda::CUcontext context{};
    if (driver.call("cuDevicePrimaryCtxRetain", cuda::CUDA_ERROR_NOT_SUPPORTED, &context, 0) != cuda::CUDA_SUCCESS)
      break;
    const auto after = device_now();
    if (!after) break;
    for (const DeviceProcess& process : *after->processes)
      if (process.pid == ::getpid() && process.held) return process.held;
    if (before && before->free && after->free && *after->free < *before->free)
      smallest = std::min(smallest.value_or(kUnlimited), *before->free - *after->free);
    driver.call("cuDevicePrimaryCtxRelease_v2", cuda::CUDA_ERROR_NOT_SUPPORTED, 0);
    before = device_now();
  }
  return smallest;
}

}  // namespace ration::machine
