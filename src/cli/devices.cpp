#include "cli/devices.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "driver/nvml_abi.hpp"

namespace ration::cli {
namespace {

bool parse_uuid(const std::string& text, ledger::DeviceUuid& out) {
  std::string digits;
  for (const char letter : text.substr(std::min<std::size_t>(4, text.size()))) {
    if (letter != '-') digits += letter;
  }
  if (digits.size() != 2 * out.size()) return false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<std::uint8_t>(std::stoul(digits.substr(2 * i, 2), nullptr, 16));
  }
  return true;
}

}  // namespace

Result<std::vector<Device>> list_devices(const std::string& library_folder) {
  const std::string path = library_folder.empty() ? "libnvidia-ml.so.1" : library_folder + "/libnvidia-ml.so.1";
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return fail("E1403", fmt::format("no GPU found ({}).", ::dlerror()),
                "In Docker add --gpus all. To try without one: ration run --sim=T4 …", 3);
  }
  using nvml::nvmlDevice_t;
  using nvml::nvmlReturn_t;
  const auto find = [&](const char* name) { return ::dlsym(library, name); };
  const auto init = reinterpret_cast<nvmlReturn_t (*)()>(find("nvmlInit_v2"));
  const auto count = reinterpret_cast<nvmlReturn_t (*)(unsigned int*)>(find("nvmlDeviceGetCount_v2"));
  const auto by_index = reinterpret_cast<nvmlReturn_t (*)(unsigned int, nvmlDevice_t*)>(find("nvmlDeviceGetHandleByIndex_v2"));
  const auto uuid = reinterpret_cast<nvmlReturn_t (*)(nvmlDevice_t, char*, unsigned int)>(find("nvmlDeviceGetUUID"));
  const auto name = reinterpret_cast<nvmlReturn_t (*)(nvmlDevice_t, char*, unsigned int)>(find("nvmlDeviceGetName"));
  const auto memory = reinterpret_cast<nvmlReturn_t (*)(nvmlDevice_t, nvml::nvmlMemory_t*)>(find("nvmlDeviceGetMemoryInfo"));
  unsigned int number = 0;
  if (init == nullptr || count == nullptr || by_index == nullptr || uuid == nullptr || name == nullptr || memory == nullptr ||
      init() != nvml::NVML_SUCCESS || count(&number) != nvml::NVML_SUCCESS || number == 0) {
    return fail("E1403", "no GPU found (the management library shows none).",
                "In Docker add --gpus all. To try without one: ration run --sim=T4 …", 3);
  }
  std::vector<Device> devices;
  for (unsigned int index = 0; index < number; ++index) {
    nvmlDevice_t handle{};
    char text[96] = {};
    Device device;
    device.index = static_cast<int>(index);
    if (by_index(index, &handle) != nvml::NVML_SUCCESS || uuid(handle, text, sizeof text) != nvml::NVML_SUCCESS) continue;
    device.uuid = text;
    if (!parse_uuid(device.uuid, device.bytes)) continue;
    if (name(handle, text, sizeof text) == nvml::NVML_SUCCESS) device.name = text;
    nvml::nvmlMemory_t info{};
    if (memory(handle, &info) != nvml::NVML_SUCCESS) continue;
    device.total = Bytes{info.total};
    device.free = Bytes{info.free};
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace ration::cli
