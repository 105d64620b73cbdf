// Memory of other processes that this process has opened, by an IPC handle or a pointer of a shared pool. Memory that
// the workload is charged for already is joined; memory of another workload, or of an ungoverned process, is charged in
// full. Used by the hooks that open, close and free.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.hpp"
#include "book/shared_memory.hpp"
#include "driver/cuda_abi.hpp"
#include "guard/hooks/table.hpp"

namespace ration::guard {

/// Returns the name of memory in the book, made from the bytes that the driver hands out for the memory (an IPC handle,
/// a pointer's export data). The name is never equal to one of the book's own numbers.
[[nodiscard]] std::uint64_t name_of(const void* handle, std::size_t size) noexcept;

/// The shared memory of the book that this process has joined. Each join counts, and the last leave() leaves the
/// memory.
class Joined {
 public:
  /// Joins the memory as SharedMemory::join() does.
  [[nodiscard]] bool join(std::uint64_t name, book::SharedMemory::Found& out) noexcept;
  void leave(std::uint64_t number) noexcept;
  void abandon() noexcept { times_.abandon(); }

 private:
  Table<std::uint32_t> times_;
};
Joined& joined() noexcept;

/// A pointer that is about to be closed. If the pointer is an opened import, its entry is out of the table while this
/// object lives, since the driver may reuse the address at once. The destructor puts the entry back unless closed() was
/// called.
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
