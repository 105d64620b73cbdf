// Memory of other processes that this one has opened: by an IPC handle or a pointer of a shared pool. What is charged
// to the workload already is joined; what is not, because it is another workload's or nobody's, is charged in full.
// Used by the hooks that open, close and free.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.hpp"
#include "driver/cuda_abi.hpp"
#include "ledger/shared_memory.hpp"
#include "shim/hooks/table.hpp"

namespace ration::shim {

/// The name under which memory is found in the book, from what the driver hands out for it (an IPC handle, a pointer's
/// export data). Never one of the book's own numbers.
[[nodiscard]] std::uint64_t name_of(const void* handle, std::size_t size) noexcept;

/// Shared memory of the book that this process holds, joined as often as it was opened, and left once.
class Joined {
 public:
  /// As the book's join().
  [[nodiscard]] bool join(std::uint64_t name, ledger::SharedMemory::Found& out) noexcept;
  void leave(std::uint64_t number) noexcept;
  void abandon() noexcept { times_.abandon(); }

 private:
  Table<std::uint32_t> times_;
};
Joined& joined() noexcept;

/// A pointer that was opened and is about to be given up. Its entry is out while this lives, since the driver may give
/// the address out again at once; it comes back unless closed() was called. Nothing for other pointers.
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

}  // namespace ration::shim
