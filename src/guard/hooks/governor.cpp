#include "guard/hooks/governor.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <new>
#include <utility>

#include "base/clock.hpp"
#include "guard/environment.hpp"
#include "guard/hooks/after_fork.hpp"
#include "guard/hooks/graphs.hpp"
#include "guard/hooks/hooks.hpp"
#include "guard/hooks/shares.hpp"
#include "guard/hooks/table.hpp"
#include "guard/recorder/own_folder.hpp"
#include "guard/recorder/recorder.hpp"
#include "guard/recorder/ticks.hpp"
#include "guard/unlisted.hpp"

namespace ration::guard {
namespace {

enum class Mode : int { kNotAsked, kUngoverned, kGoverned, kBookUnusable };

constexpr std::uint32_t kNotAsked = kNoAccount - 1;

/// The decision whether this process is governed. It lies in a page that the kernel fills with zeros in every child. So
/// a child decides anew even if the clone system call made it; that call runs no fork handler of the C library.
struct Decision {
  std::atomic<Mode> mode{Mode::kNotAsked};
  SpinLock starting;
};
static_assert(static_cast<int>(Mode::kNotAsked) == 0);

// The state that all hooks share. It is never destroyed, because the CUDA runtime calls the driver from its own atexit
// handlers.
struct State {
  Decision* decision = nullptr;
  Decision fallback;  // used on kernels before 4.14, where only children of fork() are noticed
  book::Book book;
  bool started = false;  // true once this process, or the process that forked it, has decided
  std::atomic<std::uint32_t> account_of_device[kMaxDevices];
  std::atomic<std::uint32_t> places_epoch{1};
};

alignas(State) unsigned char state_storage[sizeof(State)];
State& state() noexcept { return *std::launder(reinterpret_cast<State*>(state_storage)); }

/// A recording that this process makes of itself.
struct OwnRecording {
  SpinLock lock;
  bool is_open = false;
  Anchor began{};
};
OwnRecording own_recording;

// Forgets the parent's holdings: a child holds nothing and must not act for its parent.
void forget_parent() noexcept {
  state().book.processes().forget_slot();
  forget_places();
  forget_recording();
  own_recording.is_open = false;
  own_recording.lock.unlock();
  AfterFork::run();
}

std::atomic<std::uint64_t> limit_changes_seen{0};

/// Records the limits that were changed since the last event. A change is noticed at the next event of any thread.
[[gnu::noinline]] void record_changed_limits() noexcept {
  const book::Book& own_book = state().book;
  static std::atomic<std::uint64_t> known[book::kHostAccount + 1];
  std::uint64_t seen = limit_changes_seen.load(std::memory_order_relaxed);
  if (!limit_changes_seen.compare_exchange_strong(seen, own_book.limit_changes())) return;
  for (std::uint32_t account = 0; account < own_book.account_count(); ++account) {
    const Bytes limit = own_book.account(account).limits().given;
    if (known[account].exchange(limit.count()) != limit.count())
      Recorded::note(trace::Kind::kLimitChanged, account, limit.count(), 0);
  }
}

void follow_limits() noexcept {
  if (state().book.limit_changes() != limit_changes_seen.load(std::memory_order_relaxed)) [[unlikely]]
    record_changed_limits();
}

void record_charge(std::uint32_t account, std::int64_t bytes, Kind kind, bool common) noexcept {
  follow_limits();
  Recorded::charged(account, bytes, kind, common);
}

/// Records the end of a process. Does nothing while nothing is recorded.
void record_death(std::int32_t pid) noexcept {
  if (pid != ::getpid())  // this process gives up its own slot, too
    Recorded::note(trace::Kind::kProcessEnded, kNoAccount, 0, static_cast<std::uint64_t>(pid));
}

int record_from_now() noexcept {
  State& shared = state();
  RecordedDevices devices;
  for (; devices.count < shared.book.account_count(); ++devices.count)
    devices.uuids[devices.count] = shared.book.account(devices.count).device().uuid;
  const int error = begin_recording(devices, false);
  shared.book.listen(recording() ? record_charge : nullptr, record_death);
  return error;
}

/// Records what this process holds, so that the charges in its recording add up to those in the book.
void record_holdings() noexcept {
  book::Book& own_book = state().book;
  const auto record = [&](std::uint32_t account) {
    const auto held = own_book.processes().own_holdings(account);
    const Bytes other = held.all - held.contexts - held.pools - held.managed;
    for (const auto& [kind, bytes] : {std::pair{Kind::kContext, held.contexts},
                                      {Kind::kPool, held.pools},
                                      {Kind::kManaged, held.managed},
                                      {Kind::kHeap, other}})
      if (bytes > Bytes{0}) Recorded::held_before(account, static_cast<std::int64_t>(bytes.count()), kind);
  };
  for (std::uint32_t account = 0; account < own_book.account_count(); ++account) record(account);
  if (own_book.counts_host()) record(kHostAccount);
}

void decide_again() noexcept {
  Decision& decision = *state().decision;
  decision.starting.unlock();
  decision.mode.store(Mode::kNotAsked, std::memory_order_release);
}

// Fills the state before any hook can run. Only the device map must be filled; zeros are right for everything else.
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
        shared.book.is_open() || book::Book::open(environment().book, shared.book) == book::BookStatus::kOk;
    mode = opened && shared.book.processes().attach() ? Mode::kGoverned : Mode::kBookUnusable;
    if (mode == Mode::kGoverned) record_from_now();
  }
  decision.mode.store(mode, std::memory_order_release);
  return mode;
}

Mode mode_now() noexcept {
  const Mode mode = state().decision->mode.load(std::memory_order_acquire);
  return mode == Mode::kNotAsked ? start() : mode;
}

// The interval at which a waiter looks for dead processes, since a killed process sends no notice.
constexpr std::uint64_t kLookForDeadNs = 100'000'000;

std::uint64_t free_on_device() noexcept {
  std::size_t available = 0;
  std::size_t total = 0;
  const auto result = real<cuda::cuMemGetInfo_v2_t>(Symbol::cuMemGetInfo_v2)(&available, &total);
  return result == cuda::CUDA_SUCCESS ? available : book::kUnknownBytes;
}

void sleep_for_change(std::uint32_t seen, std::uint64_t timeout_ns) noexcept {
  LeftWhileAsleep::leave_all();
  state().book.waiting().wait_for_change(seen, timeout_ns);
  LeftWhileAsleep::return_to_all();
}

bool charge_after_refresh(std::uint32_t account, Bytes size, Kind kind) noexcept {
  if (state().book.waiting().others_come_first(account)) return false;  // it is another thread's turn
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

// The time that a request waits for the daemon to raise the limit. A daemon that divides the free room of a tenant or
// device raises a waiting workload's limit within a few ticks.
constexpr std::uint64_t kDaemonsTurnNs = 2'000'000'000;

// Returns how long a charge over the limit may sleep. A charge larger than all limits never fits, so it does not wait.
std::uint64_t patience_for(std::uint32_t account, Bytes size) noexcept {
  const book::Account wanted = state().book.account(account);
  const Bytes ceiling = wanted.ceiling();
  if (size > ceiling) return 0;
  if (const auto settings = state().book.settings(); settings.on_deny == book::OnDeny::kWait) return settings.wait_ns;
  const bool could_be_raised = ceiling > wanted.limits().binding() && wanted.used() + size <= ceiling;
  return could_be_raised ? kDaemonsTurnNs : 0;
}

// Returns true if the workload is set to wait and `size` bytes fit once enough other bytes come back. Only then do
// later requests have to queue behind this one.
bool refunds_can_do(std::uint32_t account, Bytes size) noexcept {
  const book::Account wanted = state().book.account(account);
  return state().book.settings().on_deny == book::OnDeny::kWait &&
         size + wanted.unrequested() <= wanted.limits().binding();
}

// Sleeps until the charge succeeds or the time of patience_for() is over. That time becomes 0 once a tick of the daemon
// shows that the limit will not be raised. Stores the time waited in `waited_ns`.
bool charge_after_waiting(std::uint32_t account, Bytes size, Kind kind, std::uint64_t& waited_ns) noexcept {
  const book::Waiting waiting = state().book.waiting();
  const std::uint64_t started = monotonic_time_ns();
  bool granted = false;
  waiting.begin(account, size);
  {
    book::PlaceInLine place = waiting.place_in_line(account);
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
  waiting.wake();  // wakes the next in line
  waiting.end();
  return granted;
}

[[gnu::noinline]] bool admit_slowly(std::uint32_t account, Bytes size, Kind kind, const char* function) noexcept {
  book::Book& own_book = state().book;
  if (mode_now() == Mode::kBookUnusable) return false;
  if (account == kNoAccount) {
    deny(own_book.account_count(), size, book::DenialReason::kNoAccount, function, free_on_device());
    return false;
  }
  if (charge_after_refresh(account, size, kind)) return true;
  std::uint64_t waited_ns = 0;
  const bool granted = patience_for(account, size) > 0 && charge_after_waiting(account, size, kind, waited_ns);
  if (waited_ns > 0) Recorded::note(trace::Kind::kWaited, account, size.count(), waited_ns / kMillisecond);
  if (granted) return true;
  {  // so that a request that fits is not denied because of the turn of another thread
    const book::PastTheLine past;
    if (charge_after_refresh(account, size, kind)) return true;
  }
  const bool of_host = account == kHostAccount;
  deny(account, size, of_host ? book::DenialReason::kHostLimit : book::DenialReason::kLimit, function,
       of_host ? book::kUnknownBytes : free_on_device(), waited_ns);
  return false;
}

/// Records the denial of a request on a device without an account. If the device does not exist, records nothing and
/// returns the driver's error.
cuda::CUresult record_not_granted(cuda::CUdevice device, Bytes size, const char* function) noexcept {
  book::Book& own_book = state().book;
  book::DeviceUuid uuid;
  if (const cuda::CUresult result = uuid_of(device, uuid); result != cuda::CUDA_SUCCESS) return result;
  deny(own_book.account_count(), size, book::DenialReason::kNoAccount, function, book::kUnknownBytes, 0, uuid);
  return cuda::CUDA_SUCCESS;
}

struct PlaceCache {
  cuda::CUcontext handle = nullptr;
  Place place;
};
thread_local PlaceCache place_cache;
thread_local Bytes raised_from;  // the peak before this thread's last charge; kUnlimited if the charge raised no peak

}  // namespace

int record_to(const char* folder) noexcept {
  if (mode_now() != Mode::kGoverned) return ENOTSUP;
  const SpinGuard guard(own_recording.lock);
  book::Book& own_book = state().book;
  const auto note = [&](const char* of, const Anchor& ended) {
    return note_own_run(of, own_book, own_recording.began, ended);
  };
  if (folder == nullptr) {
    if (!std::exchange(own_recording.is_open, false)) return 0;
    own_book.listen(nullptr, record_death);
    end_recording();
    const int error = note(environment().record, anchor_now());
    set_record_folder("");
    return error;
  }
  if (recording()) return EBUSY;
  own_recording.began = anchor_now();
  int error = make_own_folder(folder);
  if (error == 0) error = note(folder, {});
  if (error != 0) return error;
  set_record_folder(folder);
  error = record_from_now();
  own_recording.is_open = error == 0;
  if (error == 0) {
    record_holdings();
  } else {
    own_book.listen(nullptr, record_death);
    end_recording();
    set_record_folder("");
  }
  return error;
}

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
book::Book& book() noexcept { return state().book; }
bool counts_host() noexcept {
  const Mode mode = mode_now();
  return mode == Mode::kGoverned ? state().book.counts_host() : mode == Mode::kBookUnusable;
}

void deny(std::uint32_t account, Bytes size, book::DenialReason reason, const char* function, std::uint64_t device_free,
          std::uint64_t waited_ns, const book::DeviceUuid& device,
          const std::optional<book::Denials::Amount>& instead) noexcept {
  const std::uint64_t number =
      state().book.denials().record(account, size, reason, function, device_free, waited_ns, device, instead);
  if (recording()) follow_limits();
  Recorded::note(trace::Kind::kDenied, account, size.count(), number);
}

void note(Unmovable what) noexcept {
  if (governed()) book().processes().note(what);
}

cuda::CUresult uuid_of(cuda::CUdevice device, book::DeviceUuid& out) noexcept {
  cuda::CUuuid uuid{};
  const Symbol newest = has_real(Symbol::cuDeviceGetUuid_v2) ? Symbol::cuDeviceGetUuid_v2 : Symbol::cuDeviceGetUuid;
  const cuda::CUresult result = real<cuda::cuDeviceGetUuid_t>(newest)(&uuid, device);
  std::copy_n(reinterpret_cast<const std::uint8_t*>(uuid.bytes), out.size(), out.begin());
  return result;
}

bool is_device(cuda::CUdevice device) noexcept {
  book::DeviceUuid uuid;
  return uuid_of(device, uuid) == cuda::CUDA_SUCCESS;
}

std::uint32_t account_of(cuda::CUdevice device) noexcept {
  if (device < 0 || device >= kMaxDevices || !book_usable()) return kNoAccount;
  auto& known = state().account_of_device[device];
  std::uint32_t account = known.load(std::memory_order_relaxed);
  if (account != kNotAsked) return account;
  book::DeviceUuid uuid;
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
    enter_unseen_context(handle, device, place.account);
  }
  place.context = context_number(handle);
  if (known) place_cache = {handle, place};
  return place;
}

cuda::CUresult deny_context(cuda::CUdevice device, const char* function) noexcept {
  const cuda::CUresult result = record_not_granted(device, kGranule, function);
  return result == cuda::CUDA_SUCCESS ? cuda::CUDA_ERROR_DEVICE_UNAVAILABLE : result;
}

void forget_places() noexcept { state().places_epoch.fetch_add(1); }

bool contexts_changed_since(const Place& place) noexcept { return state().places_epoch.load() != place.epoch; }

bool admit_quietly(std::uint32_t account, Bytes size, Kind kind) noexcept {
  raised_from = kUnlimited;
  return account != kNoAccount &&
         state().book.account(account).charge(size, kind, &raised_from) == book::Charged::kGranted;
}

bool admit_given(std::uint32_t account, Bytes size, Kind kind) noexcept {
  const book::PastTheLine past;
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
  deny(account, size, book::DenialReason::kTableFull, function, book::kUnknownBytes, 0, {},
       book::Denials::Amount{Bytes{entries}, Bytes{entries}});
}

bool device_was_full(std::uint32_t account, Bytes size, const char* function, std::uint64_t& started_ns) noexcept {
  book::Book& own_book = state().book;
  if (!book_usable() || account == kHostAccount) return false;  // host memory is on no device
  const std::uint64_t now = monotonic_time_ns();
  if (started_ns == 0) started_ns = now;
  const std::uint64_t waited = now - started_ns;
  const book::Book::Settings settings = own_book.settings();
  if (settings.on_deny == book::OnDeny::kWait && waited < settings.wait_ns) {
    const book::Waiting waiting = own_book.waiting();
    waiting.begin(account, size);
    sleep_for_change(waiting.generation(), std::min(kLookForDeadNs, settings.wait_ns - waited));
    waiting.end();
    return true;
  }
  deny(account, size, book::DenialReason::kDeviceFull, function, free_on_device(), waited);
  return false;
}

void note_unlisted(const char* name) noexcept {
  if (book_usable()) book().denials().note_unlisted(name);
}

}  // namespace ration::guard
