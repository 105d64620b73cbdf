// Virtual memory management: physical memory lives while a handle OR a mapping does, so it is charged from its creation
// until the last of both is gone; to the device it is created on, whichever is current.
#include <algorithm>
#include <atomic>

#include "driver/cuda_share_abi.hpp"
#include "shim/hooks/exported.hpp"
#include "shim/hooks/governor.hpp"
#include "shim/hooks/hooks.hpp"
#include "shim/hooks/table.hpp"

namespace ration::shim {
namespace {

using namespace cuda;

/// One piece of physical memory. `references`: its handles and mappings together. Charged to the process that created
/// it; memory imported from another process is charged there (`size` is then 0).
struct Physical {
  std::uint64_t size = 0;
  std::uint32_t account = kNoAccount;
  std::uint32_t references = 0;
  bool exported = false;  // others may hold it when no reference is left
};

struct Mapped {
  std::uint64_t size = 0;
  std::uint64_t physical = 0;
};

/// A handle's value may be given out again while a mapping keeps the memory, so memory has a number of its own.
std::atomic<std::uint64_t> next_physical{1};
Table<Physical> physicals;
Table<std::uint64_t> handles;  // handle -> physical
Table<std::uint32_t> handle_references;
Table<Mapped> mappings;  // start address -> what stands there

void add_reference(std::uint64_t physical) noexcept {
  physicals.update(physical, [](Physical& memory) {
    ++memory.references;
    return true;
  });
}

void drop_reference(std::uint64_t physical) noexcept {
  Physical gone;
  bool last = false;
  physicals.update(physical, [&](Physical& memory) {
    last = memory.references <= 1;
    if (last)
      gone = memory;
    else
      --memory.references;
    return !last;
  });
  if (!last) return;
  if (gone.account == kNoAccount) book().note_import_closed();
  if (gone.exported)
    linger(gone.account, Bytes{gone.size}, Kind::kHeap);
  else
    give_back(gone.account, Bytes{gone.size});
}

void mark_exported(std::uint64_t physical) noexcept {
  Physical found;
  bool again = false;
  physicals.update(physical, [&](Physical& memory) {
    again = memory.exported;
    memory.exported = memory.references > 0;
    found = memory;
    return memory.exported;
  });
  if (found.exported && !again && found.size > 0) note_export(found.account, Bytes{found.size});
}

void note_handle(CUmemGenericAllocationHandle handle, std::uint64_t physical) noexcept {
  handles.insert(handle, physical);
  handle_references.update(handle, [](std::uint32_t& count) { return ++count != 0; });
}

void new_physical(CUmemGenericAllocationHandle handle, std::uint64_t size, std::uint32_t account) noexcept {
  const std::uint64_t number = next_physical.fetch_add(1, std::memory_order_relaxed);
  Physical memory;
  memory.size = size;
  memory.account = account;
  memory.references = 1;
  physicals.insert(number, memory);
  note_handle(handle, number);
}

/// The physical memory behind any address inside a mapping; 0 if there is none that we saw.
std::uint64_t physical_at(std::uint64_t address) noexcept {
  std::uint64_t found = 0;
  mappings.each([&](std::uint64_t start, const Mapped& mapped) {
    if (address >= start && address - start < mapped.size) found = mapped.physical;
  });
  return found;
}

/// When it ends, after all that was declared behind it: exported memory given up meanwhile may be gone by now.
struct RefreshAfter {
  ~RefreshAfter() { refresh_lingering(); }
};

}  // namespace

std::uint64_t hold_physical_of(CUmemGenericAllocationHandle handle) noexcept {
  std::uint64_t physical = 0;
  if (handles.find(handle, physical)) add_reference(physical);
  return physical;
}
void hold_physical(std::uint64_t number) noexcept { add_reference(number); }
void let_go_physical(std::uint64_t number) noexcept { drop_reference(number); }

void abandon_virtual_memory() noexcept {
  physicals.abandon();
  handles.abandon();
  handle_references.abandon();
  mappings.abandon();
}

}  // namespace ration::shim

using namespace ration::shim;
using namespace ration::cuda;
using ration::Bytes;
using ration::ledger::Kind;

RATION_HOOK CUresult cuMemCreate(CUmemGenericAllocationHandle* out, std::size_t size,
                                 const CUmemAllocationProp* properties, unsigned long long flags) {
  auto* call_real = real<cuMemCreate_t>(Symbol::cuMemCreate);
  if (!governed() || out == nullptr || properties == nullptr || size == 0 ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return call_real(out, size, properties, flags);
  }
  const std::uint32_t account = account_of(properties->location.id);
  const Bytes charge = ration::round_up(Bytes{size}, ration::kGranule);
  const CUresult result =
      charged(account, charge, Kind::kHeap, "cuMemCreate", [&] { return call_real(out, size, properties, flags); });
  if (result == CUDA_SUCCESS) new_physical(*out, charge.count(), account);
  return result;
}

RATION_HOOK CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  auto* call_real = real<cuMemRelease_t>(Symbol::cuMemRelease);
  if (!governed()) return call_real(handle);
  const RefreshAfter proof;
  const InFlight moving;
  std::uint64_t physical = 0;
  bool last = false;
  const bool known = handles.find(handle, physical);
  if (known) {
    // Forgotten before the call: afterwards the driver may give the same value to another thread.
    handle_references.update(handle, [&](std::uint32_t& count) {
      last = count <= 1;
      if (!last) --count;
      return !last;
    });
    std::uint64_t taken = 0;
    if (last) handles.take(handle, taken);
  }
  const CUresult result = call_real(handle);
  if (!known) return result;
  if (result != CUDA_SUCCESS) {
    note_handle(handle, physical);
    return result;
  }
  drop_reference(physical);
  return result;
}

RATION_HOOK CUresult cuMemMap(CUdeviceptr address, std::size_t size, std::size_t offset,
                              CUmemGenericAllocationHandle handle, unsigned long long flags) {
  auto* call_real = real<cuMemMap_t>(Symbol::cuMemMap);
  std::uint64_t physical = 0;
  const bool known = governed() && handles.find(handle, physical);
  if (known) add_reference(physical);
  const CUresult result = call_real(address, size, offset, handle, flags);
  if (!known) return result;
  if (result != CUDA_SUCCESS) {
    drop_reference(physical);
    return result;
  }
  Mapped mapped;
  mapped.size = size;
  mapped.physical = physical;
  mappings.insert(address, mapped);
  return result;
}

RATION_HOOK CUresult cuMemUnmap(CUdeviceptr address, std::size_t size) {
  const RefreshAfter proof;
  const InFlight moving;
  const CUresult result = real<cuMemUnmap_t>(Symbol::cuMemUnmap)(address, size);
  if (result != CUDA_SUCCESS || !governed()) return result;
  // One call may cover several mappings, never a part of one.
  for (std::uint64_t at = address; at < address + size;) {
    Mapped mapped;
    if (mappings.take(at, mapped) && mapped.size > 0) {
      drop_reference(mapped.physical);
      at += mapped.size;
    } else {
      at += ration::kGranule.count();
    }
  }
  return result;
}

RATION_HOOK CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  const CUresult result = real<cuMemRetainAllocationHandle_t>(Symbol::cuMemRetainAllocationHandle)(out, address);
  if (result != CUDA_SUCCESS || !governed()) return result;
  if (const std::uint64_t physical = physical_at(reinterpret_cast<std::uint64_t>(address)); physical != 0) {
    add_reference(physical);
    note_handle(*out, physical);
  }
  return result;
}

RATION_HOOK CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* shared,
                                                    CUmemAllocationHandleType type) {
  auto* call_real = real<cuMemImportFromShareableHandle_t>(Symbol::cuMemImportFromShareableHandle);
  if (!governed()) return call_real(out, shared, type);
  book().note_import();  // before the driver is asked: its owner may end at any moment
  const CUresult result = call_real(out, shared, type);
  // The same process may import what it exported: the driver then counts one more handle of memory that is charged
  // already; memory of another process is charged there.
  std::uint64_t present = 0;
  if (result == CUDA_SUCCESS && !handles.find(*out, present)) {
    new_physical(*out, 0, kNoAccount);
    return result;
  }
  book().note_import_closed();
  if (result == CUDA_SUCCESS) {
    add_reference(present);
    note_handle(*out, present);
  }
  return result;
}

RATION_HOOK CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                                  CUmemAllocationHandleType type, unsigned long long flags) {
  const CUresult result =
      real<cuMemExportToShareableHandle_t>(Symbol::cuMemExportToShareableHandle)(out, handle, type, flags);
  std::uint64_t physical = 0;
  if (result == CUDA_SUCCESS && governed() && handles.find(handle, physical)) mark_exported(physical);
  return result;
}

// What is bound to a multicast object lives until it is unbound, whatever else lets go of it: as if it were exported.
RATION_HOOK CUresult cuMulticastBindMem(CUmemGenericAllocationHandle multicast, std::size_t multicast_offset,
                                        CUmemGenericAllocationHandle handle, std::size_t offset, std::size_t size,
                                        unsigned long long flags) {
  const CUresult result =
      real<cuMulticastBindMem_t>(Symbol::cuMulticastBindMem)(multicast, multicast_offset, handle, offset, size, flags);
  std::uint64_t physical = 0;
  if (result == CUDA_SUCCESS && governed() && handles.find(handle, physical)) mark_exported(physical);
  return result;
}
RATION_HOOK CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle multicast, std::size_t multicast_offset,
                                         CUdeviceptr address, std::size_t size, unsigned long long flags) {
  const CUresult result =
      real<cuMulticastBindAddr_t>(Symbol::cuMulticastBindAddr)(multicast, multicast_offset, address, size, flags);
  if (result != CUDA_SUCCESS || !governed()) return result;
  if (const std::uint64_t physical = physical_at(address); physical != 0) mark_exported(physical);
  return result;
}
