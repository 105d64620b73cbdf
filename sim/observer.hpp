// The observer: a function of a profiler that is called at the beginning and the end of every allocation, free, copy,
// fill and launch, on the thread that makes the call. Used by the entries for these kinds of work. The stand-in for
// CUPTI (standins/cupti.cpp) sets the observer through cuGetExportTable, under the number kObserverTable.
//
// Promise: without an observer, each entry costs one more relaxed load. The observer is called without a lock of the
// driver and may call the driver.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "driver/cuda_abi.hpp"

namespace ration::sim {

/// The kinds of work. kRuntime is a call of a function of CUDA's runtime; the work between the beginning and the end of
/// the call is part of it.
enum class Work : int { kAllocate, kFree, kCopy, kFill, kLaunch, kGraph, kRuntime };
enum class Memory : int { kUnknown, kPageable, kPinned, kDevice, kArray, kManaged };

/// The operation of an entry. The valid fields depend on the work.
struct Operation {
  Work work{};
  const char* function = nullptr;  // the driver's name, with or without its suffix _v2
  cuda::CUresult result{};         // valid at the end
  cuda::CUcontext context = nullptr;
  int device = 0;  // ordinal
  cuda::CUstream stream = nullptr;
  std::uint64_t stream_id = 0;
  bool is_async = false;
  bool is_captured = false;  // becomes a node of a graph and is not done

  std::uint64_t address = 0;               // the address that is written or freed
  const cuda::CUdeviceptr* out = nullptr;  // for an allocation: where its address is stored, valid at the end
  std::uint64_t source = 0, bytes = 0;
  Memory memory{}, source_memory{};
  int source_device = 0, target_device = 0;                   // for a copy
  std::uint64_t value = 0, pitch = 0, width = 0, height = 0;  // for a fill
  const void* copy = nullptr;                                 // for a copy: the description of its rows
  cuda::CUmemoryPool pool = nullptr;

  cuda::CUfunction kernel = nullptr;
  const char* name = nullptr;
  unsigned grid[3] = {}, block[3] = {}, shared = 0;
  void** arguments = nullptr;
  std::int64_t begins = 0, ends = 0;  // on the device, in nanoseconds of the steady clock; 0: the time of the call

  std::uint64_t own[6] = {};  // data of the observer, kept from the beginning to the end
};

using Observer = void (*)(Operation* operation, int is_done);

constexpr unsigned char kObserverTable[16] = {'r', 'a', 't', 'i', 'o', 'n', '-', 'o',
                                              'b', 's', 'e', 'r', 'v', 'e', 'r', '1'};
struct ObserverTable {
  std::size_t size;
  void (*observe)(Observer observer);  // null removes the observer; it still gets the ends of the calls in progress
  const std::atomic<Observer>* current;
};

inline std::atomic<Observer> current_observer{nullptr};
/// Fills in the context and the stream, and reports the beginning to the observer.
void begin_observed(Observer observer, Operation& operation);
/// Returns the kind of memory at an address. Sets `size` and `device` to those of the allocation there, if there is
/// one.
Memory memory_at(std::uint64_t address, std::uint64_t* size = nullptr, int* device = nullptr);

/// Calls `act()`. If there is an observer, `describe(operation)` first describes the operation to it.
template <typename Describe, typename Act>
cuda::CUresult observed(Work work, const char* function, Describe&& describe, Act&& act) {
  const Observer observer = current_observer.load(std::memory_order_relaxed);
  if (observer == nullptr) [[likely]]
    return act();
  Operation operation;
  operation.work = work;
  operation.function = function;
  describe(operation);
  begin_observed(observer, operation);
  operation.result = act();
  observer(&operation, 1);
  return operation.result;
}

}  // namespace ration::sim
