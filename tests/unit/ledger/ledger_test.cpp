// The promises of ledger/book.hpp, with real processes and real kills.
#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <random>
#include <thread>

#include "book_fixture.hpp"
#include "ledger/layout.hpp"

namespace ration::ledger {
namespace {

using namespace literals;

/// A word that this process and its children share.
struct SharedWord {
  std::atomic<std::uint64_t>* word = static_cast<std::atomic<std::uint64_t>*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ~SharedWord() { ::munmap(word, 4096); }
  std::atomic<std::uint64_t>& operator*() const { return *word; }
};

void wait_until(const std::atomic<std::uint64_t>& word, std::uint64_t value) {
  while (word.load() < value) std::this_thread::yield();
}

TEST_F(BookTest, ChargesUntilTheLimitAndNotOneByteMore) {
  make(100_MiB);
  Book book = open();
  ASSERT_TRUE(book.attach());
  EXPECT_EQ(book.charge(0, 60_MiB), Charged::kGranted);
  EXPECT_EQ(book.charge(0, 40_MiB + 1_B), Charged::kOverLimit);
  EXPECT_EQ(book.charge(0, 40_MiB), Charged::kGranted);
  EXPECT_EQ(book.charge(0, 1_B), Charged::kOverLimit);
  EXPECT_EQ(book.charge(0, Bytes{~std::uint64_t{0}}), Charged::kOverLimit) << "a size that overflows is refused";
  EXPECT_EQ(book.charge(1, 1_B), Charged::kNoAccount);
  book.refund(0, 100_MiB);
  EXPECT_EQ(book.used(0), 0_B);
}

TEST_F(BookTest, RandomOperationsAgreeWithASimpleModel) {
  make(1000_B);
  Book book = open();
  ASSERT_TRUE(book.attach());
  std::mt19937 random(1);
  std::vector<std::uint64_t> held;
  std::uint64_t sum = 0, limit = 1000, peak = 0;
  for (int step = 0; step < 200'000; ++step) {
    const auto choice = random() % 10;
    if (choice == 0) {
      limit = random() % 1500;
      book.set_limit(0, Bytes{limit});
    } else if (choice < 6) {
      const std::uint64_t size = random() % 300;
      const bool fits = sum + size <= limit;
      ASSERT_EQ(book.charge(0, Bytes{size}) == Charged::kGranted, fits) << "step " << step;
      if (fits) held.push_back(size), sum += size, peak = std::max(peak, sum);
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      book.refund(0, Bytes{held.back()});
      sum -= held.back();
      held.pop_back();
    }
    ASSERT_EQ(book.used(0).count(), sum);
  }
  EXPECT_EQ(snapshot().accounts[0].peak.count(), peak);
}

// Sixteen processes ask together for more than there is: exactly as many as fit are served, in every round.
TEST_F(BookTest, NeverOverTheLimitAndNeverRefusedWhileItFits) {
  constexpr int kProcesses = 16, kRounds = 300, kFit = 10;
  make(10_MiB);
  const SharedWord round, arrived, granted, left;
  for (int process = 0; process < kProcesses; ++process) {
    start([&] {
      Book book;
      if (Book::open(path_.c_str(), book) != BookStatus::kOk || !book.attach()) return 1;
      for (std::uint64_t mine = 1; mine <= kRounds; ++mine) {
        wait_until(*round, mine);
        const bool got = book.charge(0, 1_MiB) == Charged::kGranted;
        if (got) (*granted).fetch_add(1);
        (*arrived).fetch_add(1);
        wait_until(*arrived, mine * kProcesses);
        if (got) book.refund(0, 1_MiB);
        (*left).fetch_add(1);
        wait_until(*left, mine * kProcesses);
      }
      return 0;
    });
  }
  for (std::uint64_t now = 1; now <= kRounds; ++now) {
    (*round).store(now);
    wait_until(*left, now * kProcesses);
    ASSERT_EQ((*granted).load(), now * kFit) << "round " << now;
  }
  for (const pid_t child : std::vector<pid_t>(children_)) EXPECT_EQ(finish(child), 0);
  EXPECT_EQ(snapshot().accounts[0].peak, 10_MiB);
}

TEST_F(BookTest, ThreadsOfOneProcessShareTheLimitExactly) {
  make(1000_B);
  Book book = open();
  ASSERT_TRUE(book.attach());
  std::atomic<std::uint64_t> granted{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int step = 0; step < 20'000; ++step) {
        if (book.charge(0, 300_B) != Charged::kGranted) continue;
        granted.fetch_add(300);
        EXPECT_LE(granted.load(), 1000U);
        granted.fetch_sub(300);
        book.refund(0, 300_B);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(book.used(0), 0_B);
  EXPECT_LE(snapshot().accounts[0].peak, 1000_B);
}

TEST_F(BookTest, BytesKeptAtHandAreAnybodysTheMomentTheyAreNeeded) {
  make(64_MiB);
  Book one = open(), two = open();
  ASSERT_TRUE(one.attach());
  ASSERT_TRUE(two.attach());
  ASSERT_EQ(one.charge(0, 30_MiB), Charged::kGranted);
  one.refund(0, 30_MiB);  // stays at its hand
  EXPECT_EQ(one.used(0), 0_B) << "given back is not in use";
  EXPECT_EQ(snapshot().accounts[0].used, 0_B);
  EXPECT_EQ(two.charge(0, 64_MiB), Charged::kGranted) << "nobody may be refused for them";
  EXPECT_EQ(one.charge(0, 1_B), Charged::kOverLimit) << "and they are gone from the first";
  EXPECT_EQ(snapshot().accounts[0].peak, 64_MiB);
}

TEST_F(BookTest, WhatTheDeviceDidNotGiveIsNoPeak) {
  make(100_MiB);
  Book book = open();
  ASSERT_TRUE(book.attach());
  ASSERT_EQ(book.charge(0, 10_MiB), Charged::kGranted);
  Bytes raised_from = kUnlimited;
  ASSERT_EQ(book.charge(0, 50_MiB, Kind::kHeap, &raised_from), Charged::kGranted);
  EXPECT_EQ(raised_from, 10_MiB);
  ASSERT_EQ(book.charge(0, 4_MiB), Charged::kGranted);  // another thread's, meanwhile
  book.undo(0, 50_MiB, Kind::kHeap, raised_from);
  EXPECT_EQ(snapshot().accounts[0].used, 14_MiB);
  EXPECT_EQ(snapshot().accounts[0].peak, 14_MiB);
  // One that raised nothing leaves it.
  book.refund(0, 12_MiB);
  raised_from = kUnlimited;
  ASSERT_EQ(book.charge(0, 8_MiB, Kind::kHeap, &raised_from), Charged::kGranted);
  EXPECT_EQ(raised_from, kUnlimited);
  book.undo(0, 8_MiB, Kind::kHeap, raised_from);
  EXPECT_EQ(snapshot().accounts[0].peak, 14_MiB);
}

TEST_F(BookTest, ThePeakCountsNoBytesThatWereGivenBack) {
  make(1_GiB);
  Book one = open(), two = open();
  ASSERT_TRUE(one.attach());
  ASSERT_TRUE(two.attach());
  ASSERT_EQ(one.charge(0, 20_MiB), Charged::kGranted);
  one.refund(0, 20_MiB);
  ASSERT_EQ(two.charge(0, 25_MiB), Charged::kGranted);
  EXPECT_EQ(snapshot().accounts[0].peak, 25_MiB);
  ASSERT_EQ(one.charge(0, 10_MiB), Charged::kGranted);
  EXPECT_EQ(snapshot().accounts[0].peak, 35_MiB);
}

TEST_F(BookTest, ALoweredLimitIsSeenByChargesThatNeedNoLock) {
  make(64_MiB);
  Book book = open();
  ASSERT_TRUE(book.attach());
  ASSERT_EQ(book.charge(0, 40_MiB), Charged::kGranted);
  ASSERT_EQ(book.charge(0, 10_MiB), Charged::kGranted);
  book.refund(0, 10_MiB);  // at hand
  book.set_limit(0, 45_MiB);
  EXPECT_EQ(book.charge(0, 10_MiB), Charged::kOverLimit);
  EXPECT_EQ(book.charge(0, 5_MiB), Charged::kGranted);
}

// Whoever needs another's bytes at hand takes them in steps, and may be killed between any two of them.
TEST_F(BookTest, DeathWhileTakingAnothersBytesAtHandLosesNone) {
  constexpr int kKills = 150;
  constexpr Bytes kLimit = 64_MiB;
  make(kLimit);
  const SharedWord stop;
  const pid_t neighbour = start([&] {
    Book own;
    if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.attach()) return 1;
    while ((*stop).load() == 0) {
      if (own.charge(0, 1_MiB) == Charged::kGranted) own.refund(0, 1_MiB);
    }
    while ((*stop).load() == 1) {
    }
    return 0;
  });
  std::mt19937 random(5);
  for (int kill = 0; kill < kKills; ++kill) {
    const SharedWord charges;
    const pid_t child = start([&] {
      Book own;
      if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.attach()) return 1;
      for (std::uint64_t count = 1;; ++count) {
        if (own.charge(0, kLimit) == Charged::kGranted) own.refund(0, kLimit);  // takes everything there is
        (*charges).store(count);
      }
    });
    wait_until(*charges, random() % 500 + 1);
    ::kill(child, SIGKILL);
    finish(child);
  }
  (*stop).store(1);  // the neighbour lives, and holds nothing
  Book book = open();
  ASSERT_TRUE(book.attach());
  Charged outcome = book.charge(0, kLimit);
  for (int wait = 0; outcome != Charged::kGranted && wait < 1000; ++wait) {  // its last refund may be on its way
    ::sched_yield();
    book.reap();
    outcome = book.charge(0, kLimit);
  }
  EXPECT_EQ(outcome, Charged::kGranted) << snapshot().accounts[0].used.count() << " bytes were lost";
  (*stop).store(2);
  finish(neighbour);
}

TEST_F(BookTest, DeathBetweenTheStepsOfTakingBytesAtHandIsRepaired) {
  for (const bool moved : {false, true}) {
    ::unlink(path_.c_str());
    make(64_MiB);
    Book one = open();
    ASSERT_TRUE(one.attach());
    ASSERT_EQ(one.charge(0, 8_MiB), Charged::kGranted);
    one.refund(0, 8_MiB);
    const pid_t child = start([&] {
      const FileDescriptor file{::open(path_.c_str(), O_RDWR)};
      auto* layout = static_cast<BookLayout*>(
          ::mmap(nullptr, sizeof(BookLayout), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
      ::pthread_mutex_lock(&layout->header.lock);
      SlotRecord& slot = layout->slots[0];
      const std::uint64_t before = slot.spare[0].load();
      if (spare_bytes(before) != (8_MiB).count()) return 1;
      layout->header.fold_account.store(0);
      layout->header.fold_held.store(slot.held[0].load());
      layout->header.fold_spare.store(before);
      layout->header.fold_slot.store(1);
      if (moved) slot.spare[0].store((spare_turn(before) + 1) << kTurnShift);
      return 0;  // dies with the lock
    });
    ASSERT_EQ(finish(child), 0);
    Book two = open();
    ASSERT_TRUE(two.attach());
    EXPECT_EQ(two.charge(0, 64_MiB), Charged::kGranted) << (moved ? "they had left the slot" : "they were still there");
    two.refund(0, 64_MiB);
    EXPECT_EQ(one.used(0), 0_B);
  }
}

TEST_F(BookTest, KilledOwnerLeavesNothingCharged) {
  constexpr int kKills = 150;
  make(1_GiB);
  Book book = open();
  ASSERT_TRUE(book.attach());
  ASSERT_EQ(book.charge(0, 5_MiB), Charged::kGranted);
  std::mt19937 random(2);
  for (int kill = 0; kill < kKills; ++kill) {
    const SharedWord charges;
    const pid_t child = start([&] {
      Book own;
      if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.attach()) return 1;
      for (std::uint64_t size = 1;; ++size) {
        (void)own.charge(0, Bytes{size % 4096});
        if (size % 3 == 0) own.refund(0, Bytes{size % 512});
        (*charges).store(size);
      }
    });
    wait_until(*charges, random() % 2000 + 1);
    ::kill(child, SIGKILL);
    finish(child);
    book.reap();
    ASSERT_EQ(book.used(0), 5_MiB) << "after kill " << kill;
    ASSERT_EQ(book.charge(0, 1_MiB), Charged::kGranted) << "the lock was left held";
    book.refund(0, 1_MiB);
  }
}

// The worst instant: the lock is held and the two sums disagree.
TEST_F(BookTest, DeathInsideTheLockIsRepairedByTheNextCharge) {
  make(1_GiB);
  Book book = open();
  ASSERT_TRUE(book.attach());
  ASSERT_EQ(book.charge(0, 3_MiB), Charged::kGranted);
  const pid_t child = start([&] {
    const int file = ::open(path_.c_str(), O_RDWR);
    auto* layout =
        static_cast<BookLayout*>(::mmap(nullptr, sizeof(BookLayout), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    ::pthread_mutex_lock(&layout->header.lock);
    layout->accounts[0].used.store(999);
    ::raise(SIGKILL);
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(finish(child)));
  EXPECT_EQ(book.charge(0, 1_MiB), Charged::kGranted);
  EXPECT_EQ(book.used(0), 4_MiB);
}

TEST_F(BookTest, TheNextChargeSeesALimitThatAnOutsiderChanged) {
  make(10_MiB);
  Book book = open();
  ASSERT_TRUE(book.attach());
  ASSERT_EQ(book.charge(0, 8_MiB), Charged::kGranted);
  Book outsider = open();
  outsider.set_limit(0, 4_MiB);
  EXPECT_EQ(book.charge(0, 1_B), Charged::kOverLimit);
  EXPECT_EQ(book.used(0), 8_MiB) << "shrinking takes nothing away";
  EXPECT_EQ(book.headroom(0), 0_B);
  outsider.set_limit(0, 9_MiB);
  EXPECT_EQ(book.charge(0, 1_MiB), Charged::kGranted);
  EXPECT_EQ(snapshot().limit_changes, 2U);
}

TEST_F(BookTest, AReusedProcessNumberIsNotTakenForItsFormerOwner) {
  make(10_MiB);
  const pid_t child = start([&] {
    Book own;
    if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.attach()) return 1;
    return own.charge(0, 2_MiB) == Charged::kGranted ? 0 : 1;
  });
  ASSERT_EQ(finish(child), 0);
  {  // the dead process's number now belongs to this test, which started at another time
    const int file = ::open(path_.c_str(), O_RDWR);
    auto* layout =
        static_cast<BookLayout*>(::mmap(nullptr, sizeof(BookLayout), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    layout->slots[0].pid = ::getpid();
    ::munmap(layout, sizeof(BookLayout));
    ::close(file);
  }
  Book book = open();
  EXPECT_EQ(book.reap(), 2_MiB);
  EXPECT_EQ(book.used(0), 0_B);
}

TEST_F(BookTest, AWaiterIsWokenByARefundAndByARaisedLimit) {
  make(2_MiB);
  Book book = open();
  ASSERT_TRUE(book.attach());
  for (const bool raise : {false, true}) {
    ASSERT_EQ(book.charge(0, 2_MiB), Charged::kGranted);
    const SharedWord waiting;
    const pid_t child = start([&] {
      Book own;
      if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.attach()) return 1;
      own.begin_waiting(0, 1_MiB);
      (*waiting).store(1);
      for (;;) {
        const std::uint32_t seen = own.generation();
        if (own.charge(0, 1_MiB) == Charged::kGranted) break;
        own.wait_for_change(seen, 20'000'000'000);
      }
      own.end_waiting();
      own.detach();
      return 0;
    });
    wait_until(*waiting, 1);
    if (raise)
      book.set_limit(0, 4_MiB);
    else
      book.refund(0, 2_MiB);
    EXPECT_EQ(finish(child), 0);
    if (raise) book.refund(0, 2_MiB);
  }
}

TEST_F(BookTest, DenialsAreNumberedAndTheNewestAreKept) {
  make(1_MiB);
  Book book = open();
  ASSERT_TRUE(book.attach());
  for (std::uint64_t i = 1; i <= kDenialRing + 10; ++i) {
    EXPECT_EQ(book.record_denial(0, Bytes{i}, DenialReason::kLimit, "cuMemAlloc", 5, 0), i);
  }
  const BookSnapshot copy = snapshot();
  ASSERT_EQ(copy.denials.size(), kDenialRing);
  EXPECT_EQ(copy.denials.front().sequence, 11U);
  EXPECT_EQ(copy.denials.back().requested.count(), kDenialRing + 10);
  EXPECT_EQ(copy.denials.back().function, "cuMemAlloc");
  EXPECT_EQ(copy.accounts[0].denials, kDenialRing + 10);
}

TEST_F(BookTest, AChildOfForkHoldsNothingOfItsParent) {
  make(10_MiB);
  Book book = open();
  ASSERT_TRUE(book.attach());
  ASSERT_EQ(book.charge(0, 3_MiB), Charged::kGranted);
  const pid_t child = start([&] {
    book.forget_slot();
    if (!book.attach() || book.held_by_this_process(0) != 0_B) return 1;
    return book.charge(0, 1_MiB) == Charged::kGranted && book.used(0) == 4_MiB ? 0 : 2;
  });
  EXPECT_EQ(finish(child), 0);
  EXPECT_EQ(book.reap(), 1_MiB);
  EXPECT_EQ(book.used(0), 3_MiB);
}

}  // namespace
}  // namespace ration::ledger
