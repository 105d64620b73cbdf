// The layouts of the CUPTI records that the stand-in writes, as in CUDA 12.9 and 13.2: our own declarations, with
// CUPTI's numbers. A later version of a record begins with the earlier one, so a program that was built with an earlier
// header can read these, too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ration::standin::cupti {

/// The values of CUpti_ActivityKind.
enum class Kind : std::uint32_t {
  kCopy = 1,
  kFill = 2,
  kKernel = 3,
  kDriver = 4,
  kRuntime = 5,
  kConcurrentKernel = 10,
  kPeerCopy = 22,
  kExternalCorrelation = 39,
  kMemory = 45,
  kMemory2 = 49,
  kGraph = 51,
  kCount = 64  // above all kinds
};

constexpr std::uint32_t kNoStream = 0xFFFFFFFF;

struct CallRecord {
  Kind kind;
  std::uint32_t function;
  std::uint64_t start, end;
  std::uint32_t process, thread, correlation, result;
};
static_assert(sizeof(CallRecord) == 40);

struct ExternalCorrelationRecord {
  Kind kind = Kind::kExternalCorrelation;
  std::uint32_t external_kind;
  std::uint64_t external;
  std::uint32_t correlation, reserved = 0;
};
static_assert(sizeof(ExternalCorrelationRecord) == 24);

struct CopyRecord {
  Kind kind = Kind::kCopy;
  std::uint8_t copy_kind, source_kind, target_kind, flags;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream, correlation;
  std::uint32_t runtime_correlation = 0, padding = 0;
  void* reserved = nullptr;
  std::uint64_t graph_node = 0;
  std::uint32_t graph = 0, channel = 0, channel_type = 2, is_device_launched = 0;
  std::uint64_t copies = 1;
};
static_assert(sizeof(CopyRecord) == 96 && offsetof(CopyRecord, correlation) == 44 &&
              offsetof(CopyRecord, copies) == 88);

struct PeerCopyRecord {
  Kind kind = Kind::kPeerCopy;
  std::uint8_t copy_kind, source_kind, target_kind, flags;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream, source_device, source_context, target_device, target_context, correlation;
  void* reserved = nullptr;
  std::uint64_t graph_node = 0;
  std::uint32_t graph = 0, channel = 0, channel_type = 2, padding = 0;
};
static_assert(sizeof(PeerCopyRecord) == 96 && offsetof(PeerCopyRecord, correlation) == 60);

struct FillRecord {
  Kind kind = Kind::kFill;
  std::uint32_t value;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream, correlation;
  std::uint16_t flags, memory_kind;
  std::uint32_t padding = 0;
  void* reserved = nullptr;
  std::uint64_t graph_node = 0;
  std::uint32_t graph = 0, channel = 0, channel_type = 2, is_device_launched = 0;
};
static_assert(sizeof(FillRecord) == 88 && offsetof(FillRecord, memory_kind) == 50);

/// A block from its allocation to its free.
struct MemoryRecord {
  Kind kind = Kind::kMemory;
  std::uint32_t memory_kind;
  std::uint64_t address, bytes, start, end, allocated_by = 0, freed_by = 0;
  std::uint32_t process, device, context, padding = 0;
  const char* name = nullptr;
};
static_assert(sizeof(MemoryRecord) == 80 && offsetof(MemoryRecord, process) == 56);

/// An allocation or a free.
struct Memory2Record {
  Kind kind = Kind::kMemory2;
  std::uint32_t operation, memory_kind, correlation;
  std::uint64_t address, bytes, timestamp, caller = 0;
  std::uint32_t process, device, context, stream;
  const char* name = nullptr;
  std::uint32_t is_async, padding = 0;
  std::uint32_t pool_type = 0, pool_padding = 0;
  std::uint64_t pool_address = 0, pool_threshold = 0, pool_size = 0, pool_used = 0;
  const char* source = nullptr;
};
static_assert(sizeof(Memory2Record) == 128 && offsetof(Memory2Record, is_async) == 72 &&
              offsetof(Memory2Record, pool_type) == 80 && offsetof(Memory2Record, source) == 120);

struct KernelRecord {
  Kind kind = Kind::kConcurrentKernel;
  std::uint8_t cache = 0, shared_memory_configuration = 0;
  std::uint16_t registers = 0;
  std::uint32_t cache_requested = 0, cache_executed = 0;
  std::uint64_t start, end, completed;
  std::uint32_t device, context, stream;
  std::int32_t grid[3], block[3], static_shared = 0, dynamic_shared;
  std::uint32_t local_per_thread = 0, local_total = 0, correlation;
  std::int64_t grid_id;
  const char* name;
  void* reserved = nullptr;
  std::uint64_t queued = 0, submitted = 0;
  std::uint8_t launch_type, carveout[2] = {}, padding = 0;
  std::uint32_t shared_executed = 0;
  std::uint64_t graph_node = 0;
  std::uint32_t shared_limit = 0, graph = 0;
  void* access_policy = nullptr;
  std::uint32_t channel = 0, channel_type = 1, cluster[3] = {}, cluster_scheduling = 0;
  std::uint64_t local_total_64 = 0;
  std::uint32_t largest_cluster = 0, active_clusters = 0;
#if RATION_CUDA_MAJOR >= 13
  std::uint64_t is_device_launched = 0;
  std::int32_t priority = 0;
  std::uint32_t padding_to_8 = 0;
#endif
};
static_assert(sizeof(KernelRecord) == (RATION_CUDA_MAJOR >= 13 ? 224 : 208) && offsetof(KernelRecord, name) == 104 &&
              offsetof(KernelRecord, correlation) == 92 && offsetof(KernelRecord, access_policy) == 160);

struct GraphRecord {
  Kind kind = Kind::kGraph;
  std::uint32_t correlation;
  std::uint64_t start, end;
  std::uint32_t device, graph, context, stream;
  void* reserved = nullptr;
  std::uint32_t end_device, end_context;
};
static_assert(sizeof(GraphRecord) == 56);

/// Returns the size of a record of that kind, or 0 if none is written.
constexpr std::size_t size_of(Kind kind) {
  switch (kind) {
    case Kind::kCopy:
      return sizeof(CopyRecord);
    case Kind::kFill:
      return sizeof(FillRecord);
    case Kind::kKernel:
    case Kind::kConcurrentKernel:
      return sizeof(KernelRecord);
    case Kind::kDriver:
    case Kind::kRuntime:
      return sizeof(CallRecord);
    case Kind::kPeerCopy:
      return sizeof(PeerCopyRecord);
    case Kind::kExternalCorrelation:
      return sizeof(ExternalCorrelationRecord);
    case Kind::kMemory:
      return sizeof(MemoryRecord);
    case Kind::kMemory2:
      return sizeof(Memory2Record);
    case Kind::kGraph:
      return sizeof(GraphRecord);
    default:
      return 0;
  }
}

}  // namespace ration::standin::cupti
