// The decisions inside a governed process: whether it is governed, which devices its book grants, and whether a request
// for memory is admitted. Used by every hook. Promises: nothing happens before the first driver call; no thread, no
// signal handler, no output; a process whose book cannot be used is denied all memory rather than left without a limit.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.hpp"
#include "book/book.hpp"
#include "driver/cuda_abi.hpp"
#include "guard/real.hpp"

namespace ration::guard {

using book::kHostAccount;
using book::Kind;
using book::ManagedPolicy;
using book::Unmovable;

/// Returns true if the book counts pinned host memory (in the account kHostAccount). Also returns true if the book
/// cannot be used; the account then admits nothing.
[[nodiscard]] bool counts_host() noexcept;

/// The account of a device that the workload was not granted; nothing may be taken there.
inline constexpr std::uint32_t kNoAccount = ~std::uint32_t{0};

/// Every device ordinal is below this number.
inline constexpr cuda::CUdevice kMaxDevices = 64;

/// Returns true if this process runs under a limit. Opens the book and takes a slot at the first call.
[[nodiscard]] bool governed() noexcept;

/// Returns true if the book could be opened and a slot taken. Only meaningful when governed().
[[nodiscard]] bool book_usable() noexcept;

[[nodiscard]] book::Book& book() noexcept;

/// Makes the folder and begins a recording in it, of this process and of the processes that it forks; null ends the
/// recording. Memory that is held already is recorded as charges without a request. These are exact if no other thread
/// takes memory at this moment. Returns 0 or the errno value of a failure: ENOTSUP if the process is not governed,
/// EBUSY if it is recorded already.
[[nodiscard]] int record_to(const char* folder) noexcept;

/// Records that this process is about to have memory of that kind. From then on the daemon does not suspend the process
/// if the driver could lose such memory.
void note(Unmovable what) noexcept;

/// The place of an allocation that names no device: the calling thread's current context.
struct Place {
  std::uint64_t context = 0;  // a number that is never reused, unlike the driver's handles; 0 without a context
  std::uint32_t account = kNoAccount;
  std::uint32_t epoch = 0;
  Kind kind = Kind::kHeap;  // the kind of a block's charge; managed memory shares no granule with plain memory
};
[[nodiscard]] Place current_place() noexcept;

/// Returns true if a context of this process was made or ended since `place` was read.
[[nodiscard]] bool contexts_changed_since(const Place& place) noexcept;

/// Reads the UUID of a device. For a MIG instance, reads the instance's own UUID if the driver reports it.
[[nodiscard]] cuda::CUresult uuid_of(cuda::CUdevice device, book::DeviceUuid& out) noexcept;

/// Returns the account of the device with that ordinal in this process, or kNoAccount.
[[nodiscard]] std::uint32_t account_of(cuda::CUdevice device) noexcept;

/// Returns true if the driver is initialised and has that device. If not, the driver itself rejects calls for the
/// device.
[[nodiscard]] bool is_device(cuda::CUdevice device) noexcept;

/// Records that a context was denied on a device without an account. Returns the error for a device on which this
/// process may have no context, or the driver's error for a bad ordinal.
[[nodiscard]] cuda::CUresult deny_context(cuda::CUdevice device, const char* function) noexcept;

/// Forgets cached places after a context was made or ended, because the driver may reuse the context's address for a
/// context on another device.
void forget_places() noexcept;

/// Enters `size` bytes, or records a denial. Before a denial it clears stale entries (reads and trims pools, reaps dead
/// processes), and waits if the workload is set to wait.
[[nodiscard]] bool admit(std::uint32_t account, Bytes size, Kind kind, const char* function) noexcept;

/// Admits like admit(), but on any device, not only the current context's. The denial for a device that was not granted
/// names that device.
[[nodiscard]] bool admit_on(cuda::CUdevice device, Bytes size, Kind kind, const char* function) noexcept;

/// Enters `size` bytes if they fit now; records nothing.
[[nodiscard]] bool admit_quietly(std::uint32_t account, Bytes size, Kind kind) noexcept;

/// Admits memory that the driver has given already. This works like admit_quietly(), but does not yield to waiting
/// threads.
[[nodiscard]] bool admit_given(std::uint32_t account, Bytes size, Kind kind) noexcept;

void give_back(std::uint32_t account, Bytes size, Kind kind = Kind::kHeap) noexcept;

/// A lock that its thread releases while the thread's request sleeps for memory, so that other threads can free memory.
/// The protected state may have changed when the request goes on.
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

/// Takes back this thread's last admission, because the driver did not give the memory. The memory then counts as never
/// held.
void take_back(std::uint32_t account, Bytes size, Kind kind = Kind::kHeap) noexcept;
/// Takes back an earlier admission of this thread. `peak_before` is the result of peak_before_admission() right after
/// that admission.
void take_back(std::uint32_t account, Bytes size, Kind kind, Bytes peak_before) noexcept;
/// Returns the account's peak before this thread's last admission, or kUnlimited if the admission raised no peak.
[[nodiscard]] Bytes peak_before_admission() noexcept;

/// Records a denial in the book, and in the recording if there is one. The arguments are those of Denials::record().
void deny(std::uint32_t account, Bytes size, book::DenialReason reason, const char* function, std::uint64_t device_free,
          std::uint64_t waited_ns = 0, const book::DeviceUuid& device = {},
          const std::optional<book::Denials::Amount>& instead = {}) noexcept;

/// Records that `size` bytes were denied because all `entries` entries of a table of the guard are in use.
void deny_for_table(std::uint32_t account, Bytes size, const char* function, std::uint64_t entries) noexcept;

/// Handles a driver call that failed because the device lacked bytes which the book had granted. If the workload is set
/// to wait, sleeps until memory may have come back and returns true, so that the call is repeated; otherwise records a
/// denial and returns false. `started_ns` must be 0 at the first such failure of a call.
[[nodiscard]] bool device_was_full(std::uint32_t account, Bytes size, const char* function,
                                   std::uint64_t& started_ns) noexcept;

/// Calls `attempt`, and repeats it as long as the device lacks bytes which the book granted and the workload is set to
/// wait. An attempt sets its argument to the number of bytes that the device lacked.
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

/// Admits one driver call that takes `size` bytes: charges, calls, and refunds if the driver fails.
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

}  // namespace ration::guard
