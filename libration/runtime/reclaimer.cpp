#include "runtime/reclaimer.hpp"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdlib>

#include "base/units.hpp"
#include "book/workload_book.hpp"

namespace ration::runtime {
namespace {

constexpr std::chrono::milliseconds kLookEvery{100};

/// Returns a number that the child of a fork does not share with its parent. A pid would not do, since two pid
/// namespaces may have the same one.
std::uint64_t own_process() {
  static std::atomic<std::uint64_t> forks{0};
  static const bool watched = ::pthread_atfork(nullptr, nullptr, [] { ++forks; }) == 0;
  (void)watched;
  return forks;
}

}  // namespace

Reclaimer::Owner Reclaimer::start(std::function<void()> pressure, std::function<void()> trim,
                                  std::function<std::uint64_t()> requests) {
  Owner reclaimer(new Reclaimer(std::move(pressure), std::move(trim), std::move(requests)));
  if (const char* path = book::workload_book(); path != nullptr) {
    if (book::Book::open(path, reclaimer->book_) == book::BookStatus::kOk) {
      reclaimer->denials_seen_ = reclaimer->book_.denials().count();
      reclaimer->trims_seen_ = reclaimer->book_.trim_requests();
    }
  }
  if (const char* text = std::getenv("RATION_IDLE_TRIM"); text != nullptr && *text != '\0') {
    if (const auto parsed = parse_duration(text)) reclaimer->idle_ns_ = *parsed;
  }
  if (!reclaimer->book_.is_open() && !reclaimer->idle_ns_) return nullptr;
  reclaimer->thread_ = std::thread([raw = reclaimer.get()] { raw->look_after(); });
  return reclaimer;
}

Reclaimer::Reclaimer(std::function<void()> pressure, std::function<void()> trim,
                     std::function<std::uint64_t()> requests)
    : pressure_(std::move(pressure)), trim_(std::move(trim)), requests_(std::move(requests)), process_(own_process()) {}

void Reclaimer::End::operator()(Reclaimer* reclaimer) const {
  if (reclaimer->process_ == own_process()) delete reclaimer;
}

Reclaimer::~Reclaimer() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard guard(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool Reclaimer::somebody_needs_memory() {
  if (!book_.is_open()) return false;
  const std::uint64_t denials = book_.denials().count(), trims = book_.trim_requests();
  bool needed = denials != denials_seen_ || trims != trims_seen_ || book_.waiting().has_waiters();
  denials_seen_ = denials;
  trims_seen_ = trims;
  for (std::uint32_t account = 0; account < book_.account_count(); ++account)
    needed = needed || book_.account(account).used() > book_.account(account).limits().binding();
  return needed;
}

void Reclaimer::look_after() {
  using Clock = std::chrono::steady_clock;
  std::uint64_t requests = requests_();
  auto busy_at = Clock::now();
  bool trimmed_idle = false;
  std::unique_lock guard(mutex_);
  while (!changed_.wait_for(guard, kLookEvery, [&] { return ending_; })) {
    guard.unlock();
    if (somebody_needs_memory()) {
      pressure_();
      trim_();
    }
    if (const std::uint64_t now = requests_(); now != requests) {
      requests = now;
      busy_at = Clock::now();
      trimmed_idle = false;
    } else if (idle_ns_ && !trimmed_idle && Clock::now() - busy_at >= std::chrono::nanoseconds(*idle_ns_)) {
      trim_();
      trimmed_idle = true;
    }
    guard.lock();
  }
}

}  // namespace ration::runtime
