// The C interface of runtime.hpp, which turns exceptions into status codes and keeps the text of each thread's last
// failure.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "ration/ration.h"
#include "ration/runtime.hpp"
#include "runtime/environment.hpp"
#include "runtime/shares.hpp"
#include "runtime/tags.hpp"
#include "runtime/torch_allocation.hpp"

struct ration_runtime {
  ration::Runtime* runtime;
  bool owned;
};

namespace {

using ration::LogicalDeviceConfiguration;
using ration::PhysicalDevice;

struct LastFailure {
  std::string text;
  ration_refusal refusal{};
};
thread_local LastFailure last_failure;
// The pointer saves thread-local memory, which is scarce for a library that is loaded late.
thread_local std::unique_ptr<std::string> last_problems;

template <typename Call>
ration_status guarded(Call&& call) noexcept {
  const auto failed = [](ration_status status, const char* text) {
    last_failure.text = text;
    return status;
  };
  try {
    return call();
  } catch (const ration::MemoryLimitExceeded& error) {
    last_failure.refusal = {sizeof(ration_refusal), 0, error.requested, error.limit, error.held};
    return failed(RATION_OUT_OF_MEMORY, error.what());
  } catch (const ration::ValueError& error) {
    return failed(RATION_VALUE_ERROR, error.what());
  } catch (const ration::RuntimeError& error) {
    return failed(RATION_RUNTIME_ERROR, error.what());
  } catch (const ration::InvalidArgumentError& error) {
    return failed(RATION_INVALID_ARGUMENT, error.what());
  } catch (const ration::UnknownError& error) {
    return failed(RATION_UNKNOWN, error.what());
  } catch (const std::exception& error) {
    return failed(RATION_INTERNAL, error.what());
  }
}

ration::Runtime& of(ration_runtime* runtime) {
  return runtime != nullptr ? *runtime->runtime : ration::default_runtime();
}

std::optional<std::string> type_of(const char* type) {
  return type == nullptr ? std::nullopt : std::optional<std::string>(type);
}

template <typename Struct>
void require(const Struct* given, const char* what) {
  if (given == nullptr) throw ration::ValueError(std::string(what) + " is NULL");
}

/// Throws ValueError unless the struct that the caller filled has at least the fields of its first version.
template <typename Struct>
void require_filled(const Struct* given, const char* what) {
  require(given, what);
  if (given->size < sizeof(Struct) || given->size > 4096)
    throw ration::ValueError(std::string("the size of ") + what + " is not set");
}

/// Sets the text for ration_last_error() and returns RATION_BUFFER_TOO_SMALL.
ration_status too_small(const char* text) {
  last_failure.text = text;
  return RATION_BUFFER_TOO_SMALL;
}

PhysicalDevice device_of(const ration_device* device) {
  require_filled(device, "device");
  return {std::string(device->name, ::strnlen(device->name, sizeof device->name)),
          std::string(device->type, ::strnlen(device->type, sizeof device->type))};
}

/// Copies as much of `value` as the caller's struct has room for; the struct keeps its own size.
template <typename Struct>
void hand_out(Struct* out, Struct value) {
  require(out, "out");
  if (out->size < sizeof out->size) throw ration::ValueError("the struct's size is not set");
  value.size = out->size;
  std::memcpy(out, &value, std::min<std::size_t>(out->size, sizeof value));
}

template <typename Device>
ration_status hand_out_devices(const std::vector<Device>& devices, ration_device* out, std::size_t capacity,
                               std::size_t* count) {
  require(count, "count");
  if (capacity > 0) require(out, "out");
  *count = devices.size();
  for (std::size_t i = 0; i < std::min(capacity, devices.size()); ++i) {
    ration_device each{};
    each.size = sizeof each;
    std::strncpy(each.name, devices[i].name.c_str(), sizeof each.name - 1);
    std::strncpy(each.type, devices[i].device_type.c_str(), sizeof each.type - 1);
    out[i] = each;
  }
  return capacity < devices.size() && capacity > 0 ? too_small("there are more devices than there is room for")
                                                   : RATION_OK;
}

/// Turns growth on, since PyTorch's users expect a pool that begins small. Earlier configuration stays.
void grow_unless_configured() {
  static const bool once = [] {
    ration::Runtime& runtime = ration::default_runtime();
    if (runtime.is_initialized()) return true;
    for (const PhysicalDevice& gpu : runtime.get_visible_devices("GPU")) {
      if (!runtime.get_logical_device_configuration(gpu)) runtime.set_memory_growth(gpu, true);
    }
    return true;
  }();
  (void)once;
}

}  // namespace

namespace ration::runtime {

const char* allocate_for_torch(std::ptrdiff_t size, int device, void* stream, void** out) noexcept {
  *out = nullptr;
  if (size <= 0) return nullptr;
  (void)guarded([] {
    grow_unless_configured();
    return RATION_OK;
  });
  if (ration_allocate(nullptr, device, static_cast<std::size_t>(size), 0, stream, out) == RATION_OK) return nullptr;
  last_failure.text.insert(0, "CUDA out of memory. ");
  return last_failure.text.c_str();
}

}  // namespace ration::runtime

extern "C" {

const char* ration_last_error(void) { return last_failure.text.c_str(); }

ration_status ration_last_refusal(ration_refusal* out) {
  return guarded([&] {
    hand_out(out, last_failure.refusal);
    return RATION_OK;
  });
}

const char* ration_version(void) { return RATION_VERSION; }

const char* ration_environment_problems(void) {
  last_problems = std::make_unique<std::string>();
  for (const std::string& problem : ration::runtime::Environment::problems()) *last_problems += problem + '\n';
  return last_problems->c_str();
}

ration_status ration_runtime_create(ration_runtime** out) {
  return guarded([&] {
    require(out, "out");
    *out = new ration_runtime{new ration::Runtime, true};
    return RATION_OK;
  });
}

void ration_runtime_destroy(ration_runtime* runtime) {
  if (runtime == nullptr || !runtime->owned) return;
  delete runtime->runtime;
  delete runtime;
}

ration_runtime* ration_runtime_default(void) {
  static ration_runtime shared{&ration::default_runtime(), false};
  return &shared;
}

ration_status ration_list_physical_devices(ration_runtime* runtime, const char* type, ration_device* out,
                                           size_t capacity, size_t* count) {
  return guarded(
      [&] { return hand_out_devices(of(runtime).list_physical_devices(type_of(type)), out, capacity, count); });
}

ration_status ration_get_visible_devices(ration_runtime* runtime, const char* type, ration_device* out, size_t capacity,
                                         size_t* count) {
  return guarded(
      [&] { return hand_out_devices(of(runtime).get_visible_devices(type_of(type)), out, capacity, count); });
}

ration_status ration_set_visible_devices(ration_runtime* runtime, const ration_device* devices, size_t count,
                                         const char* type) {
  return guarded([&] {
    if (count > 0) require(devices, "devices");
    std::vector<PhysicalDevice> wanted;
    for (size_t i = 0; i < count; ++i) wanted.push_back(device_of(devices + i));
    of(runtime).set_visible_devices(wanted, type_of(type));
    return RATION_OK;
  });
}

ration_status ration_list_logical_devices(ration_runtime* runtime, const char* type, ration_device* out,
                                          size_t capacity, size_t* count) {
  return guarded(
      [&] { return hand_out_devices(of(runtime).list_logical_devices(type_of(type)), out, capacity, count); });
}

ration_status ration_set_memory_growth(ration_runtime* runtime, const ration_device* device, int enable) {
  return guarded([&] {
    of(runtime).set_memory_growth(device_of(device), enable != 0);
    return RATION_OK;
  });
}

ration_status ration_get_memory_growth(ration_runtime* runtime, const ration_device* device, int* enabled) {
  return guarded([&] {
    require(enabled, "enabled");
    *enabled = of(runtime).get_memory_growth(device_of(device)) ? 1 : 0;
    return RATION_OK;
  });
}

ration_status ration_set_logical_devices(ration_runtime* runtime, const ration_device* device,
                                         const ration_logical_configuration* entries, size_t count) {
  return guarded([&] {
    if (count > 0) require_filled(entries, "entries");
    std::vector<LogicalDeviceConfiguration> wanted(count);
    for (size_t i = 0; i < count; ++i) {
      if ((entries[i].has & RATION_HAS_MEMORY_LIMIT) != 0) wanted[i].memory_limit = entries[i].memory_limit_mib;
      if ((entries[i].has & RATION_HAS_PRIORITY) != 0) wanted[i].experimental_priority = entries[i].priority;
      if ((entries[i].has & RATION_HAS_ORDINAL) != 0) wanted[i].experimental_device_ordinal = entries[i].device_ordinal;
    }
    of(runtime).set_logical_device_configuration(device_of(device), wanted);
    return RATION_OK;
  });
}

ration_status ration_get_logical_devices(ration_runtime* runtime, const ration_device* device,
                                         ration_logical_configuration* out, size_t capacity, size_t* count,
                                         int* is_set) {
  return guarded([&] {
    require(count, "count");
    require(is_set, "is_set");
    if (capacity > 0) require(out, "out");
    const auto known = of(runtime).get_logical_device_configuration(device_of(device));
    *is_set = known.has_value() ? 1 : 0;
    *count = known ? known->size() : 0;
    for (size_t i = 0; i < std::min(capacity, *count); ++i) {
      const LogicalDeviceConfiguration& entry = (*known)[i];
      out[i] = {sizeof *out, 0, entry.memory_limit.value_or(0), entry.experimental_priority.value_or(0),
                entry.experimental_device_ordinal.value_or(0)};
      out[i].has = (entry.memory_limit ? RATION_HAS_MEMORY_LIMIT : 0) |
                   (entry.experimental_priority ? RATION_HAS_PRIORITY : 0) |
                   (entry.experimental_device_ordinal ? RATION_HAS_ORDINAL : 0);
    }
    return capacity < *count && capacity > 0 ? RATION_BUFFER_TOO_SMALL : RATION_OK;
  });
}

ration_status ration_get_device_details(ration_runtime* runtime, const ration_device* device,
                                        ration_device_details* out) {
  return guarded([&] {
    const ration::DeviceDetails details = of(runtime).get_device_details(device_of(device));
    ration_device_details result{};
    result.compute_capability_major = details.compute_capability.first;
    result.compute_capability_minor = details.compute_capability.second;
    std::strncpy(result.device_name, details.device_name.c_str(), sizeof result.device_name - 1);
    result.memory_total = details.memory_total;
    result.memory_used = details.memory_used;
    hand_out(out, result);
    return RATION_OK;
  });
}

ration_status ration_initialize(ration_runtime* runtime) {
  return guarded([&] {
    of(runtime).initialize();
    return RATION_OK;
  });
}

int ration_is_initialized(ration_runtime* runtime) { return of(runtime).is_initialized() ? 1 : 0; }

ration_status ration_get_memory_info(ration_runtime* runtime, const char* device, ration_memory_info* out) {
  return guarded([&] {
    require(device, "device");
    const ration::MemoryInfo info = of(runtime).get_memory_info(device);
    ration_memory_info result{};
    result.current = info.current;
    result.peak = info.peak;
    result.held = info.held;
    result.peak_held = info.peak_held;
    result.limit = info.limit;
    result.num_allocs = info.num_allocs;
    result.largest_alloc_size = info.largest_alloc_size;
    result.largest_free_block = info.largest_free_block;
    result.fragmentation = info.fragmentation;
    hand_out(out, result);
    return RATION_OK;
  });
}

ration_status ration_reset_memory_stats(ration_runtime* runtime, const char* device) {
  return guarded([&] {
    require(device, "device");
    of(runtime).reset_memory_stats(device);
    return RATION_OK;
  });
}

ration_status ration_activate(void) {
  return guarded([] {
    ration::Runtime::activate();
    return RATION_OK;
  });
}

ration_status ration_prepare_restart(void) {
  return guarded([] {
    ration::Runtime::prepare_restart();
    return RATION_OK;
  });
}

ration_status ration_get_workload_info(int gpu, ration_workload_info* out) {
  return guarded([&] {
    const ration::WorkloadInfo info = ration::Runtime::workload_info(gpu);
    hand_out(out, ration_workload_info{0, 0, info.used, info.peak, info.limit, info.total});
    return RATION_OK;
  });
}

ration_status ration_limit_share(const char* share, int gpu, const char* size) {
  return guarded([&] {
    require(share, "share");
    require(size, "size");
    ration::Runtime::limit_share(share, size, gpu < 0 ? std::nullopt : std::optional(gpu));
    return RATION_OK;
  });
}

ration_status ration_enter_share(const char* share, ration_former_share* former) {
  return guarded([&] {
    require(share, "share");
    require(former, "former");
    const auto before = ration::runtime::enter_share(ration::runtime::share_named(share));
    *former = {before.own, before.common};
    return RATION_OK;
  });
}

ration_status ration_leave_share(const ration_former_share* former) {
  return guarded([&] {
    require(former, "former");
    ration::runtime::leave_share({former->own, former->common});
    return RATION_OK;
  });
}

ration_status ration_mark(const char* text) {
  return guarded([&] {
    require(text, "text");
    ration::mark(text);
    return RATION_OK;
  });
}

ration_status ration_get_share_info(const char* share, int gpu, ration_workload_info* out) {
  return guarded([&] {
    require(share, "share");
    const ration::WorkloadInfo info = ration::Runtime::share_info(share, gpu);
    hand_out(out, ration_workload_info{0, 0, info.used, info.peak, info.limit, info.total});
    return RATION_OK;
  });
}

ration_status ration_limit(ration_runtime* runtime, int gpu, const char* size) {
  return guarded([&] {
    require(size, "size");
    of(runtime).limit(size, gpu < 0 ? std::nullopt : std::optional(gpu));
    return RATION_OK;
  });
}

ration_status ration_limit_host(const char* size) {
  return guarded([&] {
    require(size, "size");
    ration::Runtime::limit_host(size);
    return RATION_OK;
  });
}

ration_status ration_get_host_limit(uint64_t* bytes) {
  return guarded([&] {
    require(bytes, "bytes");
    *bytes = ration::Runtime::host_limit();
    return RATION_OK;
  });
}

ration_status ration_get_host_info(ration_workload_info* out) {
  return guarded([&] {
    const ration::WorkloadInfo info = ration::Runtime::host_info();
    hand_out(out, ration_workload_info{0, 0, info.used, info.peak, info.limit, info.total});
    return RATION_OK;
  });
}

ration_status ration_get_limit(ration_runtime* runtime, int gpu, uint64_t* bytes) {
  return guarded([&] {
    require(bytes, "bytes");
    *bytes = of(runtime).limit_of(gpu);
    return RATION_OK;
  });
}

ration_status ration_set_memory_limit(ration_runtime* runtime, const ration_device* device, uint64_t bytes) {
  return guarded([&] {
    of(runtime).set_memory_limit(device_of(device), bytes);
    return RATION_OK;
  });
}

ration_status ration_set_memory_limit_fraction(ration_runtime* runtime, const ration_device* device, double share) {
  return guarded([&] {
    of(runtime).set_memory_limit_fraction(device_of(device), share);
    return RATION_OK;
  });
}

ration_status ration_set_memory_limit_text(ration_runtime* runtime, const ration_device* device, const char* text) {
  return guarded([&] {
    require(text, "text");
    of(runtime).set_memory_limit(device_of(device), std::string(text));
    return RATION_OK;
  });
}

ration_status ration_clear_memory_limit(ration_runtime* runtime, const ration_device* device) {
  return guarded([&] {
    of(runtime).clear_memory_limit(device_of(device));
    return RATION_OK;
  });
}

ration_status ration_get_memory_limit(ration_runtime* runtime, const ration_device* device, uint64_t* bytes) {
  return guarded([&] {
    require(bytes, "bytes");
    *bytes = of(runtime).get_memory_limit(device_of(device));
    return RATION_OK;
  });
}

ration_status ration_allocate(ration_runtime* runtime, int gpu, size_t bytes, size_t alignment, void* stream,
                              void** out) {
  return guarded([&] {
    require(out, "out");
    *out = of(runtime).allocate(gpu, bytes, stream, alignment == 0 ? 256 : alignment);
    return RATION_OK;
  });
}

ration_status ration_deallocate(ration_runtime* runtime, int gpu, void* address, void* stream) {
  return guarded([&] {
    of(runtime).deallocate(gpu, address, stream);
    return RATION_OK;
  });
}

ration_status ration_record_stream(ration_runtime* runtime, void* address, void* stream) {
  return guarded([&] {
    of(runtime).record_stream(address, stream);
    return RATION_OK;
  });
}

ration_status ration_trim(ration_runtime* runtime, int gpu, uint64_t* bytes) {
  return guarded([&] {
    const uint64_t went = of(runtime).trim(gpu);
    if (bytes != nullptr) *bytes = went;
    return RATION_OK;
  });
}

ration_status ration_on_pressure(ration_runtime* runtime, ration_pressure_callback callback, void* user,
                                 uint64_t* number) {
  return guarded([&] {
    if (number == nullptr) throw ration::ValueError("number is NULL");
    if (callback == nullptr) throw ration::ValueError("callback is NULL");
    *number = of(runtime).on_pressure([callback, user](std::uint64_t wanted) { callback(wanted, user); });
    return RATION_OK;
  });
}

ration_status ration_remove_pressure_callback(ration_runtime* runtime, uint64_t number) {
  return guarded([&] {
    of(runtime).remove_pressure_callback(number);
    return RATION_OK;
  });
}

ration_status ration_set_tag(const char* tag) {
  return guarded([&] {
    const std::string text = tag == nullptr ? "" : tag;
    if (!ration::runtime::is_tag(text)) throw ration::ValueError("a tag is UTF-8 of at most 256 bytes");
    (void)ration::runtime::exchange_tag(text);
    return RATION_OK;
  });
}

ration_status ration_memory_map(ration_runtime* runtime, int gpu, ration_map_format format, char* buffer,
                                size_t capacity, size_t* needed) {
  return guarded([&] {
    require(needed, "needed");
    if (format != RATION_MAP_JSON && format != RATION_MAP_SVG) throw ration::ValueError("the map has no such format");
    const std::string text =
        format == RATION_MAP_SVG ? of(runtime).memory_map_svg(gpu) : of(runtime).memory_map_json(gpu);
    *needed = text.size() + 1;
    if (capacity < *needed) return too_small("the map is longer than the buffer");
    require(buffer, "buffer");
    std::memcpy(buffer, text.c_str(), *needed);
    return RATION_OK;
  });
}

void ration_torch_free(void* address, ptrdiff_t, int device, void* stream) {
  (void)ration_deallocate(nullptr, device, address, stream);
}

void ration_torch_record_stream(void* address, void* stream) { (void)ration_record_stream(nullptr, address, stream); }

}  // extern "C"
