// What NVML says about memory, inside a governed process: total and free are what cuMemGetInfo says, used is the
// workload's, and only the workload's processes are listed. What others hold or keep of the total counts as reserved,
// which the first version of the call has in `used`, so that the figures of each version add up. Of a device that was
// not granted nothing is free. Where NVML does not say what memory the device has, since it is the host's (GB10,
// Jetson), the limit is known all the same: without it programs take their fractions of the host's memory. Processes
// without a book get NVML's own answers. Count, identity and versions are never touched.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>

#include "base/file.hpp"
#include "ledger/book.hpp"
#include "ledger/layout.hpp"
#include "shim/environment.hpp"
#include "shim/nvml_symbols.hpp"
#include "shim/resolve.hpp"
#include "shim/unlisted.hpp"

namespace ration::shim {
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

// Opened at the first question and never closed: NVML is asked from atexit handlers too. Reading needs no slot.
alignas(ledger::Book) char book_place[sizeof(ledger::Book)];
enum class BookState { kUntried, kOpening, kOpen, kNone };
std::atomic<BookState> book_state{BookState::kUntried};

ledger::Book* open_book() noexcept {
  auto* book = reinterpret_cast<ledger::Book*>(book_place);
  BookState state = book_state.load(std::memory_order_acquire);
  if (state == BookState::kUntried && environment().governed) {
    if (book_state.compare_exchange_strong(state, BookState::kOpening)) {
      ::new (book_place) ledger::Book;
      const bool good = ledger::Book::open(environment().book, *book) == ledger::BookStatus::kOk;
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

/// "GPU-8f2c1c9e-…" to its 16 bytes.
bool parse_uuid(const char* text, ledger::DeviceUuid& out) noexcept {
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
  const ledger::Book* book = nullptr;
  std::uint32_t index = 0;
  /// Whether this process is governed.
  explicit operator bool() const noexcept { return book != nullptr; }
  [[nodiscard]] bool is_granted() const noexcept { return index < book->account_count(); }
  [[nodiscard]] ledger::Account in_book() const noexcept { return book->account(index); }
};

/// The book's account for `device`; none where nothing governs this process.
Account account_on(Device device) noexcept {
  const ledger::Book* book = open_book();
  if (book == nullptr) return {};
  char text[96];
  auto* get = real_nvml<int(Device, char*, unsigned)>(NvmlSymbol::nvmlDeviceGetUUID);
  ledger::DeviceUuid uuid{};
  if (get(device, text, sizeof text) != kSuccess || !parse_uuid(text, uuid)) return {};
  return {book, book->find_account(uuid)};
}

struct Share {
  std::uint64_t total, free, used;
};

/// Whether NVML's answer about memory can be told as the account has it; `total` and `available`: NVML's, or the
/// limit's where NVML has none.
bool can_tell(const Account& account, int result, std::uint64_t& total, std::uint64_t& available) noexcept {
  if (!account || result == kSuccess) return static_cast<bool>(account);
  if (!account.is_granted()) return false;
  const Bytes size = account.in_book().told_size(kUnlimited);
  if (size >= kUnlimited) return false;
  total = available = size.count();
  return true;
}

/// Of a device that has `total` bytes and `available` of them free.
Share share_of(const Account& account, std::uint64_t total, std::uint64_t available) noexcept {
  // Tools take total less used for what is free, and divide by the total.
  if (!account.is_granted()) return {total, 0, total};
  const auto told = account.in_book().told(Bytes{total}, Bytes{available});
  return {told.total.count(), told.free.count(), told.used.count()};
}

/// Which processes the book lists. Reads the slots in place: Book::read() builds strings and vectors, whose exceptions
/// would bring libstdc++'s emergency pool, allocated when the library is loaded, into every governed process.
class Members {
 public:
  Members() noexcept {
    // The number of a process that has ended may be a neighbour's by now.
    if (ledger::Book* book = open_book(); book != nullptr) book->processes().reap();
    const FileDescriptor file{::open(environment().book, O_RDONLY | O_CLOEXEC)};
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0 || status.st_size < static_cast<off_t>(sizeof(ledger::BookLayout))) {
      return;
    }
    void* place = ::mmap(nullptr, sizeof(ledger::BookLayout), PROT_READ, MAP_SHARED, file.get(), 0);
    if (place != MAP_FAILED) mapping_ = Mapping{place, sizeof(ledger::BookLayout)};
  }
  /// A book that cannot be read hides everyone: the neighbours' processes are not ours to see.
  [[nodiscard]] bool contain(std::uint32_t pid) const noexcept {
    const auto* book = static_cast<const ledger::BookLayout*>(mapping_.get());
    if (book == nullptr) return false;
    const std::size_t bound =
        std::min<std::size_t>(book->header.slot_bound.load(std::memory_order_relaxed), ledger::kMaxProcesses);
    return std::any_of(book->slots, book->slots + bound, [pid](const ledger::SlotRecord& slot) {
      return ledger::life_of(slot.state.load(std::memory_order_acquire)) == ledger::SlotLife::kUsed &&
             static_cast<std::uint32_t>(slot.pid) == pid;
    });
  }

 private:
  Mapping mapping_;
};

/// What NVML says where it does not know what a process holds.
constexpr std::uint64_t kNotAvailable = ~std::uint64_t{0};

/// Leaves out the processes of others, and of the rest what is beyond the limit: together they hold no more than the
/// device is said to have. Returns the end of what is left.
template <typename Process>
Process* keep_members(const Account& account, Process* begin, Process* end) noexcept {
  const Members members;
  end = std::remove_if(begin, end, [&](const Process& one) { return !members.contain(one.pid); });
  // What is held on an instance that was granted is listed by its card, too, which was not.
  std::uint64_t left = account.is_granted() ? account.in_book().told_size(kUnlimited).count() : kUnlimited.count();
  for (Process* each = begin; each != end; ++each) {
    if (each->used == kNotAvailable) continue;
    each->used = std::min(each->used, left);
    left -= each->used;
  }
  return end;
}

template <typename Process>
using ListFunction = int(Device, unsigned*, Process*);

/// NVML's list with the processes of others left out. NVML's protocol: with too small an array (or none) the count
/// needed is stored and kErrorInsufficientSize returned.
template <typename Process>
int list_members(NvmlSymbol symbol, Device device, unsigned* count, Process* out) noexcept {
  auto* list = real_nvml<ListFunction<Process>>(symbol);
  const Account account = account_on(device);
  if (count == nullptr || !account) return list(device, count, out);
  if (*count != 0 && out == nullptr) return kErrorInvalidArgument;

  Process* all = nullptr;
  unsigned room = 64, found = 0;
  int result = kErrorInsufficientSize;
  // Processes come and go between two questions, so a list that has grown is asked for again.
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
  if (ledger::Book* book = open_book(); book != nullptr) book->denials().note_unlisted(name);
}

}  // namespace ration::shim

using namespace ration::shim;

#define RATION_EXPORT extern "C" [[gnu::visibility("default")]]

// The one function that returns a text, so no number can stand in for it.
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
