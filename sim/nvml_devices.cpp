#include "nvml_devices.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>

#include "host_pid.hpp"

namespace ration::sim {
namespace {

using namespace nvml;

std::atomic<int> initialised{0};

constexpr std::intptr_t kDivided = 1 << 8;  ///< handles of GPUs in MIG mode are numbered from here

const std::vector<Model>& models() { return Node::get()->models(); }

}  // namespace

void note_init() { ++initialised; }

bool note_shutdown() {
  for (int now = initialised; now > 0;) {
    if (initialised.compare_exchange_weak(now, now - 1)) return true;
  }
  return false;
}

bool is_initialised() { return initialised > 0; }

bool is_divided(nvmlDevice_t handle) { return reinterpret_cast<std::intptr_t>(handle) >= kDivided; }

nvmlDevice_t handle_of(int index) { return reinterpret_cast<nvmlDevice_t>(static_cast<std::intptr_t>(index) + 1); }

int index_of(nvmlDevice_t handle) {
  const auto number = reinterpret_cast<std::intptr_t>(handle);
  if (!is_divided(handle)) return static_cast<int>(number) - 1;
  const auto first = std::find_if(models().begin(), models().end(),
                                  [&](const Model& model) { return model.card == number - kDivided; });
  return first == models().end() ? -1 : static_cast<int>(first - models().begin());
}

const Model& model(nvmlDevice_t device) { return models()[static_cast<std::size_t>(index_of(device))]; }

bool is_instance(nvmlDevice_t device) { return !is_divided(device) && !model(device).profile.empty(); }

nvmlDevice_t handle_of_card(int card) {
  const auto divided = reinterpret_cast<nvmlDevice_t>(kDivided + card);
  const int first = index_of(divided);
  return models()[static_cast<std::size_t>(first)].profile.empty() ? handle_of(first) : divided;
}

std::vector<int> devices_of(nvmlDevice_t handle) {
  if (!is_divided(handle)) return {index_of(handle)};
  std::vector<int> all;
  for (std::size_t device = 0; device < models().size(); ++device)
    if (models()[device].card == model(handle).card) all.push_back(static_cast<int>(device));
  return all;
}

unsigned int gpu_instance(const Model& model) { return static_cast<unsigned int>(model.instance) + 1; }

nvmlReturn_t valid(nvmlDevice_t device, const void* out) {
  if (!is_initialised()) return NVML_ERROR_UNINITIALIZED;
  return out != nullptr && index_of(device) >= 0 && index_of(device) < static_cast<int>(models().size())
             ? NVML_SUCCESS
             : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t valid_for_memory(nvmlDevice_t device, const void* out) {
  const auto state = valid(device, out);
  return state == NVML_SUCCESS && is_divided(device) && ::geteuid() != 0 ? NVML_ERROR_NO_PERMISSION : state;
}

nvmlReturn_t put(const std::string& text, char* out, unsigned int size) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (text.size() + 1 > size) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

std::string process_name(int pid) {
  char path[32], name[4096] = {};
  std::snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
  std::FILE* const file = std::fopen(path, "r");
  if (file == nullptr) return "";
  (void)!std::fread(name, 1, sizeof name - 1, file);
  std::fclose(file);
  return name;
}

std::vector<std::pair<int, ProcessUse>> listed(nvmlDevice_t device) {
  const std::uint64_t own_namespace = current_process().pid_namespace;
  const bool told = Node::get()->spec().driver.process_bytes;
  std::vector<std::pair<int, ProcessUse>> uses;
  for (const int each : devices_of(device)) {
    for (auto use : Node::get()->uses(each)) {
      if (!told && use.pid_namespace != own_namespace) continue;
      use.pid = pid_here(use.pid, use.pid_namespace);
      if (use.pid == 0) continue;
      // NVML leaves managed memory out (pynvml issue 63, rmm issue 2259).
      use.held = told ? use.held - use.managed : Bytes{0};
      uses.emplace_back(each, use);
    }
  }
  return uses;
}

}  // namespace ration::sim
