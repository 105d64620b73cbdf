// The state of a Runtime: its configuration and, once that is fixed, the logical GPUs. Shared by runtime.cpp
// (configuring, initialising) and runtime_memory.cpp (figures, limits, memory), whose functions lock the mutex.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "pool/allocator.hpp"
#include "ration/runtime.hpp"
#include "runtime/environment.hpp"
#include "runtime/own_workload.hpp"
#include "runtime/physical.hpp"
#include "runtime/plan.hpp"
#include "runtime/pressure.hpp"
#include "runtime/reclaimer.hpp"
#include "runtime/recorded_streams.hpp"
#include "runtime/tags.hpp"

namespace ration {

namespace runtime {

/// A device's account in the book of this process.
struct OwnAccount {
  book::Book* book;
  std::uint32_t account;
};

/// The program's settings for its devices, by physical name.
struct Configuration {
  std::vector<PhysicalDevice> visible;
  std::map<std::string, bool> growth;
  std::map<std::string, std::vector<LogicalDeviceConfiguration>> logical;
  std::map<std::string, Bytes> limits;  // as set by set_memory_limit()
};

/// One logical GPU and its memory.
struct LogicalGpu {
  std::size_t gpu = 0;  // index among the physical GPUs
  Bytes configured;     // the planned limit; set_memory_limit() divides a new limit in proportion to these
  bool is_capped;       // `configured` is the program's own number: no limit raises the device above it
  std::unique_ptr<pool::Allocator> memory;
  std::unique_ptr<Tags> tags = std::make_unique<Tags>();
};

}  // namespace runtime

struct Runtime::State {
  mutable std::recursive_mutex mutex;
  const std::uint64_t generation;  // process_generation() of the process that made it
  enum class Stage : std::uint8_t { kNew, kLooked, kInitialized };
  std::atomic<Stage> stage{Stage::kNew};
  std::vector<PhysicalDevice> physical;
  std::vector<runtime::PhysicalGpu> gpus;
  runtime::Configuration configuration;
  std::vector<LogicalDevice> logical_devices;
  std::map<std::size_t, std::unique_ptr<runtime::PrimaryContext>> contexts;  // by index; they outlive the pools
  std::vector<runtime::LogicalGpu> logical_gpus;
  std::optional<Bytes> device_limit;  // the limit of the environment for each GPU; no other limit may exceed it
  runtime::RecordedStreams recorded_streams;
  runtime::Pressure pressure;
  runtime::Reclaimer::Owner reclaimer;  // ends before the pools that it trims

  State();
  /// Locks the mutex. Throws RuntimeError in the child of a fork if the driver was used before the fork: device memory
  /// does not survive a fork, and the mutex may be held by a thread that no longer exists.
  [[nodiscard]] std::unique_lock<std::recursive_mutex> enter() const;
  void look();
  [[nodiscard]] bool has_looked() const { return stage != Stage::kNew; }
  /// Returns true once `logical_gpus` no longer changes and may be read without the mutex.
  [[nodiscard]] bool is_initialized() const { return stage == Stage::kInitialized; }
  /// Returns the index of the device among the GPUs.
  std::size_t place_of(const PhysicalDevice& device);
  void require_known(const PhysicalDevice& device);
  [[nodiscard]] Bytes total_of(const PhysicalDevice& device);
  runtime::PrimaryContext& context_of(std::size_t gpu);
  /// Makes the devices as configured. Throws where TensorFlow throws.
  void make_as_configured() { make(options_from_configuration(), visible_gpus()); }
  void make(const GpuOptions& options, const std::vector<std::size_t>& visible_places);
  /// Divides the device's limit among its logical devices, in proportion to their configured limits. A device with a
  /// number of its own gets at most this number.
  void apply_limit(std::size_t gpu);
  /// Returns the account of the GPU, or nullopt if this process has no book or the GPU is not in it.
  [[nodiscard]] std::optional<runtime::OwnAccount> own_account(std::size_t gpu) const;
  /// Returns the largest limit that the program can set on the GPU now: whole_of() its account, which `ration set`
  /// changes; without an account, the size of the GPU.
  [[nodiscard]] Bytes whole(std::size_t gpu) const;
  /// Charges a block to the share of the calling thread, if it is in one. Throws MemoryLimitExceeded if the share has
  /// no room.
  [[nodiscard]] runtime::ShareBlock enter_block(const runtime::LogicalGpu& device, std::size_t bytes) const;
  /// Returns the device that `device` names: `GPU:0` or another form of it. `for_cpu` is the error text for a CPU.
  runtime::LogicalGpu& gpu_named(const std::string& device, const char* for_cpu);
  runtime::LogicalGpu& gpu_at(int index);

 private:
  std::vector<std::size_t> visible_gpus() const;
  GpuOptions options_from_configuration() const;
  bool grows(std::size_t gpu, const GpuOptions& options, const runtime::Environment& environment) const;
  /// The limits that the logical devices of one GPU share.
  struct SharedGpu {
    double fraction = 0;  ///< share of the GPU's memory that was asked for; 0: none
    Bytes available;
    std::size_t parts = 1;
  };
  /// Returns the memory that is available beyond what is kept for the system.
  Bytes room_on(std::size_t gpu, Bytes available, const GpuOptions& options,
                const runtime::Environment& environment) const;
  Bytes limit_of(const runtime::PlannedDevice& device, const SharedGpu& shared, const GpuOptions& options,
                 const runtime::Environment& environment) const;
  std::unique_ptr<pool::Allocator> make_memory(std::size_t gpu, Bytes limit, bool growth, bool managed,
                                               const GpuOptions& options, const runtime::Environment& environment);
};

}  // namespace ration
