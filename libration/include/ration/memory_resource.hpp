// A memory resource for stream-ordered allocation, with the interface that RMM and libcu++ expect. The resource is
// passed by value. This header also has adaptors that can be combined, and a buffer that frees its memory.
//
//   ration::DeviceMemoryResource memory(runtime, 0);
//   ration::StatisticsAdaptor counted(ration::LimitingAdaptor(memory, 1 << 30));
//   ration::Buffer<float, decltype(counted)> x(counted, 1'000'000);
//
// The host must not access device addresses, so this is not a std::pmr::memory_resource.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "ration/runtime.hpp"

// RATION_HAS_CUDA_MEMORY_RESOURCE is true if the compiler finds libcu++ 3 (CUDA 13) or newer and the toolkit's headers.
#if __has_include(<cuda/memory_resource>) && __has_include(<cuda_runtime_api.h>)
#include <cuda/memory_resource>
#include <cuda/stream_ref>
#define RATION_HAS_CUDA_MEMORY_RESOURCE (CCCL_MAJOR_VERSION >= 3)
#else
#define RATION_HAS_CUDA_MEMORY_RESOURCE 0
#endif

namespace ration {

/// A CUstream as an untyped pointer.
using StreamHandle = void*;

/// What the adaptors and Buffer require of a resource. `allocate` throws MemoryLimitExceeded. `allocate` and
/// `deallocate` do not wait for the stream.
template <typename Resource>
concept StreamOrderedResource = std::copy_constructible<Resource> &&
    requires(Resource resource, StreamHandle stream, void* address) {
  { resource.allocate(stream, std::size_t{}, std::size_t{}) } -> std::same_as<void*>;
  {resource.deallocate(stream, address, std::size_t{}, std::size_t{})};
  { resource == resource } -> std::convertible_to<bool>;
};

/// The memory of one logical GPU. Two resources are equal if each can free what the other allocated. Thread-safe.
class DeviceMemoryResource {
 public:
  /// Keeps a reference to `runtime`, which must outlive this resource. `gpu` is the number in '/device:GPU:0'.
  DeviceMemoryResource(Runtime& runtime, int gpu) : runtime_(&runtime), gpu_(gpu) {}

  [[nodiscard]] void* allocate(StreamHandle stream, std::size_t bytes, std::size_t alignment = 256) {
    return runtime_->allocate(gpu_, bytes, stream, alignment);
  }
  void deallocate(StreamHandle stream, void* address, std::size_t = 0, std::size_t = 256) {
    runtime_->deallocate(gpu_, address, stream);
  }
  // Allocates on the default stream.
  [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = 256) {
    return allocate(nullptr, bytes, alignment);
  }
  void deallocate_sync(void* address, std::size_t bytes = 0, std::size_t alignment = 256) {
    deallocate(nullptr, address, bytes, alignment);
  }

  bool operator==(const DeviceMemoryResource&) const = default;

#if RATION_HAS_CUDA_MEMORY_RESOURCE
  [[nodiscard]] void* allocate(::cuda::stream_ref stream, std::size_t bytes, std::size_t alignment) {
    return allocate(static_cast<StreamHandle>(stream.get()), bytes, alignment);
  }
  void deallocate(::cuda::stream_ref stream, void* address, std::size_t bytes, std::size_t alignment) {
    deallocate(static_cast<StreamHandle>(stream.get()), address, bytes, alignment);
  }
  friend void get_property(const DeviceMemoryResource&, ::cuda::mr::device_accessible) noexcept {}
#endif

 private:
  Runtime* runtime_;
  int gpu_;
};
static_assert(StreamOrderedResource<DeviceMemoryResource>);
#if RATION_HAS_CUDA_MEMORY_RESOURCE
static_assert(::cuda::mr::resource_with<DeviceMemoryResource, ::cuda::mr::device_accessible>);
#endif

/// An adaptor with a limit: the adaptor and its copies together never have more than `limit` bytes handed out.
/// Thread-safe.
template <StreamOrderedResource Upstream>
class LimitingAdaptor {
 public:
  LimitingAdaptor(Upstream upstream, std::size_t limit)
      : upstream_(std::move(upstream)), limit_(limit), taken_(std::make_shared<std::atomic<std::size_t>>(0)) {}

  [[nodiscard]] void* allocate(StreamHandle stream, std::size_t bytes, std::size_t alignment = 256) {
    std::size_t before = taken_->load();
    do {
      if (bytes > limit_ || before > limit_ - bytes)
        throw MemoryLimitExceeded("denied by a limiting adaptor", bytes, limit_, before);
    } while (!taken_->compare_exchange_weak(before, before + bytes));
    try {
      return upstream_.allocate(stream, bytes, alignment);
    } catch (...) {
      taken_->fetch_sub(bytes);
      throw;
    }
  }
  void deallocate(StreamHandle stream, void* address, std::size_t bytes, std::size_t alignment = 256) {
    upstream_.deallocate(stream, address, bytes, alignment);
    taken_->fetch_sub(bytes);
  }
  [[nodiscard]] std::size_t taken() const { return *taken_; }
  bool operator==(const LimitingAdaptor& other) const { return taken_ == other.taken_; }

 private:
  Upstream upstream_;
  std::size_t limit_;
  std::shared_ptr<std::atomic<std::size_t>> taken_;
};

/// An adaptor that counts the requests to itself and to its copies. Thread-safe.
template <StreamOrderedResource Upstream>
class StatisticsAdaptor {
 public:
  struct Counts {
    std::atomic<std::size_t> bytes{0}, peak_bytes{0}, allocations{0}, refusals{0};
  };
  explicit StatisticsAdaptor(Upstream upstream) : upstream_(std::move(upstream)), counts_(std::make_shared<Counts>()) {}

  [[nodiscard]] void* allocate(StreamHandle stream, std::size_t bytes, std::size_t alignment = 256) {
    void* address = nullptr;
    try {
      address = upstream_.allocate(stream, bytes, alignment);
    } catch (...) {
      ++counts_->refusals;
      throw;
    }
    ++counts_->allocations;
    const std::size_t now = counts_->bytes += bytes;
    for (std::size_t peak = counts_->peak_bytes; now > peak && !counts_->peak_bytes.compare_exchange_weak(peak, now);) {
    }
    return address;
  }
  void deallocate(StreamHandle stream, void* address, std::size_t bytes, std::size_t alignment = 256) {
    upstream_.deallocate(stream, address, bytes, alignment);
    counts_->bytes -= bytes;
  }
  [[nodiscard]] const Counts& counts() const { return *counts_; }
  bool operator==(const StatisticsAdaptor& other) const { return counts_ == other.counts_; }

 private:
  Upstream upstream_;
  std::shared_ptr<Counts> counts_;
};

/// An adaptor that calls `log` for each request. If `log` throws, the adaptor frees the memory again. If several
/// threads use the resource, `log` must be thread-safe.
template <StreamOrderedResource Upstream>
class LoggingAdaptor {
 public:
  struct Entry {
    enum class Action { kAllocate, kDeallocate, kRefused } action;
    void* address;
    std::size_t bytes;
    StreamHandle stream;
  };
  LoggingAdaptor(Upstream upstream, std::function<void(const Entry&)> log)
      : upstream_(std::move(upstream)), log_(std::make_shared<std::function<void(const Entry&)>>(std::move(log))) {}

  [[nodiscard]] void* allocate(StreamHandle stream, std::size_t bytes, std::size_t alignment = 256) {
    void* address = nullptr;
    try {
      address = upstream_.allocate(stream, bytes, alignment);
    } catch (...) {
      (*log_)({Entry::Action::kRefused, nullptr, bytes, stream});
      throw;
    }
    try {
      (*log_)({Entry::Action::kAllocate, address, bytes, stream});
    } catch (...) {
      upstream_.deallocate(stream, address, bytes, alignment);
      throw;
    }
    return address;
  }
  void deallocate(StreamHandle stream, void* address, std::size_t bytes, std::size_t alignment = 256) {
    upstream_.deallocate(stream, address, bytes, alignment);
    (*log_)({Entry::Action::kDeallocate, address, bytes, stream});
  }
  bool operator==(const LoggingAdaptor& other) const { return log_ == other.log_; }

 private:
  Upstream upstream_;
  std::shared_ptr<std::function<void(const Entry&)>> log_;
};

static_assert(StreamOrderedResource<LoggingAdaptor<StatisticsAdaptor<LimitingAdaptor<DeviceMemoryResource>>>>);

/// An array of `count` elements of device memory, freed on the stream of its allocation. It can be moved, but not
/// copied.
template <typename Element, StreamOrderedResource Resource = DeviceMemoryResource>
class Buffer {
 public:
  Buffer(Resource resource, std::size_t count, StreamHandle stream = nullptr)
      : resource_(std::move(resource)), stream_(stream), count_(count) {
    if (count > SIZE_MAX / sizeof(Element)) throw ValueError("more elements than there are addresses");
    data_ = static_cast<Element*>(resource_.allocate(stream_, count * sizeof(Element)));
  }
  ~Buffer() { release(); }
  Buffer(Buffer&& other) noexcept
      : resource_(other.resource_),
        stream_(other.stream_),
        count_(other.count_),
        data_(std::exchange(other.data_, nullptr)) {}
  Buffer& operator=(Buffer&&) = delete;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] Element* data() const noexcept { return data_; }  ///< a device address
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  /// Frees the memory now. Does nothing in the child of a fork, which has no device memory.
  void release() noexcept {
    if (data_ == nullptr) return;
    try {
      resource_.deallocate(stream_, std::exchange(data_, nullptr), count_ * sizeof(Element));
    } catch (const RuntimeError&) {
    }
  }

 private:
  Resource resource_;
  StreamHandle stream_;
  std::size_t count_;
  Element* data_ = nullptr;
};

}  // namespace ration
