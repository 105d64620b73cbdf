// Who decides, inside a governed process: the workload's book, the devices it grants, and the one way to be admitted.
// Used by every hook. Promises: nothing before the first driver call; no thread, no signal handler, no output; a
// process whose book cannot be used is denied all memory rather than given it unlimited.
#pragma once

#include <cstdint>

#include "base/bytes.hpp"
#include "driver/cuda_abi.hpp"
#include "ledger/book.hpp"
#include "shim/real.hpp"

namespace ration::shim {

using ledger::Kind;
using ledger::ManagedPolicy;
using ledger::Unmovable;

/// No account: the workload was not given that device, so nothing may be taken there.
inline constexpr std::uint32_t kNoAccount = ~std::uint32_t{0};

/// Ordinals of devices are below this.
inline constexpr cuda::CUdevice kMaxDevices = 64;

/// Whether this process runs under a limit. Opens the book and takes a slot the first time.
[[nodiscard]] bool governed() noexcept;

/// Whether the book could be opened and a slot taken. Only meaningful when governed().
[[nodiscard]] bool book_usable() noexcept;

[[nodiscard]] ledger::Book& book() noexcept;

/// This process is about to have such memory: the daemon does not suspend it from now on where the driver could lose
/// it.
void note(Unmovable what) noexcept;

/// Where an allocation goes that names no device: the calling thread's current context.
struct Place {
  std::uint64_t context = 0;  // never given twice, unlike the driver's handles; 0: there is none
  std::uint32_t account = kNoAccount;
  std::uint32_t epoch = 0;
  Kind kind = Kind::kHeap;  // what a block there is charged as; one of managed memory shares no granule with plain ones
};
[[nodiscard]] Place current_place() noexcept;

/// Whether a context of this process was made or ended since `place` was asked for.
[[nodiscard]] bool contexts_changed_since(const Place& place) noexcept;

/// Of a MIG instance its own, where the driver says it.
[[nodiscard]] cuda::CUresult uuid_of(cuda::CUdevice device, ledger::DeviceUuid& out) noexcept;

/// The account of a device by its ordinal in this process, or kNoAccount.
[[nodiscard]] std::uint32_t account_of(cuda::CUdevice device) noexcept;

/// Whether the driver is initialised and has a device of that ordinal; else it says what is wrong, and takes nothing.
[[nodiscard]] bool is_device(cuda::CUdevice device) noexcept;

/// Records that no context may be made on a device without an account. Returns the driver's word for a device on which
/// this process may have none, or what is wrong with the ordinal.
[[nodiscard]] cuda::CUresult refuse_context(cuda::CUdevice device, const char* function) noexcept;

/// A context came or went: its address may come back for another device.
void forget_places() noexcept;

/// Enters `size` bytes, or records a denial. Before it denies, stale entries are cleared: pools are read again and
/// trimmed, dead processes reaped; and where the workload asked to wait, it waits.
[[nodiscard]] bool admit(std::uint32_t account, Bytes size, Kind kind, const char* function) noexcept;

/// As admit(), on a device that may not be the current context's. The denial names it where it was not granted.
[[nodiscard]] bool admit_on(cuda::CUdevice device, Bytes size, Kind kind, const char* function) noexcept;

/// Enters `size` bytes if they fit right now; records nothing.
[[nodiscard]] bool admit_quietly(std::uint32_t account, Bytes size, Kind kind) noexcept;

/// As admit_quietly(), of what the driver has given already: it needs no turn.
[[nodiscard]] bool admit_given(std::uint32_t account, Bytes size, Kind kind) noexcept;

void give_back(std::uint32_t account, Bytes size, Kind kind = Kind::kHeap) noexcept;

/// A lock that its thread gives up while a request of that thread sleeps for memory, so that others may free some.
/// What the lock protects may be another afterwards.
class LeftWhileAsleep {
 public:
  LeftWhileAsleep(const LeftWhileAsleep&) = delete;
  LeftWhileAsleep& operator=(const LeftWhileAsleep&) = delete;

  static void leave_all() noexcept;
  static void return_to_all() noexcept;

 protected:
  using Step = void (*)() noexcept;
  LeftWhileAsleep(Step leave, Step come_back) noexcept;
  ~LeftWhileAsleep();

 private:
  static thread_local LeftWhileAsleep* newest;
  Step leave_, come_back_;
  LeftWhileAsleep* outer_;
};

/// The driver did not give what this thread was admitted last: it counts as never held.
void take_back(std::uint32_t account, Bytes size, Kind kind = Kind::kHeap) noexcept;
/// The same where this thread was admitted something else since. `peak_before`: as peak_before_admission() said then.
void take_back(std::uint32_t account, Bytes size, Kind kind, Bytes peak_before) noexcept;
/// The account's peak before this thread's last admission; kUnlimited: that raised none.
[[nodiscard]] Bytes peak_before_admission() noexcept;

/// Records that `size` bytes were denied because a table of the guard has `entries` entries, and all are in use.
void deny_for_table(std::uint32_t account, Bytes size, const char* function, std::uint64_t entries) noexcept;

/// The driver itself refused bytes that the book had granted. Records it; true: the workload asked to wait and memory
/// may have come back, so the call is worth repeating. `started_ns` is 0 at the first refusal of a call.
[[nodiscard]] bool device_was_full(std::uint32_t account, Bytes size, const char* function,
                                   std::uint64_t& started_ns) noexcept;

/// Repeats `attempt` while the device itself refuses what the book granted and the workload asked to wait for that.
/// An attempt sets its argument to what the device refused.
template <typename Attempt>
cuda::CUresult while_device_is_full(std::uint32_t account, const char* function, Attempt&& attempt) noexcept {
  std::uint64_t waiting_since = 0;
  for (;;) {
    Bytes refused;
    const cuda::CUresult result = attempt(refused);
    if (refused > Bytes{0} && device_was_full(account, refused, function, waiting_since)) continue;
    if (result == cuda::CUDA_SUCCESS && waiting_since != 0) book().waiting().count_granted();
    return result;
  }
}

/// Admission around one driver call that takes `size` bytes: charge, call, refund if the driver refuses.
template <typename Call>
cuda::CUresult charged(std::uint32_t account, Bytes size, Kind kind, const char* function, Call&& call) noexcept {
  return while_device_is_full(account, function, [&](Bytes& refused) {
    if (!admit(account, size, kind, function)) return cuda::CUDA_ERROR_OUT_OF_MEMORY;
    const cuda::CUresult result = call();
    if (result != cuda::CUDA_SUCCESS) take_back(account, size, kind);
    if (result == cuda::CUDA_ERROR_OUT_OF_MEMORY) refused = size;
    return result;
  });
}

}  // namespace ration::shim
