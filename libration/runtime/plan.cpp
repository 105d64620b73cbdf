#include "runtime/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/strings.hpp"
#include "base/units.hpp"

namespace ration::runtime {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

std::optional<bool> truth(const std::optional<std::string>& text) {
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  return std::nullopt;  // anything else is ignored, as TensorFlow does
}

std::optional<double> number(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  return error == std::errc() && end == text->data() + text->size() ? std::optional<double>(value) : std::nullopt;
}

}  // namespace

/// PYTORCH_ALLOC_CONF, formerly PYTORCH_CUDA_ALLOC_CONF: "backend:cudaMallocAsync,garbage_collection_threshold:0.8".
/// Its other settings concern blocks that are split or segments that cannot grow: the pool has neither.
void Environment::read_pytorch() {
  auto text = variable("PYTORCH_ALLOC_CONF");
  if (!text) text = variable("PYTORCH_CUDA_ALLOC_CONF");
  if (!text) return;
  for (const std::string_view entry : split(*text, ',')) {
    const auto setting = split_once(entry, ':');
    if (!setting) continue;
    const auto [key, value] = *setting;
    const auto share = number(std::string(value));
    const bool is_share = share && *share > 0 && *share <= 1;
    if (key == "backend" && value == "cudaMallocAsync") async = true;
    if (key == "garbage_collection_threshold" && is_share) reclaim_above = *share;
    if (key == "per_process_memory_fraction" && is_share) fraction = share;
  }
}

Environment Environment::read() {
  Environment result;
  result.read_pytorch();
  result.moves = truth(variable("TF_ENABLE_GPU_GARBAGE_COLLECTION")).value_or(true);
  if (const auto preallocate = truth(variable("XLA_PYTHON_CLIENT_PREALLOCATE"))) result.force_growth = !*preallocate;
  if (const auto growth = truth(variable("TF_FORCE_GPU_ALLOW_GROWTH"))) result.force_growth = growth;
  if (const auto reserve = number(variable("TF_DEVICE_MIN_SYS_MEMORY_IN_MB")); reserve && *reserve >= 0)
    result.reserve_mib = static_cast<std::uint64_t>(*reserve);
  for (const char* name : {"XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"}) {
    if (const auto share = number(variable(name)); share && *share > 0) result.fraction = share;
  }
  const auto xla = variable("XLA_PYTHON_CLIENT_ALLOCATOR");
  result.async = result.async || variable("TF_GPU_ALLOCATOR") == "cuda_malloc_async" || xla == "cuda_async";
  result.direct = xla == "platform";
  if (const auto mib = number(variable("TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC")); mib && *mib >= 1)
    result.preallocate_mib = static_cast<std::uint64_t>(*mib);
  if (const auto text = variable("RATION_MIN_BLOCK")) {
    if (const auto size = parse_size(*text, Bytes{0}, Bytes{0})) result.min_block = *size;
  }
  return result;
}

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
  // Stable: the physical position and the place in the list break ties.
  if (ordered) {
    std::stable_sort(result.begin(), result.end(), [](const PlannedDevice& left, const PlannedDevice& right) {
      return left.ordinal < right.ordinal;
    });
  }
  return result;
}

}  // namespace ration::runtime
