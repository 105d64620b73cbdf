#include "ration/runtime.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/units.hpp"
#include "pool/driver_blocks.hpp"
#include "pool/pool.hpp"
#include "pool/vmm_backing.hpp"
#include "runtime/environment.hpp"
#include "runtime/state.hpp"

namespace ration {

using namespace runtime;

std::string PhysicalDevice::repr() const {
  return fmt::format("PhysicalDevice(name='{}', device_type='{}')", name, device_type);
}

namespace {

std::vector<PhysicalDevice> of_type(const std::vector<PhysicalDevice>& devices,
                                    const std::optional<std::string>& type) {
  std::vector<PhysicalDevice> result;
  std::copy_if(devices.begin(), devices.end(), std::back_inserter(result),
               [&](const PhysicalDevice& device) { return !type || device.device_type == *type; });
  return result;
}

constexpr std::uint64_t kMinLimit = 2 << 20;

/// Returns true for a positive limit that is small enough to be counted in bytes.
bool is_limit_in_mib(double mib) { return mib > 0 && mib < 1e9; }

bool contains(const std::vector<PhysicalDevice>& devices, const PhysicalDevice& device) {
  return std::find(devices.begin(), devices.end(), device) != devices.end();
}

}  // namespace

// --------------------------------------------------------------------------------------------------- configuration

namespace {

std::atomic<std::uint64_t> generations{0};

/// Returns the number of forks between the first process and this one.
std::uint64_t process_generation() {
  static const bool watched = ::pthread_atfork(nullptr, nullptr, [] { ++generations; }) == 0;
  (void)watched;
  return generations;
}

}  // namespace

Runtime::State::State() : generation(process_generation()) {}

std::unique_lock<std::recursive_mutex> Runtime::State::enter() const {
  if (has_looked() && generation != process_generation()) {
    throw RuntimeError(
        "this process is a child of the one that used ration's devices; device memory does not survive a fork. Start "
        "children before the first use, or with 'spawn'.");
  }
  return std::unique_lock(mutex);
}

Runtime::Runtime() : state_(std::make_unique<State>()) {}
Runtime::~Runtime() = default;

void Runtime::State::look() {
  if (has_looked()) return;
  stage = Stage::kLooked;
  gpus = query_gpus();
  for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu)  // no limit lowers the total
    if (const auto own = own_account(gpu)) gpus[gpu].total = own->book->account(own->account).device().total;
  physical.push_back({"/physical_device:CPU:0", "CPU"});
  for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu)
    physical.push_back({"/physical_device:GPU:" + std::to_string(gpu), "GPU"});
  configuration.visible = physical;
}

void Runtime::State::require_known(const PhysicalDevice& device) {
  look();
  if (!contains(physical, device)) throw ValueError("Unrecognized device: " + device.repr());
}

std::size_t Runtime::State::place_of(const PhysicalDevice& device) {
  return static_cast<std::size_t>(std::find(physical.begin(), physical.end(), device) - physical.begin()) - 1;
}

Bytes Runtime::State::whole(std::size_t gpu) const {
  const auto own = own_account(gpu);
  return own ? whole_of(*own->book, own->account) : gpus[gpu].total;
}

std::vector<PhysicalDevice> Runtime::list_physical_devices(const std::optional<std::string>& device_type) {
  const auto guard = state_->enter();
  state_->look();
  return of_type(state_->physical, device_type);
}

void Runtime::set_visible_devices(const std::vector<PhysicalDevice>& devices,
                                  const std::optional<std::string>& device_type) {
  const auto guard = state_->enter();
  state_->look();
  for (const PhysicalDevice& device : devices) {
    state_->require_known(device);
    if (device_type && device.device_type != *device_type) throw ValueError("Unrecognized device: " + device.repr());
  }
  std::vector<PhysicalDevice> wanted;
  if (device_type) {
    std::copy_if(state_->configuration.visible.begin(), state_->configuration.visible.end(), std::back_inserter(wanted),
                 [&](const PhysicalDevice& device) { return device.device_type != *device_type; });
  }
  wanted.insert(wanted.end(), devices.begin(), devices.end());
  if (wanted == state_->configuration.visible) return;
  if (state_->is_initialized()) throw RuntimeError("Visible devices cannot be modified after being initialized");
  state_->configuration.visible = wanted;
}

std::vector<PhysicalDevice> Runtime::get_visible_devices(const std::optional<std::string>& device_type) {
  const auto guard = state_->enter();
  state_->look();
  return of_type(state_->configuration.visible, device_type);
}

void Runtime::set_memory_growth(const PhysicalDevice& device, bool enable) {
  const auto guard = state_->enter();
  state_->require_known(device);
  if (state_->configuration.logical.count(device.name) != 0)
    throw ValueError("Cannot set memory growth on device when virtual devices configured");
  if (device.device_type != "GPU") throw ValueError("Cannot set memory growth on non-GPU and non-Pluggable devices");
  const auto known = state_->configuration.growth.find(device.name);
  if (known != state_->configuration.growth.end() && known->second == enable) return;
  if (state_->is_initialized()) throw RuntimeError("Physical devices cannot be modified after being initialized");
  state_->configuration.growth[device.name] = enable;
}

bool Runtime::get_memory_growth(const PhysicalDevice& device) {
  const auto guard = state_->enter();
  state_->require_known(device);
  const auto known = state_->configuration.growth.find(device.name);
  return known != state_->configuration.growth.end() && known->second;
}

void Runtime::set_logical_device_configuration(const PhysicalDevice& device,
                                               const std::vector<LogicalDeviceConfiguration>& logical_devices) {
  const auto guard = state_->enter();
  state_->require_known(device);
  for (const LogicalDeviceConfiguration& entry : logical_devices) {
    if (device.device_type == "GPU") {
      if (!entry.memory_limit) throw ValueError("Setting memory limit is required for GPU virtual devices");
      if (!is_limit_in_mib(*entry.memory_limit))
        throw ValueError(fmt::format("A memory limit is MiB above 0, not {}", *entry.memory_limit));
      continue;
    }
    if (entry.memory_limit) throw ValueError("Setting memory limit on CPU virtual devices is currently not supported");
    if (entry.experimental_priority)
      throw ValueError("Setting experimental_priority on CPU virtual  devices is currently not supported");
    if (entry.experimental_device_ordinal)
      throw ValueError("Setting experimental_device_ordinal on CPU virtual  devices is currently not supported");
  }
  const auto known = state_->configuration.logical.find(device.name);
  if (known != state_->configuration.logical.end() && known->second == logical_devices) return;
  if (state_->is_initialized()) throw RuntimeError("Virtual devices cannot be modified after being initialized");
  state_->configuration.logical[device.name] = logical_devices;
}

std::optional<std::vector<LogicalDeviceConfiguration>> Runtime::get_logical_device_configuration(
    const PhysicalDevice& device) {
  const auto guard = state_->enter();
  state_->require_known(device);
  const auto known = state_->configuration.logical.find(device.name);
  if (known == state_->configuration.logical.end()) return std::nullopt;
  return known->second;
}

DeviceDetails Runtime::get_device_details(const PhysicalDevice& device) {
  const auto guard = state_->enter();
  state_->look();
  if (!contains(state_->physical, device)) {
    throw ValueError(
        "The PhysicalDevice must be one obtained from calling `tf.config.list_physical_devices`, but got: " +
        device.repr());
  }
  DeviceDetails details;
  if (device.device_type != "GPU") return details;
  const std::size_t place = state_->place_of(device);
  const PhysicalGpu& gpu = state_->gpus[place];
  details.device_name = gpu.name;
  details.compute_capability = {gpu.capability_major, gpu.capability_minor};
  const auto own = state_->own_account(place);
  const Bytes whole = state_->whole(place);
  details.memory_total = (own ? own->book->account(own->account).visible_size(whole) : whole).count();
  if (const auto used = used_by_everybody(gpu)) {
    details.memory_used = used->count();
  } else if (const PrimaryContext& context = state_->context_of(place); context.get() != nullptr) {
    const PrimaryContext::Memory memory = context.memory();  // counts the context's own cost as used
    details.memory_used = (memory.total - memory.available).count();
  }
  return details;
}

// --------------------------------------------------------------------------------------------------- initialisation

PrimaryContext& Runtime::State::context_of(std::size_t gpu) {
  auto& context = contexts[gpu];
  if (context == nullptr) context = std::make_unique<PrimaryContext>(*driver::Driver::get(), gpus[gpu].ordinal);
  return *context;
}

std::vector<std::size_t> Runtime::State::visible_gpus() const {
  std::vector<std::size_t> result;
  for (const PhysicalDevice& device : configuration.visible) {
    const auto found = std::find(physical.begin(), physical.end(), device);
    if (device.device_type == "GPU") result.push_back(static_cast<std::size_t>(found - physical.begin()) - 1);
  }
  return result;
}

GpuOptions Runtime::State::options_from_configuration() const {
  GpuOptions options;
  const std::vector<std::size_t> places = visible_gpus();
  bool any_logical = false;
  for (const auto& [name, entries] : configuration.logical) any_logical = any_logical || !entries.empty();
  const auto growth_of = [&](std::size_t gpu) {
    const auto known = configuration.growth.find(physical[gpu + 1].name);
    return known != configuration.growth.end() && known->second;
  };
  // Once set_memory_limit() was called, growth may differ between devices.
  if (!any_logical && configuration.limits.empty()) {
    for (const std::size_t gpu : places) {
      if (growth_of(gpu) != growth_of(places.front()))
        throw ValueError("Memory growth cannot differ between GPU devices");
    }
  }
  if (!any_logical) return options;
  for (const std::size_t gpu : places) {
    GpuOptions::VirtualDevices list;
    const auto known = configuration.logical.find(physical[gpu + 1].name);
    if (known != configuration.logical.end()) {
      for (const LogicalDeviceConfiguration& entry : known->second) {
        list.memory_limit_mb.push_back(static_cast<float>(*entry.memory_limit));
        if (entry.experimental_priority) list.priority.push_back(*entry.experimental_priority);
        if (entry.experimental_device_ordinal) list.device_ordinal.push_back(*entry.experimental_device_ordinal);
      }
    }
    if (!list.priority.empty() && list.priority.size() != list.memory_limit_mb.size())
      throw ValueError("priority must be specified for all virtual devices");
    if (!list.device_ordinal.empty() && list.device_ordinal.size() != list.memory_limit_mb.size())
      throw ValueError("device_ordinals must be specified for all virtual devices");
    options.virtual_devices.push_back(std::move(list));
  }
  return options;
}

bool Runtime::State::grows(std::size_t gpu, const GpuOptions& options, const Environment& environment) const {
  if (environment.force_growth) return *environment.force_growth;
  const auto known = configuration.growth.find(physical[gpu + 1].name);
  return options.allow_growth || (known != configuration.growth.end() && known->second);
}

std::unique_ptr<pool::Allocator> Runtime::State::make_memory(std::size_t gpu, Bytes limit, bool growth_wanted,
                                                             bool managed, const GpuOptions& options,
                                                             const Environment& environment) {
  const driver::Driver& driver = *driver::Driver::get();
  const PrimaryContext& context = context_of(gpu);
  const cuda::CUdevice ordinal = gpus[gpu].ordinal;
  const bool async =
      options.allocator_type == "cuda_malloc_async" || options.use_cuda_malloc_async || environment.async;
  if (managed) {
    if (driver.cuMemAllocManaged == nullptr) throw RuntimeError("This driver has no managed memory.");
    return std::make_unique<pool::DriverBlocks>(driver, ordinal, context.get(), pool::DriverBlocks::Kind::kManaged,
                                                limit);
  }
  if (async || environment.direct || !pool::VmmBacking::is_possible(driver, ordinal)) {
    const auto kind = async ? pool::DriverBlocks::Kind::kAsync : pool::DriverBlocks::Kind::kDirect;
    auto blocks = std::make_unique<pool::DriverBlocks>(driver, ordinal, context.get(), kind, limit);
    std::uint64_t address = 0;
    if (async && environment.preallocate_mib &&
        blocks->allocate(0, Bytes{*environment.preallocate_mib << 20}, 256, address) == pool::Failure::kNone)
      (void)blocks->deallocate(0, address);  // the memory stays in the driver's pool
    return blocks;
  }
  pool::Options pool_options;
  pool_options.limit = limit;
  pool_options.device = gpus[gpu].total;
  pool_options.growth = growth_wanted;
  pool_options.moves = environment.moves;
  pool_options.reclaim_above = environment.reclaim_above;
  if (environment.min_block) pool_options.min_block = *environment.min_block;
  pool::Failure failure = pool::Failure::kNone;
  auto made =
      pool::Pool::make(std::make_unique<pool::VmmBacking>(driver, ordinal, context.get()), pool_options, failure);
  if (made == nullptr) {
    throw MemoryLimitExceeded(
        fmt::format("no pool of {} can be made on GPU {}: {}.", format_size(limit), gpu, pool::describe(failure)),
        limit.count(), limit.count(), 0);
  }
  return made;
}

Bytes Runtime::State::room_on(std::size_t gpu, Bytes available, const GpuOptions& options,
                              const Environment& environment) const {
  Bytes reserve = system_reserve(available, gpus[gpu].capability_major);
  if (options.gpu_system_memory_size_in_mb > 0)
    reserve = Bytes{static_cast<std::uint64_t>(options.gpu_system_memory_size_in_mb) << 20};
  if (environment.reserve_mib) reserve = Bytes{*environment.reserve_mib << 20};
  if (reserve >= available) {
    throw InvalidArgumentError(fmt::format("{} are kept for the system, and GPU {} has {} left: that leaves nothing.",
                                           format_size(reserve), gpu, format_size(available)));
  }
  return available - reserve;
}

Bytes Runtime::State::limit_of(const PlannedDevice& device, const SharedGpu& shared, const GpuOptions& options,
                               const Environment& environment) const {
  Bytes limit;
  const auto own_limit = configuration.limits.find(physical[device.gpu + 1].name);
  if (device.limit) {
    limit = *device.limit;
  } else if (own_limit != configuration.limits.end()) {
    limit = Bytes{own_limit->second.count() / shared.parts};
  } else if (shared.fraction > 0) {
    limit = Bytes{static_cast<std::uint64_t>(shared.fraction * static_cast<double>(whole(device.gpu).count())) /
                  shared.parts};
  } else {
    limit = Bytes{room_on(device.gpu, shared.available, options, environment).count() / shared.parts};
  }
  if (device_limit) limit = std::min(limit, Bytes{device_limit->count() / shared.parts});
  if (limit < Bytes{kMinLimit}) {
    throw InvalidArgumentError(fmt::format("a limit of {} on GPU {} leaves nothing: memory comes in pieces of 2 MiB.",
                                           format_size(limit), device.gpu));
  }
  if (environment.min_block && *environment.min_block > limit) {
    throw InvalidArgumentError(fmt::format("RATION_MIN_BLOCK is {}, more than the limit of {} on GPU {}.",
                                           format_size(*environment.min_block), format_size(limit), device.gpu));
  }
  return limit;
}

void Runtime::State::make(const GpuOptions& options, const std::vector<std::size_t>& visible_places) {
  const Environment environment = Environment::read();
  if (options.use_cuda_malloc_async && !options.allocator_type.empty() &&
      options.allocator_type != "cuda_malloc_async") {
    throw InvalidArgumentError(
        fmt::format("use_cuda_malloc_async and allocator_type '{}' contradict each other.", options.allocator_type));
  }
  device_limit = environment.device_limit;
  const auto planned =
      plan_devices(options, visible_places, [&](std::size_t gpu) { return context_of(gpu).priorities(); });
  std::map<std::size_t, std::size_t> parts;  // the number of logical devices by GPU; they share what is available there
  for (const PlannedDevice& device : planned) ++parts[device.gpu];
  std::map<std::size_t, Bytes> available;
  std::vector<LogicalGpu> made;
  for (const PlannedDevice& device : planned) {
    const PrimaryContext& context = context_of(device.gpu);
    if (context.get() == nullptr)
      throw MemoryLimitExceeded(fmt::format("no context can be made on GPU {}.", device.gpu), 0, 0, 0);
    if (available.count(device.gpu) == 0) available[device.gpu] = context.memory().available;
    const PhysicalGpu& gpu = gpus[device.gpu];
    const double fraction = options.per_process_gpu_memory_fraction > 0 ? options.per_process_gpu_memory_fraction
                                                                        : environment.fraction.value_or(0);
    if (!(fraction >= 0 && fraction <= 64))
      throw InvalidArgumentError(fmt::format("{} is not a share of a GPU's memory.", fraction));
    const bool managed = fraction > 1 || options.use_unified_memory;
    if (managed && gpu.capability_major < 6) {
      throw InvalidArgumentError(
          "Unified memory on GPUs with compute capability lower than 6.0 (pre-Pascal class GPUs) does not support "
          "oversubscription.");
    }
    const Bytes limit = limit_of(device, {fraction, available[device.gpu], parts[device.gpu]}, options, environment);
    LogicalGpu logical_gpu;
    logical_gpu.gpu = device.gpu;
    logical_gpu.configured = limit;
    logical_gpu.is_capped = device.limit.has_value();
    logical_gpu.memory =
        make_memory(device.gpu, limit, grows(device.gpu, options, environment), managed, options, environment);
    made.push_back(std::move(logical_gpu));
  }
  logical_gpus = std::move(made);
  std::size_t cpus = 1;
  if (const auto known = configuration.logical.find(physical[0].name);
      known != configuration.logical.end() && !known->second.empty())
    cpus = known->second.size();
  for (std::size_t cpu = 0; cpu < cpus; ++cpu) logical_devices.push_back({"/device:CPU:" + std::to_string(cpu), "CPU"});
  for (std::size_t gpu = 0; gpu < logical_gpus.size(); ++gpu)
    logical_devices.push_back({"/device:GPU:" + std::to_string(gpu), "GPU"});
  stage = Stage::kInitialized;
  reclaimer = Reclaimer::start(
      [this] {
        try {
          (void)pressure.tell(0);
        } catch (...) {  // no request could receive the exception
        }
      },
      [this] {
        for (const LogicalGpu& each : logical_gpus) (void)each.memory->trim();
      },
      [this] {
        std::uint64_t requests = 0;
        for (const LogicalGpu& each : logical_gpus) requests += each.memory->statistics().num_allocs;
        return requests;
      });
  for (const auto& [name, limit] : configuration.limits) {
    const auto device =
        std::find_if(physical.begin(), physical.end(), [&](const auto& each) { return each.name == name; });
    apply_limit(static_cast<std::size_t>(device - physical.begin()) - 1);
  }
}

void Runtime::initialize() {
  const auto guard = state_->enter();
  if (state_->is_initialized()) return;
  state_->look();
  state_->make_as_configured();
}

void Runtime::initialize(const GpuOptions& options) {
  const auto guard = state_->enter();
  if (state_->is_initialized()) throw RuntimeError("Virtual devices cannot be modified after being initialized");
  state_->look();
  state_->make(options, parse_visible_list(options.visible_device_list, state_->gpus.size()));
  if (const auto names = options.without_effect(); !names.empty()) {
    fmt::print(stderr, "ration: these GPUOptions do nothing on ration's pool (docs/pool.md): {}.\n",
               fmt::join(names, ", "));
  }
}

bool Runtime::is_initialized() const {
  const auto guard = state_->enter();
  return state_->is_initialized();
}

std::vector<LogicalDevice> Runtime::list_logical_devices(const std::optional<std::string>& device_type) {
  const auto guard = state_->enter();
  initialize();
  std::vector<LogicalDevice> result;
  for (const LogicalDevice& device : state_->logical_devices) {
    if (!device_type || device.device_type == *device_type) result.push_back(device);
  }
  return result;
}

Runtime& default_runtime() {
  static auto* runtime = new Runtime;  // never destroyed, since atexit handlers use it
  return *runtime;
}

}  // namespace ration
