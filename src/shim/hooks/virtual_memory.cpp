// Virtual memory management: physical memory lives while a handle OR a mapping does, so it is charged from its creation
// until the last of both is gone; to the device it is created on, whichever is current. Memory of other processes is
// joined where the workload is charged for it, and charged in full where it is not.
#include <unistd.h>

#include <atomic>
#include <bit>

#include "driver/cuda_share_abi.hpp"
#include "ledger/descriptor_label.hpp"
#include "shim/hooks/after_fork.hpp"
#include "shim/hooks/governor.hpp"
#include "shim/hooks/hooks.hpp"
#include "shim/hooks/imports.hpp"
#include "shim/hooks/shares.hpp"
#include "shim/hooks/table.hpp"

namespace ration::shim {
namespace {

using namespace cuda;

/// One piece of physical memory. `references`: its handles and mappings together.
struct Physical {
  std::uint64_t size = 0;
  std::uint32_t account = kNoAccount;
  std::uint32_t references = 0;
  std::uint64_t number = 0;  // of the book, where others may hold it
  bool joined = false;       // another process is charged for it
  std::uint64_t name = 0;    // under which it came, if it did
};

/// CUmemFabricHandle.
constexpr std::size_t kFabricHandleSize = 64;

struct Mapped {
  std::uint64_t size = 0;
  std::uint64_t physical = 0;
};

/// A handle's value may be given out again while a mapping keeps the memory, so memory has a number of its own.
std::atomic<std::uint64_t> next_physical{1};
Table<Physical> physicals;
Table<std::uint64_t> handles;  // handle -> physical
Table<std::uint32_t> handle_references;
Table<Mapped> mappings;       // start address -> what stands there
Table<std::uint64_t> shared;  // its number in the book, or its name there -> physical
SpinLock sharing;

/// What a multicast object keeps alive until it is unbound, whatever else lets go of it.
struct Bound {
  CUmemGenericAllocationHandle multicast = 0;
  std::uint64_t offset = 0;
  std::uint64_t physical = 0;
};
Table<Bound> bound;
std::atomic<std::uint64_t> next_bound{1};

/// False: it is gone.
bool add_reference(std::uint64_t physical) noexcept {
  bool present = false;
  physicals.update(physical, [&](Physical& memory) {
    present = memory.references > 0;
    if (present) ++memory.references;
    return present;
  });
  return present;
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
  leave_share(physical_key(physical));
  for (const std::uint64_t known_as : {gone.number, gone.name}) {
    std::uint64_t forgotten = 0;
    if (known_as != 0) (void)shared.take(known_as, forgotten);
  }
  if (gone.joined)
    joined().leave(gone.number);
  else if (gone.number != 0)
    book().shared_memory().give_up(gone.number, gone.account, Bytes{gone.size}, Kind::kHeap);
  else
    give_back(gone.account, Bytes{gone.size});
}

/// The memory as others may find it; number 0: there is no room for more of it.
Physical share(std::uint64_t physical) noexcept {
  const SpinGuard guard(sharing);
  Physical memory;
  if (!physicals.find(physical, memory) || memory.number != 0) return memory;
  memory.number = book().shared_memory().share(memory.account, Bytes{memory.size}, Kind::kHeap);
  physicals.update(physical, [&](Physical& entry) {
    entry.number = memory.number;
    return entry.references > 0;
  });
  if (memory.number != 0) shared.insert(memory.number, physical);
  return memory;
}

void note_handle(CUmemGenericAllocationHandle handle, std::uint64_t physical) noexcept {
  handles.insert(handle, physical);
  handle_references.update(handle, [](std::uint32_t& count) { return ++count != 0; });
}

/// Its own number.
std::uint64_t new_physical(CUmemGenericAllocationHandle handle, Physical memory) noexcept {
  const std::uint64_t number = next_physical.fetch_add(1, std::memory_order_relaxed);
  memory.references = 1;
  physicals.insert(number, memory);
  for (const std::uint64_t known_as : {memory.number, memory.name}) {
    if (known_as != 0) shared.insert(known_as, number);
  }
  note_handle(handle, number);
  return number;
}

/// The physical memory behind any address inside a mapping; 0 if there is none that we saw.
std::uint64_t physical_at(std::uint64_t address) noexcept {
  std::uint64_t found = 0;
  mappings.each([&](std::uint64_t start, const Mapped& mapped) {
    if (address >= start && address - start < mapped.size) found = mapped.physical;
  });
  return found;
}

// ------------------------------------------------------------------------------------------------------- importing

/// How much of an imported handle can be mapped: the driver does not tell its size. 0: it lets nothing be mapped.
Bytes mappable(CUmemGenericAllocationHandle handle, CUdevice device) noexcept {
  std::size_t most = 0;
  CUdeviceptr range = 0;
  if (real<cuDeviceTotalMem_v2_t>(Symbol::cuDeviceTotalMem_v2)(&most, device) != CUDA_SUCCESS) return {};
  most = round_up(Bytes{most}, kGranule).count();
  if (real<cuMemAddressReserve_t>(Symbol::cuMemAddressReserve)(&range, most, 0, 0, 0) != CUDA_SUCCESS) return {};
  std::uint64_t found = 0;
  for (std::uint64_t step = std::bit_floor(most); step >= kGranule.count(); step /= 2) {
    if (found + step > most || real<cuMemMap_t>(Symbol::cuMemMap)(range, found + step, 0, handle, 0) != CUDA_SUCCESS)
      continue;
    found += step;
    real<cuMemUnmap_t>(Symbol::cuMemUnmap)(range, found);
  }
  real<cuMemAddressFree_t>(Symbol::cuMemAddressFree)(range, most);
  return Bytes{found};
}

/// Memory that came under `name`, or under none, and that the workload is not charged for yet. False: it does not fit.
bool charge_import(CUmemGenericAllocationHandle handle, std::uint64_t name, Bytes size, int descriptor) noexcept {
  CUmemAllocationProp properties{};
  if (real<cuMemGetAllocationPropertiesFromHandle_t>(Symbol::cuMemGetAllocationPropertiesFromHandle)(
          &properties, handle) != CUDA_SUCCESS)
    return false;
  Physical memory;
  if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    new_physical(handle, memory);  // host memory is not rationed
    return true;
  }
  if (size == Bytes{0}) size = mappable(handle, properties.location.id);
  memory.account = account_of(properties.location.id);
  memory.size = size.count();
  if (size == Bytes{0} || !admit(memory.account, size, Kind::kHeap, "cuMemImportFromShareableHandle")) return false;
  // Whoever exported it is under no limit: others of this workload know it again by a label of our own.
  if (name == 0 && descriptor >= 0) {
    const std::uint64_t drawn = ledger::draw_number();
    if (ledger::set_label(descriptor, {drawn, size})) name = drawn;
  }
  ledger::SharedMemory::Found known;
  if (book().shared_memory().adopt(name, memory.account, size, memory.number) && joined().join(memory.number, known)) {
    give_back(memory.account, size);  // another process of the workload imported it at the same time
    memory.joined = true;
  }
  memory.name = name;
  new_physical(handle, memory);
  return true;
}

}  // namespace

std::uint64_t hold_physical_of(CUmemGenericAllocationHandle handle) noexcept {
  std::uint64_t physical = 0;
  if (handles.find(handle, physical)) add_reference(physical);
  return physical;
}
void hold_physical(std::uint64_t number) noexcept { add_reference(number); }
void let_go_physical(std::uint64_t number) noexcept { drop_reference(number); }

[[gnu::init_priority(101)]] const AfterFork forget([]() noexcept {
  physicals.abandon();
  handles.abandon();
  handle_references.abandon();
  mappings.abandon();
  shared.abandon();
  bound.abandon();
  sharing.unlock();
});

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
  ShareCharge share(account, charge);
  if (!share.fits()) return share.deny("cuMemCreate");
  const CUresult result =
      charged(account, charge, Kind::kHeap, "cuMemCreate", [&] { return call_real(out, size, properties, flags); });
  if (result != CUDA_SUCCESS) return result;
  Physical memory;
  memory.size = charge.count();
  memory.account = account;
  share.keep(physical_key(new_physical(*out, memory)));
  return result;
}

RATION_HOOK CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  auto* call_real = real<cuMemRelease_t>(Symbol::cuMemRelease);
  if (!governed()) return call_real(handle);
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
  if (known) (void)add_reference(physical);
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
  if (const std::uint64_t physical = physical_at(reinterpret_cast<std::uint64_t>(address));
      physical != 0 && add_reference(physical)) {
    note_handle(*out, physical);
  }
  return result;
}

RATION_HOOK CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* handle,
                                                    CUmemAllocationHandleType type) {
  note(Unmovable::kShared);
  const CUresult result =
      real<cuMemImportFromShareableHandle_t>(Symbol::cuMemImportFromShareableHandle)(out, handle, type);
  if (result != CUDA_SUCCESS || !governed()) return result;
  const bool by_descriptor = type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const int descriptor = by_descriptor ? static_cast<int>(reinterpret_cast<std::intptr_t>(handle)) : -1;
  const ration::ledger::Label label = by_descriptor ? ration::ledger::read_label(descriptor) : ration::ledger::Label{};
  std::uint64_t name = label.number;
  if (type == CU_MEM_HANDLE_TYPE_FABRIC) name = name_of(handle, kFabricHandleSize);
  // The same process may import what it has: the driver then counts one handle more of memory that is known already.
  std::uint64_t present = 0;
  const bool known = handles.find(*out, present) || (name != 0 && shared.find(name, present));
  if (known && add_reference(present)) {
    note_handle(*out, present);
    return result;
  }
  if (ration::ledger::SharedMemory::Found found; name != 0 && joined().join(name, found)) {
    new_physical(*out, {found.size.count(), found.account, 0, found.number, true, name});
    return result;
  }
  if (charge_import(*out, name, label.size, descriptor)) return result;
  real<cuMemRelease_t>(Symbol::cuMemRelease)(*out);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

// An exported descriptor keeps the memory alive as a handle does, wherever it travels; what else can be exported (a
// fabric handle) is plain bytes.
RATION_HOOK CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                                  CUmemAllocationHandleType type, unsigned long long flags) {
  note(Unmovable::kShared);
  const CUresult result =
      real<cuMemExportToShareableHandle_t>(Symbol::cuMemExportToShareableHandle)(out, handle, type, flags);
  std::uint64_t physical = 0;
  if (result != CUDA_SUCCESS || !governed() || !handles.find(handle, physical)) return result;
  const Physical memory = share(physical);
  if (memory.account == kNoAccount) return result;  // host memory
  if (type == CU_MEM_HANDLE_TYPE_FABRIC)
    (void)book().shared_memory().add_name(memory.number, name_of(out, kFabricHandleSize));
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return result;
  const int descriptor = *static_cast<const int*>(out);
  if (memory.number == 0) {  // more than can be watched
    ::close(descriptor);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  book().shared_memory().note_descriptor(memory.number, descriptor,
                                         ration::ledger::set_label(descriptor, {memory.number, Bytes{memory.size}}));
  return result;
}

namespace {

void bind(CUmemGenericAllocationHandle multicast, std::uint64_t offset, std::uint64_t physical) noexcept {
  if (add_reference(physical)) bound.insert(next_bound.fetch_add(1), Bound{multicast, offset, physical});
}

}  // namespace

RATION_HOOK CUresult cuMulticastBindMem(CUmemGenericAllocationHandle multicast, std::size_t multicast_offset,
                                        CUmemGenericAllocationHandle handle, std::size_t offset, std::size_t size,
                                        unsigned long long flags) {
  const CUresult result =
      real<cuMulticastBindMem_t>(Symbol::cuMulticastBindMem)(multicast, multicast_offset, handle, offset, size, flags);
  std::uint64_t physical = 0;
  if (result == CUDA_SUCCESS && governed() && handles.find(handle, physical))
    bind(multicast, multicast_offset, physical);
  return result;
}
RATION_HOOK CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle multicast, std::size_t multicast_offset,
                                         CUdeviceptr address, std::size_t size, unsigned long long flags) {
  const CUresult result =
      real<cuMulticastBindAddr_t>(Symbol::cuMulticastBindAddr)(multicast, multicast_offset, address, size, flags);
  if (result == CUDA_SUCCESS && governed()) bind(multicast, multicast_offset, physical_at(address));
  return result;
}
RATION_HOOK CUresult cuMulticastUnbind(CUmemGenericAllocationHandle multicast, CUdevice device, std::size_t offset,
                                       std::size_t size) {
  const CUresult result = real<cuMulticastUnbind_t>(Symbol::cuMulticastUnbind)(multicast, device, offset, size);
  if (result != CUDA_SUCCESS || !governed()) return result;
  const std::uint32_t account = account_of(device);
  bound.remove_if([&](std::uint64_t, const Bound& one) {
    Physical memory;
    const bool meant = one.multicast == multicast && one.offset >= offset && one.offset - offset < size &&
                       physicals.find(one.physical, memory) && memory.account == account;
    if (meant) drop_reference(one.physical);
    return meant;
  });
  return result;
}
