// Device configuration for ration's own pool, with TensorFlow's interface: physical, visible and logical devices,
// memory growth, and limits. Unlike in TensorFlow, limits may change at any time, and may be a size or a share.
//
// Names, order of checks, error classes and texts are those of TensorFlow's sources of 2026-03. Additions of ration are
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

/// An invalid value; TensorFlow's ValueError.
struct ValueError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};
/// A call that comes too late; TensorFlow's RuntimeError.
struct RuntimeError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Invalid session options or environment variables; TensorFlow's errors::InvalidArgument.
struct InvalidArgumentError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};
/// Any other failure of session options (TensorFlow's errors::Unknown) or of activate().
struct UnknownError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// A denial of memory. `what()` names the amounts, the holders and what to do.
struct MemoryLimitExceeded : std::runtime_error {
  MemoryLimitExceeded(const std::string& text, std::uint64_t requested_bytes, std::uint64_t limit_bytes,
                      std::uint64_t held_bytes)
      : std::runtime_error(text), requested(requested_bytes), limit(limit_bytes), held(held_bytes) {}
  std::uint64_t requested, limit, held;
};

/// A GPU or CPU of the machine, such as '/physical_device:GPU:0' of type 'GPU'.
struct PhysicalDevice {
  std::string name, device_type;
  bool operator==(const PhysicalDevice&) const = default;
  /// Returns the text that Python prints: PhysicalDevice(name='…', device_type='…').
  [[nodiscard]] std::string repr() const;
};

/// A device that programs allocate on, such as '/device:GPU:0' of type 'GPU'.
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

/// The memory of one logical device. TensorFlow has `current` and `peak`, too; the other fields are additions of
/// ration.
struct MemoryInfo {
  std::uint64_t current = 0, peak = 0;    ///< handed out
  std::uint64_t held = 0, peak_held = 0;  ///< taken from the device
  std::uint64_t limit = 0;
  std::uint64_t num_allocs = 0, largest_alloc_size = 0, largest_free_block = 0;  ///< `num_allocs` is a count
  double fragmentation = 0;                                                      ///< 0 to 1
};

struct DeviceDetails {
  std::string device_name;
  std::pair<int, int> compute_capability{0, 0};
  std::uint64_t memory_total = 0, memory_used = 0;  ///< additions of ration; `memory_used` counts all processes
};

/// The memory of this process's workload on one GPU, summed over all processes of the workload. `total` is the largest
/// limit that the workload may set for itself.
struct WorkloadInfo {
  std::uint64_t used = 0, peak = 0, limit = 0, total = 0;
};

/// The memory handed out under one tag.
struct TagUsage {
  std::string tag;
  std::uint64_t bytes = 0;   ///< as asked for
  std::uint64_t blocks = 0;  ///< a count
};

/// The fields of TensorFlow's GPUOptions, `experimental` included, under their names. docs/pool.md explains each.
struct GpuOptions {
  double per_process_gpu_memory_fraction = 0;  ///< a share of the total; 0: all available memory minus a reserve
  bool allow_growth = false;
  std::string visible_device_list;  ///< "1,0": positions among the physical GPUs
  struct VirtualDevices {
    std::vector<float> memory_limit_mb;
    std::vector<int> priority;
    std::vector<int> device_ordinal;
  };
  std::vector<VirtualDevices> virtual_devices;  ///< one entry per visible GPU
  int num_virtual_devices_per_gpu = 0;
  bool use_unified_memory = false;
  int gpu_system_memory_size_in_mb = 0;
  std::string allocator_type;          ///< "", "BFC" (ration's pool) or "cuda_malloc_async"
  bool use_cuda_malloc_async = false;  ///< same as `allocator_type` "cuda_malloc_async"; the two must agree

  // These fields do nothing on ration's pool; initialize() says so in one line on standard error.
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

  /// Returns the names of the fields that are set and have no effect.
  [[nodiscard]] std::vector<std::string> without_effect() const;
};

/// A configuration of this process's devices. TensorFlow has one configuration per process. Most programs need only one
/// Runtime, too.
class Runtime {
 public:
  Runtime();
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // These functions read or change the configuration, which can change until the runtime is initialised. None of these
  // functions initialises the runtime.
  [[nodiscard]] std::vector<PhysicalDevice> list_physical_devices(const std::optional<std::string>& device_type = {});
  /// Makes `devices` visible; their order is the order of the logical devices. With `device_type`, replaces only the
  /// devices of that type.
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

  /// Makes the logical devices; after that, the configuration cannot change. The functions below first call this
  /// function.
  void initialize();
  /// Makes the devices as a TensorFlow session with these options would. The options replace the configuration that the
  /// functions above made.
  void initialize(const GpuOptions& options);
  [[nodiscard]] bool is_initialized() const;
  [[nodiscard]] std::vector<LogicalDevice> list_logical_devices(const std::optional<std::string>& device_type = {});

  /// Returns the memory of `GPU:0`, `/gpu:0`, `/device:GPU:0` or the full job name.
  [[nodiscard]] MemoryInfo get_memory_info(const std::string& device);
  void reset_memory_stats(const std::string& device);

  // The following limits are additions to TensorFlow. They may change at any time, even with growth, and may differ
  // between devices. In a governed process (`ration run` or activate()), a limit applies to everything in all processes
  // of the workload: frameworks, libraries, this pool. In an ungoverned process, a limit applies only to this pool.
  /// Puts this process under limits of its own, as `ration run` would. The limits also apply to the children that it
  /// starts from now on. The limits are those of ration's configuration until limit() or set_memory_limit() lowers
  /// them.
  /// Calls no driver function and starts no thread. Does nothing in a governed process. Throws RuntimeError if a
  /// library of the driver is loaded already. Throws UnknownError if there can be no limit, for example without a GPU.
  static void activate();
  /// Sets the variables that put this process under limits after its next exec. Use this function if the driver is
  /// already loaded. Throws UnknownError as activate() does.
  static void prepare_restart();
  /// Limits one GPU or, without `gpu`, each GPU. `size` is `6GiB`, `512MiB` or `50%`; `max` removes the limit. `gpu` is
  /// the driver's number of the GPU under CUDA_VISIBLE_DEVICES. In a governed process, does not start the driver.
  void limit(const std::string& size, std::optional<int> gpu = {});
  /// Returns the limit, or 0 if none was set.
  [[nodiscard]] std::uint64_t limit_of(int gpu);
  /// Throws ValueError if this process is not governed or has no such GPU.
  [[nodiscard]] static WorkloadInfo workload_info(int gpu);
  /// Limits the pinned host memory of this process's workload, which belongs to no GPU, to `8GiB`, or to `50%` of the
  /// host limit that was set from outside, else of the machine's memory; `max` removes the limit. Throws ValueError if
  /// this process is not governed. Also throws ValueError if an older ration made the book of the workload, because
  /// that book counts no pinned memory.
  static void limit_host(const std::string& size);
  /// Returns the limit that the workload set for itself, or 0 if it set none. Throws as limit_host() does.
  [[nodiscard]] static std::uint64_t host_limit();
  /// Returns the pinned host memory of this process's workload. Throws as limit_host() does.
  [[nodiscard]] static WorkloadInfo host_info();
  /// Gives a part of this process a limit of its own inside the workload's limit; `40%` means 40 % of the workload's
  /// present limit. While the share holds more than a lowered limit, it keeps its memory and gets no more. For a
  /// framework, the share counts the segments that the framework takes from the driver. For this pool, the share counts
  /// blocks. Throws ValueError if this process is not governed.
  static void limit_share(const std::string& share, const std::string& size, std::optional<int> gpu = {});
  /// Returns the memory of a share; `total` is the workload's limit.
  [[nodiscard]] static WorkloadInfo share_info(const std::string& share, int gpu);
  /// Limits the memory that all logical devices of a GPU together take from the GPU. If they hold more than a lowered
  /// limit, they take no more memory, and their free memory goes back to the GPU at once. A logical device with a
  /// memory_limit of its own never gets more than this memory_limit. Once a device has such a limit, growth may differ
  /// between devices.
  void set_memory_limit(const PhysicalDevice& device, std::uint64_t bytes);
  /// Sets the limit as a share of the device, such as 0.5.
  void set_memory_limit_fraction(const PhysicalDevice& device, double share);
  /// Sets the limit from a string: `6GiB`, `512MiB`, or `50%` of the device.
  void set_memory_limit(const PhysicalDevice& device, const std::string& size);
  /// Removes the limit: each logical device gets back the limit that it was made with.
  void clear_memory_limit(const PhysicalDevice& device);
  /// Returns the limit, or 0 if none was set.
  [[nodiscard]] std::uint64_t get_memory_limit(const PhysicalDevice& device);

  // Memory of a logical device. `gpu` is the number in '/device:GPU:0'; `stream` is a CUstream, null for the default
  // stream.
  /// Throws MemoryLimitExceeded.
  [[nodiscard]] void* allocate(int gpu, std::size_t bytes, void* stream = nullptr, std::size_t alignment = 256);
  /// Throws ValueError if this runtime did not hand out the address, or if the block there was freed already.
  void deallocate(int gpu, void* address, void* stream = nullptr);
  /// Records that `stream` also uses the block, like PyTorch's record_stream(). When deallocate() frees the block on
  /// another stream, this other stream first waits for the work that `stream` has at that time.
  void record_stream(void* address, void* stream);
  /// Gives unused memory back to the device. Returns the number of bytes.
  std::uint64_t trim(int gpu);
  /// Registers a function that ration calls when device memory is short. The function can then release memory that the
  /// program does not need. Returns a number for remove_pressure_callback(). The callback runs in three cases:
  /// - A request is denied. `wanted` is the size of the request in bytes. The callback runs on the thread of the
  ///   request. Then this thread tries the request once more.
  /// - set_memory_limit() sets a limit below the held memory. `wanted` is 0. The callback runs inside that call.
  /// - A request of another process of the workload was denied or waits, the workload holds more than its limit, or an
  ///   operator runs `ration trim`. `wanted` is 0. The callback runs on a thread of ration's, which checks ten times a
  ///   second.
  /// A callback may allocate and free; a request that is denied inside a callback calls no callbacks. If a callback
  /// throws an exception, the denied request or set_memory_limit() throws it, too. ration's own thread ignores
  /// exceptions.
  std::uint64_t on_pressure(std::function<void(std::uint64_t wanted)> callback);
  /// Removes a callback, and waits until no thread runs the callback. Inside a callback, does not wait. Ignores an
  /// unknown number.
  void remove_pressure_callback(std::uint64_t number);
  /// Returns the use by tag, largest first, without untagged memory.
  [[nodiscard]] std::vector<TagUsage> tag_usage(int gpu);
  /// Returns the layout of a logical device's memory, as JSON for programs or SVG for people.
  [[nodiscard]] std::string memory_map_json(int gpu);
  [[nodiscard]] std::string memory_map_svg(int gpu);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A scope that gives a tag to the memory that its thread takes from any Runtime. Scopes can be nested.
class TagScope {
 public:
  /// Throws ValueError if the tag is not UTF-8 or longer than 256 bytes.
  explicit TagScope(const std::string& tag);
  ~TagScope();
  TagScope(const TagScope&) = delete;
  TagScope& operator=(const TagScope&) = delete;

 private:
  std::string former_;
};

/// A scope in which memory that the scope's thread takes is charged to a share. Some threads have entered no share,
/// such as the helper threads of a framework. Their memory is charged to the share that was entered last. Scopes can be
/// nested.
class ShareScope {
 public:
  /// Throws ValueError if this process is not governed or the name is not 1 to 63 bytes long.
  explicit ShareScope(const std::string& share);
  ~ShareScope();
  ShareScope(const ShareScope&) = delete;
  ShareScope& operator=(const ShareScope&) = delete;

 private:
  std::uint32_t own_, common_;
};

/// Puts a text into the recording of this process at this moment: `mark("epoch 3")`. Does nothing while this process is
/// not recorded.
void mark(const std::string& text);

/// Returns the runtime that the whole process shares. It is made at its first use and never destroyed.
[[nodiscard]] Runtime& default_runtime();

}  // namespace ration
