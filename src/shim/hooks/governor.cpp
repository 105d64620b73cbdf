#include "shim/hooks/governor.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "base/clock.hpp"
#include "shim/environment.hpp"
#include "shim/hooks/after_fork.hpp"
#include "shim/hooks/graphs.hpp"
#include "shim/hooks/hooks.hpp"
#include "shim/hooks/shares.hpp"
#include "shim/hooks/table.hpp"
#include "shim/unlisted.hpp"

namespace ration::shim {
namespace {

enum class Mode : int { kNotAsked, kUngoverned, kGoverned, kBookUnusable };

constexpr std::uint32_t kNotAsked = kNoAccount - 1;

/// What only this very process has decided. It stands in a page of its own that the kernel fills with zeros in every
/// child, also in one made by the clone system call itself, of which no handler of the C library hears.
struct Decision {
  std::atomic<Mode> mode{Mode::kNotAsked};
  SpinLock starting;
};
static_assert(static_cast<int>(Mode::kNotAsked) == 0);

// Everything the hooks share. Never destroyed: the CUDA runtime calls the driver from its own atexit handlers.
struct State {
  Decision* decision = nullptr;
  Decision fallback;  // for kernels before 4.14, where only children of fork() are seen
  ledger::Book book;
  bool started = false;  // by this process or by the one that it was copied from
  std::atomic<std::uint32_t> account_of_device[kMaxDevices];
  std::atomic<std::uint32_t> places_epoch{1};
};

alignas(State) unsigned char state_storage[sizeof(State)];
State& state() noexcept { return *std::launder(reinterpret_cast<State*>(state_storage)); }

// A child holds nothing and must not speak in its parent's name.
void forget_parent() noexcept {
  state().book.processes().forget_slot();
  forget_places();
  AfterFork::run();
}

void decide_again() noexcept {
  Decision& decision = *state().decision;
  decision.starting.unlock();
  decision.mode.store(Mode::kNotAsked, std::memory_order_release);
}

// Zero-initialised storage would do for all but the device map; filled here, before any hook can run.
[[gnu::constructor(101)]] void make_state() noexcept {
  auto* made = new (state_storage) State;
  for (auto& account : made->account_of_device) account.store(kNotAsked, std::memory_order_relaxed);
  const auto page_size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* page = ::mmap(nullptr, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page != MAP_FAILED && ::madvise(page, page_size, MADV_WIPEONFORK) == 0) {
    made->decision = new (page) Decision;
  } else {
    made->decision = &made->fallback;
    ::pthread_atfork(nullptr, nullptr, decide_again);
  }
}

Mode start() noexcept {
  State& shared = state();
  Decision& decision = *shared.decision;
  const SpinGuard guard(decision.starting);
  if (const Mode mode = decision.mode.load(std::memory_order_acquire); mode != Mode::kNotAsked) return mode;
  if (std::exchange(shared.started, true)) forget_parent();
  Mode mode = Mode::kUngoverned;
  if (environment().governed) {
    const bool opened =
        shared.book.is_open() || ledger::Book::open(environment().book, shared.book) == ledger::BookStatus::kOk;
    mode = opened && shared.book.processes().attach() ? Mode::kGoverned : Mode::kBookUnusable;
  }
  decision.mode.store(mode, std::memory_order_release);
  return mode;
}

Mode mode_now() noexcept {
  const Mode mode = state().decision->mode.load(std::memory_order_acquire);
  return mode == Mode::kNotAsked ? start() : mode;
}

// Nobody announces a process that was killed, so a waiter looks for the dead this often.
constexpr std::uint64_t kLookForDeadNs = 100'000'000;

std::uint64_t free_on_device() noexcept {
  std::size_t available = 0;
  std::size_t total = 0;
  const auto result = real<cuda::cuMemGetInfo_v2_t>(Symbol::cuMemGetInfo_v2)(&available, &total);
  return result == cuda::CUDA_SUCCESS ? available : ledger::kUnknownBytes;
}

void sleep_for_change(std::uint32_t seen, std::uint64_t timeout_ns) noexcept {
  LeftWhileAsleep::leave_all();
  state().book.waiting().wait_for_change(seen, timeout_ns);
  LeftWhileAsleep::return_to_all();
}

bool charge_after_refresh(std::uint32_t account, Bytes size, Kind kind) noexcept {
  if (state().book.waiting().others_come_first(account)) return false;  // nothing is lacking but the turn
  refresh_pools();
  refresh_graph_pools();
  state().book.shared_memory().settle();
  if (admit_quietly(account, size, kind)) return true;
  state().book.processes().reap();
  if (admit_quietly(account, size, kind)) return true;
  trim_pools();
  trim_graph_pools();
  if (admit_quietly(account, size, kind)) return true;
  evict_managed(account, size);
  return admit_quietly(account, size, kind);
}

// Where the daemon divides what a tenant or a device has left, it raises a limit when somebody waits for it, at one of
// its next looks.
constexpr std::uint64_t kDaemonsTurnNs = 2'000'000'000;

// How long a charge that is over the limit may sleep. What is beyond all limits never fits: waiting for it would be for
// ever.
std::uint64_t patience_for(std::uint32_t account, Bytes size) noexcept {
  const ledger::Account wanted = state().book.account(account);
  const Bytes ceiling = wanted.ceiling();
  if (size > ceiling) return 0;
  if (const auto settings = state().book.settings(); settings.on_deny == ledger::OnDeny::kWait) return settings.wait_ns;
  const bool could_be_raised = ceiling > wanted.limits().binding() && wanted.used() + size <= ceiling;
  return could_be_raised ? kDaemonsTurnNs : 0;
}

// Returns whether `size` bytes fit once enough comes back. Only then does a waiting request keep others behind it.
bool refunds_can_do(std::uint32_t account, Bytes size) noexcept {
  const ledger::Account wanted = state().book.account(account);
  return state().book.settings().on_deny == ledger::OnDeny::kWait &&
         size + wanted.unrequested() <= wanted.limits().binding();
}

// Sleeps until the charge succeeds or the patience ends, which it does earlier when the daemon has looked and has no
// more to give. Returns the time waited in `waited_ns`.
bool charge_after_waiting(std::uint32_t account, Bytes size, Kind kind, std::uint64_t& waited_ns) noexcept {
  const ledger::Waiting waiting = state().book.waiting();
  const std::uint64_t started = monotonic_time_ns();
  bool granted = false;
  waiting.begin(account, size);
  {
    ledger::PlaceInLine place = waiting.place_in_line(account);
    std::uint64_t patience_ns = patience_for(account, size);
    while (!granted && waited_ns < patience_ns) {
      if (refunds_can_do(account, size)) place.renew();
      const std::uint32_t seen = waiting.generation();
      granted = admit_quietly(account, size, kind);
      if (!granted) {
        sleep_for_change(seen, std::min(kLookForDeadNs, patience_ns - waited_ns));
        granted = charge_after_refresh(account, size, kind);
      }
      waited_ns = monotonic_time_ns() - started;
      patience_ns = patience_for(account, size);
    }
  }
  if (granted) waiting.count_granted();
  waiting.wake();  // for the next one in the line
  waiting.end();
  return granted;
}

[[gnu::noinline]] bool admit_slowly(std::uint32_t account, Bytes size, Kind kind, const char* function) noexcept {
  ledger::Book& own_book = state().book;
  if (mode_now() == Mode::kBookUnusable) return false;
  if (account == kNoAccount) {
    own_book.denials().record(own_book.account_count(), size, ledger::DenialReason::kNoAccount, function,
                              free_on_device(), 0);
    return false;
  }
  if (charge_after_refresh(account, size, kind)) return true;
  std::uint64_t waited_ns = 0;
  if (patience_for(account, size) > 0 && charge_after_waiting(account, size, kind, waited_ns)) return true;
  {  // what fits is not denied for another's turn, also of one that left the line since it was asked last
    const ledger::PastTheLine past;
    if (charge_after_refresh(account, size, kind)) return true;
  }
  own_book.denials().record(account, size, ledger::DenialReason::kLimit, function, free_on_device(), waited_ns);
  return false;
}

/// Returns what the driver says where there is no such device.
cuda::CUresult record_not_granted(cuda::CUdevice device, Bytes size, const char* function) noexcept {
  ledger::Book& own_book = state().book;
  ledger::DeviceUuid uuid;
  if (const cuda::CUresult result = uuid_of(device, uuid); result != cuda::CUDA_SUCCESS) return result;
  own_book.denials().record(own_book.account_count(), size, ledger::DenialReason::kNoAccount, function,
                            ledger::kUnknownBytes, 0, uuid);
  return cuda::CUDA_SUCCESS;
}

struct PlaceCache {
  cuda::CUcontext handle = nullptr;
  Place place;
};
thread_local PlaceCache place_cache;
thread_local Bytes raised_from;  // the peak before this thread's last charge; kUnlimited: that raised none

}  // namespace

thread_local LeftWhileAsleep* LeftWhileAsleep::newest = nullptr;

LeftWhileAsleep::LeftWhileAsleep(Step leave, Step come_back) noexcept
    : leave_(leave), come_back_(come_back), outer_(std::exchange(newest, this)) {}
LeftWhileAsleep::~LeftWhileAsleep() { newest = outer_; }

void LeftWhileAsleep::leave_all() noexcept {
  for (const LeftWhileAsleep* lock = newest; lock != nullptr; lock = lock->outer_) lock->leave_();
}
void LeftWhileAsleep::return_to_all() noexcept {
  for (const LeftWhileAsleep* lock = newest; lock != nullptr; lock = lock->outer_) lock->come_back_();
}

bool governed() noexcept { return mode_now() != Mode::kUngoverned; }
bool book_usable() noexcept { return mode_now() == Mode::kGoverned; }
ledger::Book& book() noexcept { return state().book; }

void note(Unmovable what) noexcept {
  if (governed()) book().processes().note(what);
}

cuda::CUresult uuid_of(cuda::CUdevice device, ledger::DeviceUuid& out) noexcept {
  cuda::CUuuid uuid{};
  const Symbol newest = has_real(Symbol::cuDeviceGetUuid_v2) ? Symbol::cuDeviceGetUuid_v2 : Symbol::cuDeviceGetUuid;
  const cuda::CUresult result = real<cuda::cuDeviceGetUuid_t>(newest)(&uuid, device);
  std::copy_n(reinterpret_cast<const std::uint8_t*>(uuid.bytes), out.size(), out.begin());
  return result;
}

bool is_device(cuda::CUdevice device) noexcept {
  ledger::DeviceUuid uuid;
  return uuid_of(device, uuid) == cuda::CUDA_SUCCESS;
}

std::uint32_t account_of(cuda::CUdevice device) noexcept {
  if (device < 0 || device >= kMaxDevices || !book_usable()) return kNoAccount;
  auto& known = state().account_of_device[device];
  std::uint32_t account = known.load(std::memory_order_relaxed);
  if (account != kNotAsked) return account;
  ledger::DeviceUuid uuid;
  if (uuid_of(device, uuid) != cuda::CUDA_SUCCESS) return kNoAccount;
  account = state().book.find_account(uuid);
  if (account == state().book.account_count()) account = kNoAccount;
  known.store(account, std::memory_order_relaxed);
  return account;
}

Place current_place() noexcept {
  cuda::CUcontext handle = nullptr;
  if (real<cuda::cuCtxGetCurrent_t>(Symbol::cuCtxGetCurrent)(&handle) != cuda::CUDA_SUCCESS || handle == nullptr)
    return Place{};
  const std::uint32_t epoch = state().places_epoch.load(std::memory_order_acquire);
  if (handle == place_cache.handle && place_cache.place.epoch == epoch) [[likely]]
    return place_cache.place;
  Place place;
  place.epoch = epoch;
  cuda::CUdevice device = -1;
  const bool known = real<cuda::cuCtxGetDevice_t>(Symbol::cuCtxGetDevice)(&device) == cuda::CUDA_SUCCESS;
  if (known) {
    place.account = account_of(device);
    adopt_context(handle, device, place.account);
  }
  place.context = context_number(handle);
  if (known) place_cache = {handle, place};
  return place;
}

cuda::CUresult refuse_context(cuda::CUdevice device, const char* function) noexcept {
  const cuda::CUresult result = record_not_granted(device, kGranule, function);
  return result == cuda::CUDA_SUCCESS ? cuda::CUDA_ERROR_DEVICE_UNAVAILABLE : result;
}

void forget_places() noexcept { state().places_epoch.fetch_add(1); }

bool contexts_changed_since(const Place& place) noexcept { return state().places_epoch.load() != place.epoch; }

bool admit_quietly(std::uint32_t account, Bytes size, Kind kind) noexcept {
  raised_from = kUnlimited;
  return account != kNoAccount &&
         state().book.account(account).charge(size, kind, &raised_from) == ledger::Charged::kGranted;
}

bool admit_given(std::uint32_t account, Bytes size, Kind kind) noexcept {
  const ledger::PastTheLine past;
  return admit_quietly(account, size, kind);
}

bool admit(std::uint32_t account, Bytes size, Kind kind, const char* function) noexcept {
  return admit_quietly(account, size, kind) || admit_slowly(account, size, kind, function);
}

bool admit_on(cuda::CUdevice device, Bytes size, Kind kind, const char* function) noexcept {
  const std::uint32_t account = account_of(device);
  if (account == kNoAccount && book_usable() && record_not_granted(device, size, function) == cuda::CUDA_SUCCESS)
    return false;
  return admit(account, size, kind, function);
}

void give_back(std::uint32_t account, Bytes size, Kind kind) noexcept {
  if (account != kNoAccount && size > Bytes{0}) state().book.account(account).refund(size, kind);
}

void take_back(std::uint32_t account, Bytes size, Kind kind) noexcept { take_back(account, size, kind, raised_from); }

void take_back(std::uint32_t account, Bytes size, Kind kind, Bytes peak_before) noexcept {
  if (account != kNoAccount && size > Bytes{0}) state().book.account(account).undo(size, kind, peak_before);
}

Bytes peak_before_admission() noexcept { return raised_from; }

void deny_for_table(std::uint32_t account, Bytes size, const char* function, std::uint64_t entries) noexcept {
  state().book.denials().record(account, size, ledger::DenialReason::kTableFull, function, ledger::kUnknownBytes, 0, {},
                                ledger::Denials::Amount{Bytes{entries}, Bytes{entries}});
}

bool device_was_full(std::uint32_t account, Bytes size, const char* function, std::uint64_t& started_ns) noexcept {
  ledger::Book& own_book = state().book;
  if (!book_usable()) return false;
  const std::uint64_t now = monotonic_time_ns();
  if (started_ns == 0) started_ns = now;
  const std::uint64_t waited = now - started_ns;
  const ledger::Book::Settings settings = own_book.settings();
  if (settings.on_deny == ledger::OnDeny::kWait && waited < settings.wait_ns) {
    const ledger::Waiting waiting = own_book.waiting();
    waiting.begin(account, size);
    sleep_for_change(waiting.generation(), std::min(kLookForDeadNs, settings.wait_ns - waited));
    waiting.end();
    return true;
  }
  own_book.denials().record(account, size, ledger::DenialReason::kDeviceFull, function, free_on_device(), waited);
  return false;
}

void note_unlisted(const char* name) noexcept {
  if (book_usable()) book().denials().note_unlisted(name);
}

}  // namespace ration::shim
