// Virtual memory management. Physical memory lives while a handle OR a mapping exists, so it is charged from its
// creation until its last handle and its last mapping are gone, to the device on which it is created, whichever device
// is current. Memory of other processes is joined if the workload is charged for it already; otherwise it is charged in
// full.
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <new>

#include "book/descriptor_label.hpp"
#include "driver/cuda_share_abi.hpp"
#include "guard/hooks/after_fork.hpp"
#include "guard/hooks/governor.hpp"
#include "guard/hooks/hooks.hpp"
#include "guard/hooks/imports.hpp"
#include "guard/hooks/shares.hpp"
#include "guard/hooks/table.hpp"
#include "guard/recorder/recorder.hpp"

namespace ration::guard {
namespace {

using namespace cuda;

/// One piece of physical memory. `references` counts its handles and mappings together.
struct Physical {
  std::uint64_t size = 0;
  std::uint32_t account = kNoAccount;
  std::uint32_t references = 0;
  std::uint64_t number = 0;  // its number in the book; 0 if no other process may hold it
  bool joined = false;       // true if another process is charged for it
  std::uint64_t name = 0;    // the name under which it was imported; 0 if none
};

/// The size of a CUmemFabricHandle.
constexpr std::size_t kFabricHandleSize = 64;

struct Mapped {
  std::uint64_t size = 0;
  std::uint64_t physical = 0;
};

/// The memory behind a driver's handle value. The driver may reuse the value while a mapping still keeps the former
/// memory alive, so memory has a number of its own.
struct Handle {
  std::uint64_t physical = 0;
  std::uint32_t references = 0;
};

std::atomic<std::uint64_t> next_physical{1};
Table<Physical> physicals;
Table<Handle> handles;
Table<Mapped> mappings;       // the memory mapped at an address; the key is the start
Table<std::uint64_t> shared;  // the physical memory; the key is its number or name in the book

// The lock of changes. It is recursive, because the driver may call the program back from inside a call (CUPTI).
pthread_mutex_t changes = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

/// Adds a reference to physical memory. Returns false if the memory is gone.
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
  Recorded event(trace::Kind::kVirtualRelease, gone.size);
  event.done(physical, gone.account);
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

/// Enters memory in the book for other processes, before any of them can get it. Requires the lock of changes.
Physical share(std::uint64_t physical) noexcept {
  Physical memory;
  if (!physicals.find(physical, memory) || memory.account == kNoAccount || memory.number != 0) return memory;
  memory.number = book().shared_memory().share(memory.account, Bytes{memory.size}, Kind::kHeap);
  if (memory.number != 0 && !shared.insert(memory.number, physical)) {
    book().shared_memory().withdraw(memory.number, memory.account, Kind::kHeap);
    memory.number = 0;
  }
  physicals.update(physical, [&](Physical& entry) {
    entry.number = memory.number;
    return entry.references > 0;
  });
  return memory;
}

/// Undoes share() after the driver failed to export the memory.
void withdraw(std::uint64_t physical, const Physical& memory) noexcept {
  std::uint64_t forgotten = 0;
  (void)shared.take(memory.number, forgotten);
  physicals.update(physical, [](Physical& entry) {
    entry.number = 0;
    return entry.references > 0;
  });
  book().shared_memory().withdraw(memory.number, memory.account, Kind::kHeap);
}

std::uint64_t physical_of(CUmemGenericAllocationHandle handle) noexcept {
  Handle known;
  return handles.find(handle, known) ? known.physical : 0;
}

// Enters a handle. If there is no memory for the entry, the physical memory stays charged.
void note_handle(CUmemGenericAllocationHandle handle, std::uint64_t physical) noexcept {
  handles.update(handle, [&](Handle& known) {
    known.physical = physical;
    return ++known.references != 0;
  });
}

/// Enters new physical memory and returns its own number.
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

/// Returns the physical memory behind any address inside a mapping, or 0 if no hook saw the mapping.
std::uint64_t physical_at(std::uint64_t address) noexcept {
  std::uint64_t found = 0;
  mappings.each([&](std::uint64_t start, const Mapped& mapped) {
    if (address >= start && address - start < mapped.size) found = mapped.physical;
  });
  return found;
}

// ------------------------------------------------------------------------------------------------------- importing

/// Finds the size of an imported handle by mapping it, since the driver does not report the size. Returns 0 if nothing
/// can be mapped.
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

/// Charges imported memory that the workload is not charged for yet. `name` is the name under which the memory came, or
/// 0. Returns false if the memory does not fit. Waits for room without the lock of changes, so that other threads can
/// free memory.
bool charge_import(CUmemGenericAllocationHandle handle, std::uint64_t name, Bytes size, int descriptor) noexcept {
  CUmemAllocationProp properties{};
  if (real<cuMemGetAllocationPropertiesFromHandle_t>(Symbol::cuMemGetAllocationPropertiesFromHandle)(
          &properties, handle) != CUDA_SUCCESS)
    return false;
  Physical memory;
  const bool of_host = is_of_host(properties.location.type);
  if (of_host && !counts_host()) {
    const VirtualMemoryChange change;
    new_physical(handle, memory);
    return true;
  }
  if (size == Bytes{0}) size = mappable(handle, of_host ? 0 : properties.location.id);
  memory.account = of_host ? kHostAccount : account_of(properties.location.id);
  memory.size = size.count();
  if (size == Bytes{0} || !admit(memory.account, size, Kind::kHeap, "cuMemImportFromShareableHandle")) return false;
  // A descriptor without a label comes from an ungoverned exporter. It gets a label here, by which other processes of
  // this workload recognise the memory.
  if (name == 0 && descriptor >= 0 && !of_host) {
    const std::uint64_t drawn = book::draw_number();
    if (book::set_label(descriptor, {drawn, size})) name = drawn;
  }
  book::SharedMemory::Found known;
  if (book().shared_memory().join_or_enter(name, memory.account, size, memory.number) &&
      joined().join(memory.number, known)) {
    give_back(memory.account, size);  // another process of the workload imported it at the same time
    memory.joined = true;
  }
  memory.name = name;
  const VirtualMemoryChange change;
  new_physical(handle, memory);
  return true;
}

/// Returns true if the driver would reject such a request, whatever its size.
bool is_malformed(std::size_t size, const CUmemAllocationProp& properties, unsigned long long flags) noexcept {
  std::size_t granularity = 0;
  return flags != 0 ||
         real<cuMemGetAllocationGranularity_t>(Symbol::cuMemGetAllocationGranularity)(
             &granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS ||
         granularity == 0 || size % granularity != 0;
}

/// A descriptor to import. It is duplicated when the call begins, because the program may close it at any moment, and
/// its number may then refer to another file.
class Incoming {
 public:
  Incoming(void* handle, CUmemAllocationHandleType type) noexcept : handle_(handle) {
    if (type == CU_MEM_HANDLE_TYPE_FABRIC && handle != nullptr) name_ = name_of(handle, kFabricHandleSize);
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return;
    descriptor_ = ::fcntl(static_cast<int>(reinterpret_cast<std::intptr_t>(handle)), F_DUPFD_CLOEXEC, 0);
    may_ask_ = descriptor_ >= 0 || errno == EBADF;
    // The driver must report an error for the bad descriptor itself, not for another file that reuses its number.
    handle_ = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor_));
    if (descriptor_ < 0) return;
    const book::Label label = book::read_label(descriptor_);
    name_ = label.number;
    size_ = label.size;
  }
  ~Incoming() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;

  [[nodiscard]] bool may_ask() const noexcept { return may_ask_; }
  [[nodiscard]] void* handle() const noexcept { return handle_; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] std::uint64_t name() const noexcept { return name_; }
  [[nodiscard]] Bytes size() const noexcept { return size_; }

 private:
  void* handle_;
  int descriptor_ = -1;
  bool may_ask_ = true;
  std::uint64_t name_ = 0;
  Bytes size_;
};

}  // namespace

VirtualMemoryChange::VirtualMemoryChange() noexcept { ::pthread_mutex_lock(&changes); }
VirtualMemoryChange::~VirtualMemoryChange() { ::pthread_mutex_unlock(&changes); }

std::uint64_t hold_physical_of(CUmemGenericAllocationHandle handle) noexcept {
  const std::uint64_t physical = physical_of(handle);
  if (physical != 0) add_reference(physical);
  return physical;
}
std::uint64_t hold_physical_at(CUdeviceptr address) noexcept {
  const std::uint64_t physical = physical_at(address);
  return physical != 0 && add_reference(physical) ? physical : 0;
}
void hold_physical(std::uint64_t number) noexcept { add_reference(number); }
void let_go_physical(std::uint64_t number) noexcept { drop_reference(number); }
std::uint32_t account_of_physical(std::uint64_t number) noexcept {
  Physical memory;
  return physicals.find(number, memory) ? memory.account : kNoAccount;
}

[[gnu::init_priority(101)]] const AfterFork forget([]() noexcept {
  physicals.abandon();
  handles.abandon();
  mappings.abandon();
  shared.abandon();
  ::new (&changes) pthread_mutex_t PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
});

}  // namespace ration::guard

using namespace ration::guard;
using namespace ration::cuda;
using ration::Bytes;
using ration::book::Kind;

RATION_HOOK CUresult cuMemCreate(CUmemGenericAllocationHandle* out, std::size_t size,
                                 const CUmemAllocationProp* properties, unsigned long long flags) {
  auto* call_real = real<cuMemCreate_t>(Symbol::cuMemCreate);
  if (!governed() || out == nullptr || properties == nullptr) return call_real(out, size, properties, flags);
  const CUmemAllocationProp asked = *properties;  // read once, because another thread may change it
  const bool of_host = is_of_host(asked.location.type) && counts_host();
  if (size == 0 || (asked.location.type != CU_MEM_LOCATION_TYPE_DEVICE && !of_host))
    return call_real(out, size, &asked, flags);
  const std::uint32_t account = of_host ? kHostAccount : account_of(asked.location.id);
  if (account == kNoAccount && !is_device(asked.location.id)) return call_real(out, size, &asked, flags);
  const Bytes charge = ration::round_up(Bytes{size}, ration::kGranule);
  if (account != kNoAccount && charge > book().account(account).headroom() && is_malformed(size, asked, flags))
    return CUDA_ERROR_INVALID_VALUE;  // the driver's own answer, since the driver cannot be asked for more than fits
  ShareCharge share(of_host ? kNoAccount : account, charge);
  if (!share.fits()) return share.deny("cuMemCreate");
  Recorded event(ration::trace::Kind::kVirtualCreate, size);
  CUmemGenericAllocationHandle handle = 0;
  std::uint64_t physical = 0;
  const CUresult result = charged(account, charge, Kind::kHeap, "cuMemCreate", [&] {
    const VirtualMemoryChange change;
    const CUresult inner = call_real(&handle, size, &asked, flags);
    Physical memory;
    memory.size = charge.count();
    memory.account = account;
    if (inner == CUDA_SUCCESS) physical = new_physical(handle, memory);
    return inner;
  });
  event.failed(result, account);
  if (result != CUDA_SUCCESS) return result;
  event.done(physical, account);
  share.keep(physical_key(physical));
  *out = handle;
  return result;
}

RATION_HOOK CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  auto* call_real = real<cuMemRelease_t>(Symbol::cuMemRelease);
  if (!governed()) return call_real(handle);
  const VirtualMemoryChange change;
  const std::uint64_t physical = physical_of(handle);
  const CUresult result = call_real(handle);
  if (result != CUDA_SUCCESS || physical == 0) return result;
  handles.update(handle, [](Handle& known) { return known.references > 1 && --known.references > 0; });
  drop_reference(physical);
  return result;
}

RATION_HOOK CUresult cuMemMap(CUdeviceptr address, std::size_t size, std::size_t offset,
                              CUmemGenericAllocationHandle handle, unsigned long long flags) {
  auto* call_real = real<cuMemMap_t>(Symbol::cuMemMap);
  if (!governed()) return call_real(address, size, offset, handle, flags);
  const VirtualMemoryChange change;
  const std::uint64_t physical = physical_of(handle);
  const CUresult result = call_real(address, size, offset, handle, flags);
  if (result != CUDA_SUCCESS || physical == 0 || !add_reference(physical)) return result;
  Recorded(ration::trace::Kind::kVirtualMap, size).done(address, account_of_physical(physical));
  Mapped mapped;
  mapped.size = size;
  mapped.physical = physical;
  mappings.insert(address, mapped);
  return result;
}

RATION_HOOK CUresult cuMemUnmap(CUdeviceptr address, std::size_t size) {
  auto* call_real = real<cuMemUnmap_t>(Symbol::cuMemUnmap);
  if (!governed()) return call_real(address, size);
  const VirtualMemoryChange change;
  Recorded event(ration::trace::Kind::kVirtualUnmap, size);
  const CUresult result = call_real(address, size);
  if (result != CUDA_SUCCESS) return result;
  event.done(address, account_of_physical(physical_at(address)));
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
  auto* call_real = real<cuMemRetainAllocationHandle_t>(Symbol::cuMemRetainAllocationHandle);
  if (!governed() || out == nullptr) return call_real(out, address);
  const VirtualMemoryChange change;
  const CUresult result = call_real(out, address);
  if (result != CUDA_SUCCESS) return result;
  if (const std::uint64_t physical = hold_physical_at(reinterpret_cast<std::uint64_t>(address)); physical != 0)
    note_handle(*out, physical);
  return result;
}

RATION_HOOK CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* handle,
                                                    CUmemAllocationHandleType type) {
  note(Unmovable::kShared);
  auto* call_real = real<cuMemImportFromShareableHandle_t>(Symbol::cuMemImportFromShareableHandle);
  if (!governed() || out == nullptr) return call_real(out, handle, type);
  const Incoming incoming(handle, type);
  if (!incoming.may_ask()) return CUDA_ERROR_OPERATING_SYSTEM;
  Recorded event(ration::trace::Kind::kImported);
  // The memory is joined before the driver is asked, because its exporter may give it up at any moment.
  ration::book::SharedMemory::Found found;
  const bool is_joined = incoming.name() != 0 && joined().join(incoming.name(), found);
  CUmemGenericAllocationHandle imported = 0;
  {
    const VirtualMemoryChange change;
    const CUresult result = call_real(&imported, incoming.handle(), type);
    // A process may import its own memory; the driver then counts one more handle of memory that is known already.
    std::uint64_t present = 0;
    const bool known = result == CUDA_SUCCESS && ((present = physical_of(imported)) != 0 ||
                                                  (incoming.name() != 0 && shared.find(incoming.name(), present)));
    const bool again = known && add_reference(present);
    if (is_joined && (again || result != CUDA_SUCCESS)) joined().leave(found.number);
    if (result != CUDA_SUCCESS) return result;
    if (again)
      note_handle(imported, present);
    else if (is_joined)
      new_physical(imported, {found.size.count(), found.account, 0, found.number, true, incoming.name()});
    if (again || is_joined) {
      event.done(imported, kNoAccount);
      *out = imported;
      return result;
    }
  }
  if (!charge_import(imported, incoming.name(), incoming.size(), incoming.descriptor())) {
    real<cuMemRelease_t>(Symbol::cuMemRelease)(imported);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  event.done(imported, kNoAccount);
  *out = imported;
  return CUDA_SUCCESS;
}

// Enters exported memory in the book. Labels an exported descriptor, because a descriptor keeps the memory alive as a
// handle does, whichever process gets it. Any other exported form (a fabric handle) is plain bytes and keeps nothing
// alive.
RATION_HOOK CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                                  CUmemAllocationHandleType type, unsigned long long flags) {
  note(Unmovable::kShared);
  auto* call_real = real<cuMemExportToShareableHandle_t>(Symbol::cuMemExportToShareableHandle);
  if (!governed() || out == nullptr) return call_real(out, handle, type, flags);
  const VirtualMemoryChange change;
  const std::uint64_t physical = physical_of(handle);
  Physical before;
  // Memory of the host is charged to each process that has it, so its descriptors need no label.
  if (physical == 0 || !physicals.find(physical, before) || before.account == kNoAccount ||
      before.account == kHostAccount)
    return call_real(out, handle, type, flags);
  const bool by_descriptor = type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const Physical memory = share(physical);
  if (by_descriptor && memory.number == 0) {
    deny_for_table(memory.account, Bytes{memory.size}, "cuMemExportToShareableHandle",
                   ration::book::SharedMemory::capacity());
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  int descriptor = -1;  // passed to the program once it has its label
  const CUresult result = call_real(by_descriptor ? &descriptor : out, handle, type, flags);
  if (result != CUDA_SUCCESS) {
    if (before.number == 0 && memory.number != 0) withdraw(physical, memory);
    return result;
  }
  Recorded(ration::trace::Kind::kExported, memory.size).done(physical, memory.account);
  if (type == CU_MEM_HANDLE_TYPE_FABRIC)
    (void)book().shared_memory().add_name(memory.number, name_of(out, kFabricHandleSize));
  if (!by_descriptor) return result;
  book().shared_memory().note_descriptor(memory.number, descriptor,
                                         ration::book::set_label(descriptor, {memory.number, Bytes{memory.size}}));
  *static_cast<int*>(out) = descriptor;
  return result;
}
