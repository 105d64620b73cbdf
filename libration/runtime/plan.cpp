#include "runtime/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/strings.hpp"
#include "base/units.hpp"

namespace ration {

std::vector<std::string> GpuOptions::without_effect() const {
  const std::pair<const char*, bool> fields[] = {
      {"deferred_deletion_bytes", deferred_deletion_bytes != 0},
      {"polling_active_delay_usecs", polling_active_delay_usecs != 0},
      {"polling_inactive_delay_msecs", polling_inactive_delay_msecs != 0},
      {"force_gpu_compatible", force_gpu_compatible},
      {"num_dev_to_dev_copy_streams", num_dev_to_dev_copy_streams != 0},
      {"collective_ring_order", !collective_ring_order.empty()},
      {"timestamped_allocator", timestamped_allocator},
      {"kernel_tracker_max_interval", kernel_tracker_max_interval != 0},
      {"kernel_tracker_max_bytes", kernel_tracker_max_bytes != 0},
      {"kernel_tracker_max_pending", kernel_tracker_max_pending != 0},
      {"internal_fragmentation_fraction", internal_fragmentation_fraction != 0},
      {"disallow_retry_on_allocation_failure", disallow_retry_on_allocation_failure},
      {"gpu_host_mem_limit_in_mb", gpu_host_mem_limit_in_mb != 0},
      {"gpu_host_mem_disallow_growth", gpu_host_mem_disallow_growth},
      {"populate_pjrt_gpu_client_creation_info", populate_pjrt_gpu_client_creation_info},
      {"node_id", node_id != 0},
      {"stream_merge_options", stream_merge_options.merge_host_to_device_stream ||
                                   stream_merge_options.merge_device_to_host_stream ||
                                   stream_merge_options.merge_device_to_device_stream}};
  std::vector<std::string> result;
  for (const auto& [name, is_set] : fields) {
    if (is_set) result.emplace_back(name);
  }
  return result;
}

}  // namespace ration

namespace ration::runtime {

Bytes system_reserve(Bytes available, int capability_major) {
  constexpr std::uint64_t kMiB = 1 << 20;
  if (available < Bytes{2048 * kMiB}) return Bytes{225 * kMiB};
  if (capability_major <= 6) return Bytes{500 * kMiB};
  return Bytes{(capability_major == 7 ? 1050 : capability_major == 8 ? 1536 : 1800) * kMiB};
}

std::vector<std::size_t> parse_visible_list(const std::string& list, std::size_t count) {
  std::vector<std::size_t> result;
  if (list.empty()) {
    for (std::size_t gpu = 0; gpu < count; ++gpu) result.push_back(gpu);
    return result;
  }
  for (const std::string_view entry : split(list, ',')) {
    int id = -1;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), id);
    if (error != std::errc() || end != entry.data() + entry.size()) {
      throw InvalidArgumentError(
          fmt::format("'visible_device_list' has an entry that is not a number: '{}' in '{}'", entry, list));
    }
    if (id < 0 || static_cast<std::size_t>(id) >= count) {
      throw InvalidArgumentError(
          fmt::format("'visible_device_list' names GPU {} in '{}', but the number of GPUs is {}", id, list, count));
    }
    if (std::find(result.begin(), result.end(), static_cast<std::size_t>(id)) != result.end())
      throw InvalidArgumentError(fmt::format("'visible_device_list' names GPU {} twice: '{}'", id, list));
    result.push_back(static_cast<std::size_t>(id));
  }
  return result;
}

std::vector<PlannedDevice> plan_devices(const GpuOptions& options, const std::vector<std::size_t>& visible,
                                        const std::function<PrimaryContext::Priorities(std::size_t gpu)>& priorities) {
  const auto& lists = options.virtual_devices;
  std::vector<PlannedDevice> result;
  if (lists.empty()) {
    for (const std::size_t gpu : visible) {
      const int parts = std::max(1, options.num_virtual_devices_per_gpu);
      for (int part = 0; part < parts; ++part) result.push_back({gpu, std::nullopt, 0, 0});
    }
    return result;
  }
  if (options.per_process_gpu_memory_fraction > 0) {
    throw InvalidArgumentError("It's invalid to set per_process_gpu_memory_fraction when virtual_devices is set.");
  }
  if (visible.size() < lists.size()) {
    throw UnknownError(
        fmt::format("Not enough GPUs to create virtual devices. num_gpus_to_use: {} #virtual_devices: {}",
                    visible.size(), lists.size()));
  }
  if (!options.visible_device_list.empty() && visible.size() != lists.size()) {
    throw InvalidArgumentError(fmt::format(
        "The number of GPUs in visible_device_list doesn't match the number of elements in the virtual_devices list. "
        "#GPUs in visible_device_list: {} virtual_devices.size(): {}",
        visible.size(), lists.size()));
  }
  bool ordered = false;
  for (std::size_t position = 0; position < visible.size(); ++position) {
    const std::size_t gpu = visible[position];
    const GpuOptions::VirtualDevices list = position < lists.size() ? lists[position] : GpuOptions::VirtualDevices{};
    if (list.memory_limit_mb.empty()) {
      result.push_back({gpu, std::nullopt, 0, 0});
      continue;
    }
    const auto range = list.priority.empty() ? PrimaryContext::Priorities{} : priorities(gpu);
    ordered = ordered || !list.device_ordinal.empty();
    for (std::size_t i = 0; i < list.memory_limit_mb.size(); ++i) {
      PlannedDevice device;
      device.gpu = gpu;
      if (!(list.memory_limit_mb[i] > 0 && list.memory_limit_mb[i] < 1e9F))
        throw InvalidArgumentError(fmt::format("memory_limit_mb is MiB above 0, not {}", list.memory_limit_mb[i]));
      device.limit = Bytes{static_cast<std::uint64_t>(static_cast<double>(list.memory_limit_mb[i]) * (1 << 20))};
      if (i < list.priority.size()) {
        device.priority = list.priority[i];
        if (device.priority < range.highest || device.priority > range.lowest) {
          throw InvalidArgumentError(fmt::format(
              "Priority {} is outside the range of supported priorities [{},{}] for virtual device {} on GPU# {}",
              device.priority, range.highest, range.lowest, i, gpu));
        }
      }
      if (i < list.device_ordinal.size()) device.ordinal = list.device_ordinal[i];
      result.push_back(device);
    }
  }
  // The sort is stable, so that the physical position and the place in the list break ties.
  if (ordered) {
    std::stable_sort(result.begin(), result.end(), [](const PlannedDevice& left, const PlannedDevice& right) {
      return left.ordinal < right.ordinal;
    });
  }
  return result;
}

}  // namespace ration::runtime
