#include "book_under_fire.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <random>
#include <vector>

#include "book/book.hpp"

namespace ration::bench {
namespace {

using book::Book;
using book::BookStatus;
using book::Charged;

constexpr int kProcesses = 16;
constexpr int kRounds = 10'000;
constexpr int kKills = 10'000;
constexpr std::uint64_t kLimit = std::uint64_t{1} << 30;

Book fresh_book(const std::string& path) {
  ::unlink(path.c_str());
  book::NewBook contents;
  contents.name = "fire";
  book::NewAccount account;
  account.device_total = account.limit = Bytes{kLimit};
  contents.accounts.push_back(account);
  Book book;
  if (Book::create(path.c_str(), contents) != BookStatus::kOk || Book::open(path.c_str(), book) != BookStatus::kOk)
    std::exit(1);
  return book;
}

struct Shared {
  pthread_barrier_t barrier;
  std::atomic<std::uint64_t> granted{0};
  std::atomic<std::uint64_t> over{0}, refused{0};
};

Shared* shared_memory() {
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::exit(1);
  return new (memory) Shared;
}

// All ask for the same size at the same instant; exactly as many as fit must get it.
int barrier_worker(const std::string& path, Shared& shared, int index) {
  Book book;
  if (Book::open(path.c_str(), book) != BookStatus::kOk || !book.processes().attach()) return 1;
  std::minstd_rand random(7);
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t size =
        kLimit / (1 + random() % (kProcesses - 1)) - random() % 4096;  // the same in every process
    ::pthread_barrier_wait(&shared.barrier);
    const bool granted = book.account(0).charge(Bytes{size}) == Charged::kGranted;
    if (granted) shared.granted.fetch_add(1);
    ::pthread_barrier_wait(&shared.barrier);
    if (index == 0) {
      const std::uint64_t fit = std::min<std::uint64_t>(kLimit / size, kProcesses), got = shared.granted.exchange(0);
      if (got > fit) shared.over.fetch_add(1);
      if (got < fit) shared.refused.fetch_add(1);
    }
    ::pthread_barrier_wait(&shared.barrier);
    if (granted) book.account(0).refund(Bytes{size});
  }
  return 0;
}

void barrier_row(const std::string& path) {
  const Book book = fresh_book(path);
  Shared& shared = *shared_memory();
  pthread_barrierattr_t attributes;
  ::pthread_barrierattr_init(&attributes);
  ::pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_barrier_init(&shared.barrier, &attributes, kProcesses);
  std::vector<pid_t> children;
  for (int index = 0; index < kProcesses; ++index) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(barrier_worker(path, shared, index));
    children.push_back(child);
  }
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  const bool good = shared.over == 0 && shared.refused == 0;
  std::printf(
      "| %d processes at a barrier, %d rounds | | over the limit %lu times | refused while it fitted %lu times | | 0 "
      "and 0 | %s |\n",
      kProcesses, kRounds, shared.over.load(), shared.refused.load(), good ? "ok" : "MISSED");
}

// Charges and refunds of every kind and size, until it is killed.
[[noreturn]] void charge_for_ever(const std::string& path, unsigned seed) {
  Book book;
  if (Book::open(path.c_str(), book) != BookStatus::kOk || !book.processes().attach()) ::_exit(1);
  std::minstd_rand random(seed);
  std::vector<Bytes> held;
  for (;;) {
    const Bytes size{std::uint64_t{4096} << (random() % 15)};
    if (held.size() < 64 && book.account(0).charge(size) == Charged::kGranted) {
      held.push_back(size);
    } else if (!held.empty()) {
      book.account(0).refund(held.back());
      held.pop_back();
    }
  }
}

void kill_row(const std::string& path) {
  Book book = fresh_book(path);
  std::mt19937 random(11);
  double slowest_ms = 0;
  int hangs = 0;
  std::uint64_t left = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    const pid_t child = ::fork();
    if (child == 0) charge_for_ever(path, static_cast<unsigned>(kill));
    // Anywhere from before it attaches to well inside its charging.
    const auto instant = std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 700);
    while (std::chrono::steady_clock::now() < instant) {
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const auto start = std::chrono::steady_clock::now();
    Book next;
    const bool started = Book::open(path.c_str(), next) == BookStatus::kOk && next.processes().attach();
    next.processes().reap();
    const bool whole =
        started && next.account(0).charge(Bytes{kLimit}) == Charged::kGranted;  // all of it, or something was left
    const double took = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    slowest_ms = std::max(slowest_ms, took);
    if (!started || took > 1000) ++hangs;
    if (!whole) left += next.account(0).used().count();
    next.processes().detach();
  }
  const bool good = hangs == 0 && left == 0 && slowest_ms <= 10;
  std::printf(
      "| %d kills of charging processes at random instants | | hangs %d | bytes left %lu | next start at most %.2f ms "
      "| 0, 0, ≤ 10 ms | %s |\n",
      kKills, hangs, left, slowest_ms, good ? "ok" : "MISSED");
}

/// How often the scheduler took the processor from this thread.
long preemptions() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

// Eight processes charge without a pause. Some stand still for 50 ms each, some are killed and replaced, at random
// instants; meanwhile this process charges, and the longest of its charges is told. A charge in whose time the
// scheduler took the processor away measures the scheduler: it is counted, not timed. One that waited by itself would
// be timed.
void storm_row(const std::string& path) {
  constexpr int kWorkers = 8, kMaxStopped = 6, kActions = 10'000;
  constexpr auto kStoppedFor = std::chrono::milliseconds(50);
  using Clock = std::chrono::steady_clock;
  struct Worker {
    pid_t pid = -1;
    Clock::time_point until{};  // stopped so long; the epoch: it runs
  };
  Book book = fresh_book(path);
  if (!book.processes().attach()) std::exit(1);
  ::setpriority(PRIO_PROCESS, 0, -10);
  std::mt19937 random(13);
  unsigned started = 0;
  const auto start = [&](Worker& worker) {
    worker = {::fork(), {}};
    if (worker.pid != 0) return;
    ::setpriority(PRIO_PROCESS, 0, 10);
    charge_for_ever(path, ++started);
  };
  std::vector<Worker> workers(kWorkers);
  for (Worker& worker : workers) start(worker), ++started;
  int kills = 0, stops = 0, stopped = 0;
  std::uint64_t over = 0;
  double slowest_ms = 0;
  int preempted = 0;
  while (kills < kActions || stops < kActions) {
    for (Worker& worker : workers) {
      if (worker.until == Clock::time_point{} || Clock::now() < worker.until) continue;
      ::kill(worker.pid, SIGCONT);
      worker.until = {};
      --stopped;
    }
    Worker& worker = workers[random() % kWorkers];
    const bool kill_it = kills < kActions && (stopped >= kMaxStopped || kills <= stops);
    if (worker.until == Clock::time_point{} && kill_it) {
      ::kill(worker.pid, SIGKILL);
      ::waitpid(worker.pid, nullptr, 0);
      start(worker), ++started, ++kills;
    } else if (worker.until == Clock::time_point{} && stops < kActions && stopped < kMaxStopped) {
      ::kill(worker.pid, SIGSTOP);
      worker.until = Clock::now() + kStoppedFor;
      ++stops, ++stopped;
    }
    for (int charge = 0; charge < 100; ++charge) {
      const long switches = preemptions();
      const auto before = Clock::now();
      const bool granted = book.account(0).charge(Bytes{4096}) == Charged::kGranted;
      if (granted) book.account(0).refund(Bytes{4096});
      const double took_ms = std::chrono::duration<double, std::milli>(Clock::now() - before).count();
      if (preemptions() == switches)
        slowest_ms = std::max(slowest_ms, took_ms);
      else
        ++preempted;
      if (book.account(0).used().count() > kLimit) ++over;
    }
    if (kills % 16 == 0) book.processes().reap();
  }
  for (const Worker& worker : workers) ::kill(worker.pid, SIGKILL), ::waitpid(worker.pid, nullptr, 0);
  book.processes().reap();
  const std::uint64_t left = book.account(0).used().count();
  ::setpriority(PRIO_PROCESS, 0, 0);
  const bool good = over == 0 && left == 0 && slowest_ms <= 10;
  std::printf(
      "| %d kills and %d stops of 50 ms among %d charging processes | | over the limit %lu times | bytes left %lu | "
      "longest charge of another %.2f ms, %d preempted | 0, 0, ≤ 10 ms | %s |\n",
      kills, stops, kWorkers, over, left, slowest_ms, preempted, good ? "ok" : "MISSED");
}

}  // namespace

void print_book_rows(const std::string& folder) {
  barrier_row(folder + "/fire.book");
  kill_row(folder + "/fire.book");
  storm_row(folder + "/fire.book");
}

}  // namespace ration::bench
