// Device configuration as TensorFlow's users know it, on ration's own pool: physical, visible and logical devices,
// memory growth, limits; and beyond it limits that may change at any time, as a size or a share.
//
// Names, order of checks, error classes and texts are TensorFlow's (its sources of 2026-03). Additions of ration are
// marked. Every function is thread-safe. Sizes are bytes unless stated otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ration {

/// A wrong value: TensorFlow's ValueError.
struct ValueError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};
/// Too late: TensorFlow's RuntimeError.
struct RuntimeError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Of session options: TensorFlow's errors::InvalidArgument.
struct InvalidArgumentError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};
/// Of session options: TensorFlow's errors::Unknown.
struct UnknownError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Memory was denied. `what()` says how much, of what, who holds it and what to do.
struct MemoryLimitExceeded : std::runtime_error {
  MemoryLimitExceeded(const std::string& text, std::uint64_t requested_bytes, std::uint64_t limit_bytes,
                      std::uint64_t held_bytes)
      : std::runtime_error(text), requested(requested_bytes), limit(limit_bytes), held(held_bytes) {}
  std::uint64_t requested, limit, held;
};

/// '/physical_device:GPU:0', 'GPU'.
struct PhysicalDevice {
  std::string name, device_type;
  bool operator==(const PhysicalDevice&) const = default;
  /// As Python prints it: PhysicalDevice(name='…', device_type='…').
  [[nodiscard]] std::string repr() const;
};

/// '/device:GPU:0', 'GPU'.
struct LogicalDevice {
  std::string name, device_type;
  bool operator==(const LogicalDevice&) const = default;
};

struct LogicalDeviceConfiguration {
  std::optional<double> memory_limit;  ///< MiB
  std::optional<int> experimental_priority;
  std::optional<int> experimental_device_ordinal;
  bool operator==(const LogicalDeviceConfiguration&) const = default;
};

/// The memory taken by one logical device. `current` and `peak` are TensorFlow's; the rest is ration's.
struct MemoryInfo {
  std::uint64_t current = 0, peak = 0;    ///< handed out
  std::uint64_t held = 0, peak_held = 0;  ///< taken from the device
  std::uint64_t limit = 0;
  std::uint64_t num_allocs = 0, largest_alloc_size = 0, largest_free_block = 0;  ///< the first is a count
  double fragmentation = 0;                                                      ///< 0 to 1
};

struct DeviceDetails {
  std::string device_name;
  std::pair<int, int> compute_capability{0, 0};
  std::uint64_t memory_total = 0, memory_used = 0;  ///< ration's; used by whomever
};

/// The memory of this process's workload on one GPU, over all its processes. `total`: what a limit of its own may be at
/// most.
struct WorkloadInfo {
  std::uint64_t used = 0, peak = 0, limit = 0, total = 0;
};

/// The memory handed out under one tag.
struct TagUsage {
  std::string tag;
  std::uint64_t bytes = 0;   ///< as asked for
  std::uint64_t blocks = 0;  ///< a count
};

/// Every field of TensorFlow's GPUOptions, `experimental` included, under its name. docs/tensorflow.md says what each
/// does.
struct GpuOptions {
  double per_process_gpu_memory_fraction = 0;  ///< of the total; 0: all that is available less a reserve
  bool allow_growth = false;
  std::string visible_device_list;  ///< "1,0": positions among the physical GPUs
  struct VirtualDevices {
    std::vector<float> memory_limit_mb;
    std::vector<int> priority;
    std::vector<int> device_ordinal;
  };
  std::vector<VirtualDevices> virtual_devices;  ///< one entry a visible GPU
  int num_virtual_devices_per_gpu = 0;
  bool use_unified_memory = false;
  int gpu_system_memory_size_in_mb = 0;
  std::string allocator_type;          ///< "", "BFC" (ration's pool) or "cuda_malloc_async"
  bool use_cuda_malloc_async = false;  ///< as `allocator_type` "cuda_malloc_async", which it must not contradict

  // These do nothing on ration's pool; initialize() says so in one line on standard error.
  std::int64_t deferred_deletion_bytes = 0;
  int polling_active_delay_usecs = 0;
  int polling_inactive_delay_msecs = 0;
  bool force_gpu_compatible = false;
  int num_dev_to_dev_copy_streams = 0;
  std::string collective_ring_order;
  bool timestamped_allocator = false;
  int kernel_tracker_max_interval = 0;
  int kernel_tracker_max_bytes = 0;
  int kernel_tracker_max_pending = 0;
  double internal_fragmentation_fraction = 0;
  bool disallow_retry_on_allocation_failure = false;
  float gpu_host_mem_limit_in_mb = 0;
  bool gpu_host_mem_disallow_growth = false;
  bool populate_pjrt_gpu_client_creation_info = false;
  int node_id = 0;
  struct StreamMergeOptions {
    bool merge_host_to_device_stream = false;
    bool merge_device_to_host_stream = false;
    bool merge_device_to_device_stream = false;
  };
  StreamMergeOptions stream_merge_options;

  /// Returns the names of the fields that are set and do nothing.
  [[nodiscard]] std::vector<std::string> without_effect() const;
};

/// One configuration of this process's devices. TensorFlow has one a process; so has most of what uses this.
class Runtime {
 public:
  Runtime();
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Before the runtime is initialised, and without initialising it.
  [[nodiscard]] std::vector<PhysicalDevice> list_physical_devices(const std::optional<std::string>& device_type = {});
  /// The order given is the order of logical devices. With `device_type` only that type's list is replaced.
  void set_visible_devices(const std::vector<PhysicalDevice>& devices,
                           const std::optional<std::string>& device_type = {});
  [[nodiscard]] std::vector<PhysicalDevice> get_visible_devices(const std::optional<std::string>& device_type = {});
  void set_memory_growth(const PhysicalDevice& device, bool enable);
  [[nodiscard]] bool get_memory_growth(const PhysicalDevice& device);
  void set_logical_device_configuration(const PhysicalDevice& device,
                                        const std::vector<LogicalDeviceConfiguration>& logical_devices);
  [[nodiscard]] std::optional<std::vector<LogicalDeviceConfiguration>> get_logical_device_configuration(
      const PhysicalDevice& device);
  [[nodiscard]] DeviceDetails get_device_details(const PhysicalDevice& device);

  /// Fixes the configuration and makes the logical devices. Done by the functions below where it was not done yet.
  void initialize();
  /// As a session with those options would. They replace what was configured by the functions above.
  void initialize(const GpuOptions& options);
  [[nodiscard]] bool is_initialized() const;
  [[nodiscard]] std::vector<LogicalDevice> list_logical_devices(const std::optional<std::string>& device_type = {});

  /// `GPU:0`, `/gpu:0`, `/device:GPU:0` or the full job name.
  [[nodiscard]] MemoryInfo get_memory_info(const std::string& device);
  void reset_memory_stats(const std::string& device);

  // Beyond TensorFlow: allowed at any time, also with growth, and different for each device. In a governed process (by
  // `ration run` or activate()) limits bind everything in it and in the other processes of its workload: frameworks,
  // libraries, this pool. In an ungoverned one they bind this pool alone.
  /// Puts this process, and the children that it starts from now on, under limits of its own, as `ration run` would:
  /// those of its configuration until limit() or set_memory_limit() lowers them. No library of the driver may be loaded
  /// yet. Makes no call of the driver and no thread. Does nothing in a process that is governed. RuntimeError: too
  /// late. UnknownError: the reason why there can be no limit, such as no GPU.
  static void activate();
  /// For a process in which it is too late: sets the variables that govern it once it has executed itself again (exec).
  /// UnknownError.
  static void prepare_restart();
  /// Limits a GPU, counted as the driver will under CUDA_VISIBLE_DEVICES, or each one, to `6GiB`, `512MiB`, `50%`;
  /// `max` removes the limit. Does not start the driver in a governed process.
  void limit(const std::string& size, std::optional<int> gpu = {});
  /// 0: none was set.
  [[nodiscard]] std::uint64_t limit_of(int gpu);
  /// ValueError: this process is not governed, or has no such GPU.
  [[nodiscard]] static WorkloadInfo workload_info(int gpu);
  /// Gives a part of this process a limit of its own inside the workload's: `40%` is of the workload's limit at this
  /// moment. Memory held by the share stays; beyond a lowered limit nothing more is granted until use is below it.
  /// Memory of frameworks is counted in the segments that they take from the driver, memory of this pool by block.
  /// ValueError: this process is not governed.
  static void limit_share(const std::string& share, const std::string& size, std::optional<int> gpu = {});
  /// `total`: the workload's limit.
  [[nodiscard]] static WorkloadInfo share_info(const std::string& share, int gpu);
  /// At most `bytes` are taken on that device, by all its logical devices together. Lowered below what is held: nothing
  /// more is taken until it is under, and what is free goes back at once. Once any device has such a limit, growth may
  /// differ between devices.
  void set_memory_limit(const PhysicalDevice& device, std::uint64_t bytes);
  /// `0.5`: that share of the device.
  void set_memory_limit_fraction(const PhysicalDevice& device, double share);
  /// `6GiB`, `512MiB`, `50%`.
  void set_memory_limit(const PhysicalDevice& device, const std::string& size);
  /// As if none had been set: each logical device has what it was made with again.
  void clear_memory_limit(const PhysicalDevice& device);
  /// 0: none was set.
  [[nodiscard]] std::uint64_t get_memory_limit(const PhysicalDevice& device);

  // Memory of a logical device; `gpu` counts as in '/device:GPU:0'. `stream`: a CUstream, 0 for the default one.
  /// Throws MemoryLimitExceeded.
  [[nodiscard]] void* allocate(int gpu, std::size_t bytes, void* stream = nullptr, std::size_t alignment = 256);
  /// ValueError: not handed out here, or given back already.
  void deallocate(int gpu, void* address, void* stream = nullptr);
  /// The block is used on `stream` as well, as PyTorch's record_stream() says it: when it is given back, the stream
  /// that it is given back on waits for what `stream` was given until then.
  void record_stream(void* address, void* stream);
  /// Gives unused memory back to the device. Returns the bytes that went.
  std::uint64_t trim(int gpu);
  /// Calls `callback` when device memory is short, so that a program can let go of what it could do without: with the
  /// bytes that this process's request was denied, on that request's thread, which then tries once more; or with 0, on
  /// a thread of ration's, where another process of the workload was denied or waits, or its limit fell below what it
  /// holds (looked at ten times a second), or in set_memory_limit() where that fell below what is held. It may free
  /// what this runtime handed out and may take; a request that is denied inside it calls nothing again. An exception of
  /// it leaves the denied request; on ration's own thread it is dropped. Returns a number for
  /// remove_pressure_callback().
  std::uint64_t on_pressure(std::function<void(std::uint64_t wanted)> callback);
  /// Returns when no thread is inside it any more (but from inside a callback). An unknown number is ignored.
  void remove_pressure_callback(std::uint64_t number);
  /// By tag, largest first; what was taken without a tag is not in it.
  [[nodiscard]] std::vector<TagUsage> tag_usage(int gpu);
  /// Returns the layout of that logical device's memory: JSON for programs, SVG for people.
  [[nodiscard]] std::string memory_map_json(int gpu);
  [[nodiscard]] std::string memory_map_svg(int gpu);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// While one lives, what its thread takes of any Runtime is attributed to `tag`. They nest.
class TagScope {
 public:
  /// ValueError: not UTF-8, or longer than 256 bytes.
  explicit TagScope(const std::string& tag);
  ~TagScope();
  TagScope(const TagScope&) = delete;
  TagScope& operator=(const TagScope&) = delete;

 private:
  std::string former_;
};

/// While one lives, memory that its thread takes is charged to that share, and so is memory of threads that are in
/// none: a framework's helper threads work for the share entered last. They nest.
class ShareScope {
 public:
  /// ValueError: this process is not governed, or the name is not 1 to 63 bytes.
  explicit ShareScope(const std::string& share);
  ~ShareScope();
  ShareScope(const ShareScope&) = delete;
  ShareScope& operator=(const ShareScope&) = delete;

 private:
  std::uint32_t own_, common_;
};

/// The one that a process shares: made at first use, never destroyed.
[[nodiscard]] Runtime& default_runtime();

}  // namespace ration
