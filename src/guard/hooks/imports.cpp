#include "guard/hooks/imports.hpp"

#include <algorithm>
#include <cstring>

#include "driver/cuda_copy_abi.hpp"
#include "driver/cuda_share_abi.hpp"
#include "guard/hooks/after_fork.hpp"
#include "guard/hooks/governor.hpp"
#include "guard/hooks/hooks.hpp"
#include "guard/recorder/recorder.hpp"

namespace ration::guard {
namespace {

using namespace cuda;

/// A pointer that was opened, with the count of openings. If the workload was charged for the memory already, `number`
/// is the number of the joined memory. If `number` is 0, this process is charged for the mapping that contains the
/// pointer.
struct Opened {
  std::uint32_t times = 0;
  std::uint64_t number = 0;
  std::uint64_t mapping = 0;
};
/// The charge of this process for one whole mapping, however many pointers into it were opened.
struct Mapping {
  std::uint32_t pointers = 0;
  std::uint32_t account = kNoAccount;
  std::uint64_t size = 0;
  std::uint64_t number = 0;  // the number in the book; 0 if no other process can find it
};

Table<Opened> opened;
Table<Mapping> mappings;  // the key is the start address

/// The whole allocation behind an opened pointer. All of it lives until the pointer is closed, whatever part was
/// exported.
struct Extent {
  std::uint64_t start = 0;
  Bytes size;
};

bool ask(CUpointer_attribute attribute, CUdeviceptr pointer, void* out) noexcept {
  return real<cuPointerGetAttribute_t>(Symbol::cuPointerGetAttribute)(out, attribute, pointer) == CUDA_SUCCESS;
}

bool extent_of(CUdeviceptr pointer, Extent& out) noexcept {
  CUdeviceptr start = 0;
  std::size_t size = 0;
  const bool known =
      (ask(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, pointer, &start) &&
       ask(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, pointer, &size)) ||
      real<cuMemGetAddressRange_v2_t>(Symbol::cuMemGetAddressRange_v2)(&start, &size, pointer) == CUDA_SUCCESS;
  if (!known || size == 0) return false;
  const Bytes first = round_down(Bytes{start}, kGranule);
  out = {first.count(), round_up(Bytes{start} + Bytes{size}, kGranule) - first};
  return true;
}

std::uint32_t account_of_pointer(CUdeviceptr pointer) noexcept {
  int device = -1;
  if (ask(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer, &device)) return account_of(device);
  return current_place().account;
}

void drop_mapping(std::uint64_t start) noexcept {
  Mapping gone;
  mappings.update(start, [&](Mapping& mapping) {
    if (mapping.pointers > 1) {
      --mapping.pointers;
      return true;
    }
    gone = mapping;
    return false;
  });
  if (gone.number != 0)
    book().shared_memory().give_up(gone.number, gone.account, Bytes{gone.size}, Kind::kHeap);
  else
    give_back(gone.account, Bytes{gone.size});
}

/// Counts another opening of a pointer that is open already.
bool opened_again(CUdeviceptr pointer) noexcept {
  bool again = false;
  opened.update(pointer, [&](Opened& entry) {
    again = entry.times > 0;
    if (again) ++entry.times;
    return again;
  });
  return again;
}

/// Charges this process for memory that the driver just opened; the earlier look-up found no charge of the workload for
/// it. Returns false if the memory does not fit under the limit.
bool enter(CUdeviceptr pointer, std::uint64_t name, const char* function) noexcept {
  Opened entry;
  entry.times = 1;
  Extent extent;
  const bool measured = extent_of(pointer, extent);
  entry.mapping = extent.start;
  Mapping mapping;
  mappings.update(extent.start, [&](Mapping& present) {
    if (measured && present.pointers > 0) ++present.pointers;
    mapping = present;
    return present.pointers > 0;
  });
  if (mapping.pointers > 0) {
    (void)book().shared_memory().add_name(mapping.number, name);
    opened.insert(pointer, entry);
    return true;
  }
  mapping.account = account_of_pointer(pointer);
  mapping.size = extent.size.count();
  mapping.pointers = 1;
  if (!measured || !admit(mapping.account, extent.size, Kind::kHeap, function)) return false;
  book::SharedMemory::Found known;
  if (book().shared_memory().join_or_enter(name, mapping.account, extent.size, mapping.number) &&
      joined().join(mapping.number, known)) {
    give_back(mapping.account, extent.size);  // another process of the workload opened the memory at the same time
    entry.number = mapping.number;
  } else {
    mappings.insert(extent.start, mapping);
  }
  opened.insert(pointer, entry);
  return true;
}

/// Opens a handle by `call(&pointer)`. Before it calls the driver, joins memory that the workload is charged for
/// already, because the memory's owner may free it at any moment.
template <typename Call, typename Close>
CUresult open(CUdeviceptr* out, const void* handle, std::size_t size, const char* function, Call&& call,
              Close&& close) noexcept {
  note(Unmovable::kShared);
  if (!governed() || out == nullptr || handle == nullptr) return call(out);
  const std::uint64_t name = name_of(handle, size);
  Recorded event(trace::Kind::kImported);
  Opened entry;
  book::SharedMemory::Found known;
  const bool is_joined = joined().join(name, known);
  CUdeviceptr pointer = 0;
  const CUresult result = call(&pointer);
  const bool again = result == CUDA_SUCCESS && opened_again(pointer);
  if (is_joined && (again || result != CUDA_SUCCESS)) joined().leave(known.number);
  if (result != CUDA_SUCCESS) return result;
  if (is_joined && !again) {
    entry.times = 1;
    entry.number = known.number;
    opened.insert(pointer, entry);
  }
  if (!is_joined && !again && !enter(pointer, name, function)) {
    close(pointer);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  event.done(pointer, kNoAccount);
  *out = pointer;
  return result;
}

CUresult open_ipc(Symbol symbol, CUdeviceptr* out, const CUipcMemHandle& handle, unsigned int flags) noexcept {
  return open(
      out, &handle, sizeof handle, "cuIpcOpenMemHandle",
      [&](CUdeviceptr* pointer) { return real<cuIpcOpenMemHandle_v2_t>(symbol)(pointer, handle, flags); },
      [](CUdeviceptr pointer) { real<cuIpcCloseMemHandle_t>(Symbol::cuIpcCloseMemHandle)(pointer); });
}

}  // namespace

std::uint64_t name_of(const void* handle, std::size_t size) noexcept {
  std::uint64_t hash = 0x9e3779b97f4a7c15U ^ size;
  for (std::size_t at = 0; at + sizeof hash <= size; at += sizeof hash) {
    std::uint64_t word = 0;
    std::memcpy(&word, static_cast<const unsigned char*>(handle) + at, sizeof word);
    hash = (hash ^ word) * 0xff51afd7ed558ccdU;
    hash ^= hash >> 32;
  }
  return hash | std::uint64_t{1} << 63;
}

Joined& joined() noexcept {
  static Joined all;
  return all;
}

bool Joined::join(std::uint64_t name, book::SharedMemory::Found& out) noexcept {
  if (!book().shared_memory().join(name, out)) return false;
  times_.update(out.number, [](std::uint32_t& times) { return ++times != 0; });
  if (book().shared_memory().join(out.number, out))
    return true;  // this second join holds even if another thread left the memory before the count rose
  leave(out.number);
  return false;
}

void Joined::leave(std::uint64_t number) noexcept {
  times_.update(number, [&](std::uint32_t& times) {
    if (times > 1) return --times != 0;
    book().shared_memory().leave(
        number);  // under the table's lock, so that a thread that joins again does so afterwards
    return false;
  });
}

ClosingImport::ClosingImport(CUdeviceptr pointer) noexcept : pointer_(pointer) {
  Opened present;
  if (!opened.find(pointer, present)) return;  // the usual case: the freed memory was not imported
  opened.update(pointer, [&](Opened& entry) {
    known_ = entry.times > 0;
    last_ = entry.times == 1;
    number_ = entry.number;
    mapping_ = entry.mapping;
    return known_ && --entry.times > 0;
  });
}

ClosingImport::~ClosingImport() {
  if (!known_) return;
  opened.update(pointer_, [&](Opened& entry) {
    ++entry.times;
    entry.number = number_;
    entry.mapping = mapping_;
    return true;
  });
}

void ClosingImport::closed() noexcept {
  if (last_ && number_ != 0) joined().leave(number_);
  if (last_ && number_ == 0) drop_mapping(mapping_);
  known_ = last_ = false;
}

[[gnu::init_priority(101)]] const AfterFork forget([]() noexcept {
  opened.abandon();
  mappings.abandon();
  joined().abandon();
});

}  // namespace ration::guard

using namespace ration::guard;
using namespace ration::cuda;

RATION_HOOK CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  return open_ipc(Symbol::cuIpcOpenMemHandle, out, handle, flags);
}
RATION_HOOK CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  return open_ipc(Symbol::cuIpcOpenMemHandle_v2, out, handle, flags);
}
RATION_HOOK CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  auto* call_real = real<cuIpcCloseMemHandle_t>(Symbol::cuIpcCloseMemHandle);
  if (!governed()) return call_real(address);
  ClosingImport closing(address);
  const CUresult result = call_real(address);
  if (result == CUDA_SUCCESS) closing.closed();
  return result;
}

RATION_HOOK CUresult cuMemPoolImportPointer(CUdeviceptr* out, CUmemoryPool pool, CUmemPoolPtrExportData* data) {
  return open(
      out, data, sizeof *data, "cuMemPoolImportPointer",
      [&](CUdeviceptr* pointer) {
        return real<cuMemPoolImportPointer_t>(Symbol::cuMemPoolImportPointer)(pointer, pool, data);
      },
      [](CUdeviceptr pointer) { real<cuMemFree_v2_t>(Symbol::cuMemFree_v2)(pointer); });
}
