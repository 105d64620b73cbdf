// Memory of other processes that this one has opened, by an IPC handle or a pointer of a shared pool. Memory that the
// workload is charged for already is joined; memory of another workload, or of an ungoverned process, is charged in
// full. Used by the hooks that open, close and free.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.hpp"
#include "book/shared_memory.hpp"
#include "driver/cuda_abi.hpp"
#include "guard/hooks/table.hpp"

namespace ration::guard {

/// Returns the name of memory in the book, from the bytes that the driver hands out for it (an IPC handle, a pointer's
/// export data). Never equal to one of the book's own numbers.
[[nodiscard]] std::uint64_t name_of(const void* handle, std::size_t size) noexcept;

/// Shared memory of the book that this process holds, joined as often as it was opened, and left once.
class Joined {
 public:
  /// As the book's join().
  [[nodiscard]] bool join(std::uint64_t name, book::SharedMemory::Found& out) noexcept;
  void leave(std::uint64_t number) noexcept;
  void abandon() noexcept { times_.abandon(); }

 private:
  Table<std::uint32_t> times_;
};
Joined& joined() noexcept;

/// A pointer that was opened and is about to be closed. Its entry is out while this lives, since the driver may reuse
/// the address at once; it returns unless closed() was called. Does nothing for other pointers.
class ClosingImport {
 public:
  explicit ClosingImport(cuda::CUdeviceptr pointer) noexcept;
  ~ClosingImport();
  ClosingImport(const ClosingImport&) = delete;
  ClosingImport& operator=(const ClosingImport&) = delete;
  void closed() noexcept;

 private:
  cuda::CUdeviceptr pointer_;
  std::uint64_t number_ = 0, mapping_ = 0;
  bool known_ = false, last_ = false;
};

}  // namespace ration::guard
