#include "turnstile.hpp"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <new>

#include "base/system_calls.hpp"
#include "node_lock.hpp"
#include "steps.hpp"

namespace ration::sim {

/// An OwnProcess without a destructor, since other threads run while a program ends.
union BeforeStart {
  OwnProcess value;
  constexpr BeforeStart() : value{} {}
  ~BeforeStart() {}
};
static BeforeStart before_start;
OwnProcess* own_process = &before_start.value;

[[gnu::constructor(101)]] static void make_own_process() {
  const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* page = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page != MAP_FAILED && ::madvise(page, size, MADV_WIPEONFORK) == 0) own_process = new (page) OwnProcess{};
}

std::int32_t this_thread() {
  static thread_local const auto id = static_cast<std::int32_t>(this_thread_id());
  return id;
}

namespace {

// Waits while the word has that value. The futex is shared between processes, so it is not private.
void wait_while(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, nullptr, nullptr, 0);
}

/// Returns true if the mutex was taken, given the result of a function such as pthread_mutex_lock().
bool got(Turnstile& turnstile, int result) {
  if (result != EOWNERDEAD) return result == 0;
  // The holder that died was the turnstile's own process, which needs no care, or another process that was moving the
  // memory of the turnstile's process.
  ::pthread_mutex_consistent(&turnstile.mutex);
  if (turnstile.moving.exchange(0) != 0) set_state(turnstile, kFailed);
  return true;
}

}  // namespace

void make_turnstile(Turnstile& turnstile) {
  // The mutex has priority inheritance, because such a mutex is handed to a waiter when it is released. A mutex without
  // priority inheritance goes to the first thread that tries to take it.
  if (make_robust_mutex(turnstile.mutex, PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_INHERIT) != 0)
    make_robust_mutex(turnstile.mutex, PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE);
}

bool hold(Turnstile& turnstile, unsigned timeout_ms) {
  if (timeout_ms == 0) return got(turnstile, ::pthread_mutex_lock(&turnstile.mutex));
  const timespec until = time_in(timeout_ms);
  return got(turnstile, ::pthread_mutex_timedlock(&turnstile.mutex, &until));
}

bool try_hold(Turnstile& turnstile) { return got(turnstile, ::pthread_mutex_trylock(&turnstile.mutex)); }

void let_go(Turnstile& turnstile) { ::pthread_mutex_unlock(&turnstile.mutex); }

void set_state(Turnstile& turnstile, std::uint32_t state) {
  if (state == kRunning) turnstile.locker = 0;
  step();
  turnstile.state = state;
  step();
  ::syscall(SYS_futex, &turnstile.state, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool pass(Turnstile& turnstile) {
  for (std::uint32_t state = turnstile.state; state == kLocked || state == kCheckpointed; state = turnstile.state) {
    if (turnstile.locker == this_thread()) return false;
    wait_while(turnstile.state, state);
  }
  return true;
}

void Passage::enter() {
  Turnstile* own = own_process->turnstile;
  while (own != nullptr && held_ == nullptr) {
    const bool may = pass(*own);
    if (!hold(*own)) return;
    held_ = own;
    const std::uint32_t state = own->state;
    if (!may || state == kRunning || state == kFailed) return;
    let_go(*own);  // the process was locked between pass() and hold()
    held_ = nullptr;
    own = own_process->turnstile;
  }
}

}  // namespace ration::sim
