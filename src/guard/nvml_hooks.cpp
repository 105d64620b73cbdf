// NVML's answers about memory inside a governed process: total and free are those of cuMemGetInfo, used is the
// workload's, and only the workload's processes are listed. The rest of the total, which other workloads hold or are
// promised, counts as reserved. The first version of the call has no such figure and includes the rest in `used`. So
// the figures of each version add up. A device that was not granted has nothing free. If NVML does not report a
// device's memory because the device uses host memory (GB10, Jetson), the limit is reported nevertheless: otherwise
// programs would compute their fractions from the host's memory. Processes without a book get NVML's own answers. The
// count and the identity of devices, and versions, are never changed.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>

#include "base/file.hpp"
#include "book/book.hpp"
#include "book/layout.hpp"
#include "guard/environment.hpp"
#include "guard/hooks/table.hpp"
#include "guard/nvml_symbols.hpp"
#include "guard/recorder/recorder.hpp"
#include "guard/resolve.hpp"
#include "guard/unlisted.hpp"

namespace ration::guard {
namespace {

using Device = void*;

// nvmlReturn_t values and structures, from the NVML manual.
constexpr int kSuccess = 0;
constexpr int kErrorInvalidArgument = 2;
constexpr int kErrorNotSupported = 3;
constexpr int kErrorInsufficientSize = 7;
constexpr int kErrorLibraryNotFound = 12;
constexpr int kErrorMemory = 20;

struct Memory {
  std::uint64_t total, free, used;
};
struct Memory2 {
  std::uint32_t version;
  std::uint64_t total, reserved, free, used;
};
struct Process1 {
  std::uint32_t pid;
  std::uint64_t used;
};
struct Process3 {
  std::uint32_t pid;
  std::uint64_t used;
  std::uint32_t gpu_instance, compute_instance;
};
static_assert(sizeof(Memory) == 24 && sizeof(Memory2) == 40 && sizeof(Process1) == 16 && sizeof(Process3) == 24);

struct ProcessDetail {
  std::uint32_t pid;
  std::uint64_t used;
  std::uint32_t gpu_instance, compute_instance;
  std::uint64_t used_protected;
};
struct ProcessDetailList {
  std::uint32_t version, mode, count;
  ProcessDetail* entries;
};
static_assert(sizeof(ProcessDetail) == 32 && sizeof(ProcessDetailList) == 24);

// The book, opened at the first query and never closed, because atexit handlers query NVML too. Reading it needs no
// slot.
alignas(book::Book) char book_place[sizeof(book::Book)];
enum class BookState { kUntried, kOpening, kOpen, kNone };
std::atomic<BookState> book_state{BookState::kUntried};

book::Book* open_book() noexcept {
  auto* book = reinterpret_cast<book::Book*>(book_place);
  BookState state = book_state.load(std::memory_order_acquire);
  if (state == BookState::kUntried && environment().governed) {
    if (book_state.compare_exchange_strong(state, BookState::kOpening)) {
      ::new (book_place) book::Book;
      const bool good = book::Book::open(environment().book, *book) == book::BookStatus::kOk;
      book_state.store(good ? BookState::kOpen : BookState::kNone, std::memory_order_release);
    }
    while ((state = book_state.load(std::memory_order_acquire)) == BookState::kOpening) {
    }
  }
  return state == BookState::kOpen ? book : nullptr;
}

int digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Converts "GPU-8f2c1c9e-…" to its 16 bytes.
bool parse_uuid(const char* text, book::DeviceUuid& out) noexcept {
  const char* cursor = std::strchr(text, '-');
  if (cursor == nullptr) return false;
  std::size_t digits = 0;
  for (++cursor; *cursor != '\0'; ++cursor) {
    if (*cursor == '-') continue;
    const int value = digit(*cursor);
    if (value < 0 || digits == 32) return false;
    std::uint8_t& byte = out[digits / 2];
    byte = static_cast<std::uint8_t>(digits % 2 == 0 ? value << 4 : byte | value);
    ++digits;
  }
  return digits == 32;
}

struct Account {
  const book::Book* book = nullptr;
  std::uint32_t index = 0;
  /// Returns true if this process is governed.
  explicit operator bool() const noexcept { return book != nullptr; }
  [[nodiscard]] bool is_granted() const noexcept { return index < book->account_count(); }
  [[nodiscard]] book::Account in_book() const noexcept { return book->account(index); }
};

/// Returns the book's account for `device`, or none if this process is not governed.
Account account_on(Device device) noexcept {
  const book::Book* book = open_book();
  if (book == nullptr) return {};
  char text[96];
  auto* get = real_nvml<int(Device, char*, unsigned)>(NvmlSymbol::nvmlDeviceGetUUID);
  book::DeviceUuid uuid{};
  if (get(device, text, sizeof text) != kSuccess || !parse_uuid(text, uuid)) return {};
  return {book, book->find_account(uuid)};
}

struct Share {
  std::uint64_t total, free, used;
};

/// Returns true if the account's figures can replace NVML's answer about memory. If NVML reports no figures, sets
/// `total` and `available` to the limit.
bool can_tell(const Account& account, int result, std::uint64_t& total, std::uint64_t& available) noexcept {
  if (!account || result == kSuccess) return static_cast<bool>(account);
  if (!account.is_granted()) return false;
  const Bytes size = account.in_book().visible_size(kUnlimited);
  if (size >= kUnlimited) return false;
  total = available = size.count();
  return true;
}

/// Computes the workload's figures for a device of `total` bytes with `available` of them free.
Share share_of(const Account& account, std::uint64_t total, std::uint64_t available) noexcept {
  // Without a grant, the whole device is shown as used: tools show total minus used as free, and they divide by the
  // total, so the total must not be 0.
  if (!account.is_granted()) return {total, 0, total};
  const auto visible = account.in_book().visible(Bytes{total}, Bytes{available});
  return {visible.total.count(), visible.free.count(), visible.used.count()};
}

/// Records the free bytes that NVML's answer showed. NVML's guard has its own part of the recording in each process;
/// the first query begins that part.
void record_answer(const Account& account, std::uint64_t free) noexcept {
  if (environment().record[0] == '\0' || !account.is_granted()) return;
  static SpinLock beginning;
  static std::atomic<pid_t> of_process{0};
  {
    const SpinGuard guard(beginning);
    if (of_process.exchange(::getpid()) != ::getpid()) {  // a child has its parent's value
      forget_recording();
      RecordedDevices devices;
      for (; devices.count < account.book->account_count(); ++devices.count)
        devices.uuids[devices.count] = account.book->account(devices.count).device().uuid;
      begin_recording(devices, true);
    }
  }
  Recorded::note(trace::Kind::kAsked, account.index, free, static_cast<std::uint64_t>(trace::Asked::kNvml));
}

/// The processes that the book lists. It reads the slots in place. Book::read() would build strings and vectors, and
/// their exceptions would bring libstdc++'s emergency pool, which is allocated when the library is loaded, into every
/// governed process.
class Members {
 public:
  Members() noexcept {
    // The process id of an ended process may be another workload's by now.
    if (book::Book* book = open_book(); book != nullptr) book->processes().reap();
    const FileDescriptor file{::open(environment().book, O_RDONLY | O_CLOEXEC)};
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0 || status.st_size < static_cast<off_t>(sizeof(book::BookLayout))) {
      return;
    }
    void* place = ::mmap(nullptr, sizeof(book::BookLayout), PROT_READ, MAP_SHARED, file.get(), 0);
    if (place != MAP_FAILED) mapping_ = Mapping{place, sizeof(book::BookLayout)};
  }
  /// Returns true if the book lists the process. Returns false for every process if the book cannot be read, because
  /// processes of other workloads must not be shown.
  [[nodiscard]] bool contain(std::uint32_t pid) const noexcept {
    const auto* book = static_cast<const book::BookLayout*>(mapping_.get());
    if (book == nullptr) return false;
    const std::size_t bound =
        std::min<std::size_t>(book->header.slot_bound.load(std::memory_order_relaxed), book::kMaxProcesses);
    return std::any_of(book->slots, book->slots + bound, [pid](const book::SlotRecord& slot) {
      return book::life_of(slot.state.load(std::memory_order_acquire)) == book::SlotLife::kUsed &&
             static_cast<std::uint32_t>(slot.pid) == pid;
    });
  }

 private:
  Mapping mapping_;
};

/// NVML's value for an unknown amount.
constexpr std::uint64_t kNotAvailable = ~std::uint64_t{0};

/// Removes the processes of other workloads, and lowers the figures of the rest until they fit into the size shown for
/// the device. Returns the new end.
template <typename Process>
Process* keep_members(const Account& account, Process* begin, Process* end) noexcept {
  const Members members;
  end = std::remove_if(begin, end, [&](const Process& one) { return !members.contain(one.pid); });
  // If the GPU itself was not granted, nothing bounds the figures: the GPU's list contains the memory held on its MIG
  // instances.
  std::uint64_t left = account.is_granted() ? account.in_book().visible_size(kUnlimited).count() : kUnlimited.count();
  for (Process* each = begin; each != end; ++each) {
    if (each->used == kNotAvailable) continue;
    each->used = std::min(each->used, left);
    left -= each->used;
  }
  return end;
}

template <typename Process>
using ListFunction = int(Device, unsigned*, Process*);

/// Returns NVML's list without the processes of other workloads. If the array is too small or absent, stores the needed
/// count and returns kErrorInsufficientSize, as NVML does.
template <typename Process>
int list_members(NvmlSymbol symbol, Device device, unsigned* count, Process* out) noexcept {
  auto* list = real_nvml<ListFunction<Process>>(symbol);
  const Account account = account_on(device);
  if (count == nullptr || !account) return list(device, count, out);
  if (*count != 0 && out == nullptr) return kErrorInvalidArgument;

  Process* all = nullptr;
  unsigned room = 64, found = 0;
  int result = kErrorInsufficientSize;
  // The number of processes can grow between two calls, so the list is requested again with more room.
  for (int tries = 0; tries < 8 && result == kErrorInsufficientSize; ++tries) {
    auto* larger = static_cast<Process*>(std::realloc(all, room * sizeof(Process)));
    if (larger == nullptr) {
      std::free(all);
      return kErrorMemory;
    }
    all = larger;
    found = room;
    result = list(device, &found, all);
    room = std::max(2 * room, found + 16);
  }
  if (result == kSuccess) {
    found = static_cast<unsigned>(keep_members(account, all, all + found) - all);
    if (found <= *count) {
      if (found != 0) std::memcpy(out, all, found * sizeof(Process));
    } else {
      result = kErrorInsufficientSize;
    }
    *count = found;
  }
  std::free(all);
  return result;
}

}  // namespace

void note_unlisted(const char* name) noexcept {
  if (book::Book* book = open_book(); book != nullptr) book->denials().note_unlisted(name);
}

}  // namespace ration::guard

using namespace ration::guard;

#define RATION_EXPORT extern "C" [[gnu::visibility("default")]]

// Returns a text even without NVML, because the function cannot return an error number instead.
RATION_EXPORT const char* nvmlErrorString(int error) noexcept {
  void* library = wrapped_library();
  void* function = library != nullptr ? ::dlsym(library, "nvmlErrorString") : nullptr;
  if (function != nullptr) return reinterpret_cast<const char* (*)(int)>(function)(error);
  return error == kErrorLibraryNotFound ? "NVML Shared Library Not Found" : "Unknown Error";
}

RATION_EXPORT int nvmlDeviceGetMemoryInfo(Device device, Memory* out) noexcept {
  const int result = real_nvml<int(Device, Memory*)>(NvmlSymbol::nvmlDeviceGetMemoryInfo)(device, out);
  if ((result != kSuccess && result != kErrorNotSupported) || out == nullptr) return result;
  const Account account = account_on(device);
  if (!can_tell(account, result, out->total, out->free)) return result;
  const Share share = share_of(account, out->total, out->free);
  *out = {share.total, share.free, share.total - share.free};
  record_answer(account, share.free);
  return kSuccess;
}

RATION_EXPORT int nvmlDeviceGetMemoryInfo_v2(Device device, Memory2* out) noexcept {
  const int result = real_nvml<int(Device, Memory2*)>(NvmlSymbol::nvmlDeviceGetMemoryInfo_v2)(device, out);
  if ((result != kSuccess && result != kErrorNotSupported) || out == nullptr) return result;
  const Account account = account_on(device);
  if (!can_tell(account, result, out->total, out->free)) return result;
  const Share share = share_of(account, out->total, out->free);
  out->total = share.total;
  out->reserved = share.total - share.free - share.used;
  out->free = share.free;
  out->used = share.used;
  record_answer(account, share.free);
  return kSuccess;
}

#define RATION_PROCESS_LIST(name, Process)                                        \
  RATION_EXPORT int name(Device device, unsigned* count, Process* out) noexcept { \
    return list_members(NvmlSymbol::name, device, count, out);                    \
  }

RATION_PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses, Process1)
RATION_PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v2, Process3)
RATION_PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v3, Process3)
RATION_PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses, Process1)
RATION_PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, Process3)
RATION_PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, Process3)
RATION_PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses, Process1)
RATION_PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, Process3)
RATION_PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, Process3)

RATION_EXPORT int nvmlDeviceGetRunningProcessDetailList(Device device, ProcessDetailList* out) noexcept {
  auto* list = real_nvml<int(Device, ProcessDetailList*)>(NvmlSymbol::nvmlDeviceGetRunningProcessDetailList);
  const int result = list(device, out);
  if (result != kSuccess || out->entries == nullptr) return result;
  const Account account = account_on(device);
  if (!account) return result;
  out->count =
      static_cast<std::uint32_t>(keep_members(account, out->entries, out->entries + out->count) - out->entries);
  return result;
}
