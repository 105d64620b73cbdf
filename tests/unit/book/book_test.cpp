// The promises of book/book.hpp, with real processes and real kills.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <random>
#include <thread>

#include "book/book_reader.hpp"
#include "book/layout.hpp"
#include "book_fixture.hpp"

namespace ration::book {
namespace {

using namespace literals;

TEST_F(BookTest, ChargesUntilTheLimitAndNotOneByteMore) {
  make(100_MiB);
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  EXPECT_EQ(book.account(0).charge(60_MiB), Charged::kGranted);
  EXPECT_EQ(book.account(0).charge(40_MiB + 1_B), Charged::kOverLimit);
  EXPECT_EQ(book.account(0).charge(40_MiB), Charged::kGranted);
  EXPECT_EQ(book.account(0).charge(1_B), Charged::kOverLimit);
  EXPECT_EQ(book.account(0).charge(Bytes{~std::uint64_t{0}}), Charged::kOverLimit)
      << "a size that overflows is refused";
  EXPECT_EQ(book.account(1).charge(1_B), Charged::kNoAccount);
  book.account(0).refund(100_MiB);
  EXPECT_EQ(book.account(0).used(), 0_B);
}

TEST_F(BookTest, RandomOperationsAgreeWithASimpleModel) {
  make(1000_B);
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  std::mt19937 random(1);
  std::vector<std::uint64_t> held;
  std::uint64_t sum = 0, limit = 1000, peak = 0;
  for (int step = 0; step < 200'000; ++step) {
    const auto choice = random() % 10;
    if (choice == 0) {
      limit = random() % 1500;
      book.account(0).set_limit(Bytes{limit});
    } else if (choice < 6) {
      const std::uint64_t size = random() % 300;
      const bool fits = sum + size <= limit;
      ASSERT_EQ(book.account(0).charge(Bytes{size}) == Charged::kGranted, fits) << "step " << step;
      if (fits) held.push_back(size), sum += size, peak = std::max(peak, sum);
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      book.account(0).refund(Bytes{held.back()});
      sum -= held.back();
      held.pop_back();
    }
    ASSERT_EQ(book.account(0).used().count(), sum);
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
      if (Book::open(path_.c_str(), book) != BookStatus::kOk || !book.processes().attach()) return 1;
      for (std::uint64_t mine = 1; mine <= kRounds; ++mine) {
        wait_until(*round, mine);
        const bool got = book.account(0).charge(1_MiB) == Charged::kGranted;
        if (got) (*granted).fetch_add(1);
        (*arrived).fetch_add(1);
        wait_until(*arrived, mine * kProcesses);
        if (got) book.account(0).refund(1_MiB);
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
  ASSERT_TRUE(book.processes().attach());
  std::atomic<std::uint64_t> granted{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int step = 0; step < 20'000; ++step) {
        if (book.account(0).charge(300_B) != Charged::kGranted) continue;
        granted.fetch_add(300);
        EXPECT_LE(granted.load(), 1000U);
        granted.fetch_sub(300);
        book.account(0).refund(300_B);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(book.account(0).used(), 0_B);
  EXPECT_LE(snapshot().accounts[0].peak, 1000_B);
}

// Slots are read one after another: bytes that pass from one process to another meanwhile may be found in both.
TEST_F(BookTest, BytesThatAreFoundInTwoSlotsCountOnce) {
  make(64_MiB);
  Book giver = open(), taker = open();
  ASSERT_TRUE(giver.processes().attach() && taker.processes().attach());
  ASSERT_EQ(giver.account(0).charge(32_MiB), Charged::kGranted);
  BookSnapshot now = snapshot();
  ASSERT_EQ(now.processes.size(), 2U);
  now.processes[1].held[0] = now.processes[0].held[0];
  EXPECT_EQ(held_by_living(now)[0], 32_MiB);
}

TEST_F(BookTest, WhoWatchesNeverSeesMoreThanTheBookCounts) {
  constexpr int kWatched = 5'000;
  make(32_MiB);  // so that one of them holds all of it, or nobody
  const SharedWord rounds, stop;
  std::vector<pid_t> both;
  for (int process = 0; process < 2; ++process)
    both.push_back(start([&] {
      Book own;
      if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.processes().attach()) return 1;
      while ((*stop).load() == 0) {
        if (own.account(0).charge(32_MiB) != Charged::kGranted) continue;
        (*rounds).fetch_add(1);
        own.account(0).refund(32_MiB);
      }
      return 0;
    }));
  wait_until(*rounds, 100);
  for (int watched = 0; watched < kWatched; ++watched) {
    const BookSnapshot now = snapshot();
    ASSERT_LE(held_by_living(now)[0], 32_MiB) << "reading " << watched << ", round " << (*rounds).load();
    ASSERT_LE(held_by_living(now)[0], now.accounts[0].used) << "reading " << watched;
  }
  (*stop).store(1);
  for (const pid_t child : both) EXPECT_EQ(finish(child), 0);
  EXPECT_EQ(held_by_living(snapshot())[0], 0_B);
}

TEST_F(BookTest, WhatTheDeviceDidNotGiveIsNoPeak) {
  make(100_MiB);
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  ASSERT_EQ(book.account(0).charge(10_MiB), Charged::kGranted);
  Bytes raised_from = kUnlimited;
  ASSERT_EQ(book.account(0).charge(50_MiB, Kind::kHeap, &raised_from), Charged::kGranted);
  EXPECT_EQ(raised_from, 10_MiB);
  ASSERT_EQ(book.account(0).charge(4_MiB), Charged::kGranted);  // another thread's, meanwhile
  book.account(0).undo(50_MiB, Kind::kHeap, raised_from);
  EXPECT_EQ(snapshot().accounts[0].used, 14_MiB);
  EXPECT_EQ(snapshot().accounts[0].peak, 14_MiB);
  // One that raised nothing leaves it.
  book.account(0).refund(12_MiB);
  raised_from = kUnlimited;
  ASSERT_EQ(book.account(0).charge(8_MiB, Kind::kHeap, &raised_from), Charged::kGranted);
  EXPECT_EQ(raised_from, kUnlimited);
  book.account(0).undo(8_MiB, Kind::kHeap, raised_from);
  EXPECT_EQ(snapshot().accounts[0].peak, 14_MiB);
}

TEST_F(BookTest, ThePeakCountsNoBytesThatWereGivenBack) {
  make(1_GiB);
  Book one = open(), two = open();
  ASSERT_TRUE(one.processes().attach());
  ASSERT_TRUE(two.processes().attach());
  ASSERT_EQ(one.account(0).charge(20_MiB), Charged::kGranted);
  one.account(0).refund(20_MiB);
  ASSERT_EQ(two.account(0).charge(25_MiB), Charged::kGranted);
  EXPECT_EQ(snapshot().accounts[0].peak, 25_MiB);
  ASSERT_EQ(one.account(0).charge(10_MiB), Charged::kGranted);
  EXPECT_EQ(snapshot().accounts[0].peak, 35_MiB);
}

TEST_F(BookTest, KilledOwnerLeavesNothingCharged) {
  constexpr int kKills = 150;
  make(1_GiB);
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  ASSERT_EQ(book.account(0).charge(5_MiB), Charged::kGranted);
  std::mt19937 random(2);
  for (int kill = 0; kill < kKills; ++kill) {
    const SharedWord charges;
    const pid_t child = start([&] {
      Book own;
      if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.processes().attach()) return 1;
      for (std::uint64_t size = 1;; ++size) {
        (void)own.account(0).charge(Bytes{size % 4096});
        if (size % 3 == 0) own.account(0).refund(Bytes{size % 512});
        (*charges).store(size);
      }
    });
    wait_until(*charges, random() % 2000 + 1);
    ::kill(child, SIGKILL);
    finish(child);
    book.processes().reap();
    ASSERT_EQ(book.account(0).used(), 5_MiB) << "after kill " << kill;
    ASSERT_EQ(book.account(0).charge(1_MiB), Charged::kGranted) << "the lock was left held";
    book.account(0).refund(1_MiB);
  }
}

// Every instant of a change at which a process can die: announced or not, made or not, replaced by another's or not,
// entered or not. What it held is told exactly in each.
TEST_F(BookTest, DeathAtEveryStepOfAChangeRefundsWhatWasHeld) {
  enum Step { kPrepared, kAnnounced, kMade, kEntered, kWithdrawn };
  for (const Step step : {kPrepared, kAnnounced, kMade, kEntered, kWithdrawn}) {
    for (const bool others_go_on : {false, true}) {
      ::unlink(path_.c_str());
      make(64_MiB);
      Book other = open();
      ASSERT_TRUE(other.processes().attach());
      ASSERT_EQ(other.account(0).charge(1_MiB), Charged::kGranted);
      const SharedWord stopped;
      const pid_t child = start([&] {
        Book own;
        if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.processes().attach()) return 1;
        if (own.account(0).charge(4_MiB) != Charged::kGranted) return 1;
        const int file = ::open(path_.c_str(), O_RDWR);
        auto* layout =
            static_cast<BookLayout*>(::mmap(nullptr, sizeof(BookLayout), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
        SlotRecord& slot = layout->slots[1];
        Word& usage = layout->accounts[0].usage;
        const std::uint64_t number = slot.parts[0].all.changes.load() + 1;
        slot.change.store(kPreparing);
        slot.change_held.store((12_MiB).count());
        if (step >= kAnnounced) slot.change.store(announced(number, 0));
        if (step >= kMade) usage.store(usage_word(used_bytes(usage.load()) + (8_MiB).count(), 1, number));
        if (step >= kEntered) slot.parts[0].all.held.store((12_MiB).count());
        if (step >= kWithdrawn) slot.parts[0].all.changes.store(number), slot.change.store(kNoChange);
        (*stopped).store(1);
        for (;;) ::pause();
      });
      wait_until(*stopped, 1);
      if (others_go_on) {
        ASSERT_EQ(other.account(0).charge(1_MiB), Charged::kGranted) << "nobody waits for it";
      }
      EXPECT_EQ(held_by_living(snapshot())[0], other.account(0).used()) << "whoever reads finds it, too: step " << step;
      ::kill(child, SIGKILL);
      finish(child);
      EXPECT_EQ(other.processes().reap(), step >= kMade ? 12_MiB : 4_MiB) << "step " << step;
      EXPECT_EQ(other.account(0).used(), others_go_on ? 2_MiB : 1_MiB) << "step " << step;
      EXPECT_EQ(other.processes().reap(), 0_MiB) << "once";
    }
  }
}

// A stopped process holds nothing that another needs: not at any of a thousand instants of its charging.
TEST_F(BookTest, AStoppedProcessDelaysNobodysCharge) {
  make(64_MiB);
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  const SharedWord charges;
  const pid_t child = start([&] {
    Book own;
    if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.processes().attach()) return 1;
    for (;; (*charges).fetch_add(1)) {
      if (own.account(0).charge(1_MiB) == Charged::kGranted) own.account(0).refund(1_MiB);
    }
  });
  wait_until(*charges, 1);
  for (int stop = 0; stop < 1000; ++stop) {
    ::kill(child, SIGSTOP);
    int status = 0;
    ::waitpid(child, &status, WUNTRACED);
    ASSERT_EQ(book.account(0).charge(3_MiB), Charged::kGranted);  // with a lock this hangs at the first stop inside it
    book.account(0).refund(3_MiB);
    book.processes().reap();
    ASSERT_LE(book.account(0).used(), 1_MiB) << "a stopped process is not a dead one, and holds no more than it took";
    const std::uint64_t before = (*charges).load();
    ::kill(child, SIGCONT);
    wait_until(*charges, before + 1);
  }
}

// Several processes at once find the same dead one, while others charge: its bytes come back exactly once.
TEST_F(BookTest, ADeadProcessIsRefundedOnceHoweverManyFindIt) {
  constexpr int kReapers = 4, kDeaths = 200;
  make(1_GiB);
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  ASSERT_EQ(book.account(0).charge(5_MiB), Charged::kGranted);
  const SharedWord stop;
  for (int reaper = 0; reaper < kReapers; ++reaper) {
    start([&] {
      Book own;
      if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.processes().attach()) return 1;
      while ((*stop).load() == 0) {
        own.processes().reap();
        if (own.account(0).charge(1_MiB) == Charged::kGranted) own.account(0).refund(1_MiB);
      }
      own.processes().detach();
      return 0;
    });
  }
  for (int death = 0; death < kDeaths; ++death) {
    const pid_t child = start([&] {
      Book own;
      if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.processes().attach()) return 1;
      return own.account(0).charge(3_MiB) == Charged::kGranted ? 0 : 1;
    });
    ASSERT_EQ(finish(child), 0);
  }
  (*stop).store(1);
  for (const pid_t child : std::vector<pid_t>(children_)) EXPECT_EQ(finish(child), 0);
  book.processes().reap();
  EXPECT_EQ(snapshot().accounts[0].used, 5_MiB) << "a second refund would have taken of these";
}

// Whoever asks, with a slot of the book or without: nobody has to reap, or be denied, before the figures are right.
TEST_F(BookTest, FiguresCountTheLivingAlone) {
  make(64_MiB);
  const Book watcher = open();
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  ASSERT_EQ(book.account(0).charge(5_MiB), Charged::kGranted);
  const auto take_and_end = [&](bool killed) {
    const pid_t child = start([&] {
      Book own;
      if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.processes().attach()) return 1;
      if (own.account(0).charge(40_MiB) != Charged::kGranted) return 1;
      if (killed) ::kill(::getpid(), SIGKILL);
      return 0;
    });
    finish(child);
  };
  for (const bool killed : {false, true}) {
    take_and_end(killed);
    EXPECT_EQ(snapshot().accounts[0].used, 45_MiB) << "nobody has looked yet";
    EXPECT_EQ(book.account(0).used(), 5_MiB);
    take_and_end(killed);
    EXPECT_EQ(book.account(0).headroom(), 59_MiB);
    take_and_end(killed);
    EXPECT_EQ(watcher.account(0).used(), 5_MiB);
    take_and_end(killed);
    const Account::Visible visible = watcher.account(0).visible(1_GiB, 1_GiB);
    EXPECT_EQ(visible.total, 64_MiB);
    EXPECT_EQ(visible.used, 5_MiB);
    EXPECT_EQ(visible.free, 59_MiB);
  }
}

TEST_F(BookTest, WhatEndedProcessesHeldIsNoPartOfAPeak) {
  make(64_MiB);
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  ASSERT_EQ(finish(start([&] {
              Book own;
              if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.processes().attach()) return 1;
              return own.account(0).charge(30_MiB) == Charged::kGranted ? 0 : 1;
            })),
            0);
  ASSERT_EQ(book.account(0).charge(20_MiB), Charged::kGranted);
  EXPECT_EQ(snapshot().accounts[0].peak, 30_MiB) << "they were never held together";
  ASSERT_EQ(book.account(0).charge(15_MiB), Charged::kGranted);
  EXPECT_EQ(snapshot().accounts[0].peak, 35_MiB);
}

// Stopped, or without its first thread: its memory is there.
TEST_F(BookTest, AProcessThatLivesInAnyWayStaysInTheFigures) {
  enum Way { kStopped, kWithoutItsFirstThread };
  for (const Way way : {kStopped, kWithoutItsFirstThread}) {
    ::unlink(path_.c_str());
    make(64_MiB);
    const Book watcher = open();
    const SharedWord ready;
    static std::atomic<std::uint64_t>* told;
    told = &*ready;
    const pid_t child = start([&] {
      static Book own;
      if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.processes().attach()) return 1;
      if (own.account(0).charge(6_MiB) != Charged::kGranted) return 1;
      if (way == kWithoutItsFirstThread) {
        std::thread([] {
          // The first thread is a zombie once its state says so.
          for (char state = 0; state != 'Z'; ::sched_yield())
            if (FILE* file = ::fopen(("/proc/" + std::to_string(::getpid()) + "/stat").c_str(), "r")) {
              if (::fscanf(file, "%*d %*s %c", &state) != 1) state = 0;
              ::fclose(file);
            }
          told->store(1);
          for (;;) ::pause();
        }).detach();
        ::syscall(SYS_exit, 0);
      }
      told->store(1);
      if (way == kStopped) ::raise(SIGSTOP);
      for (;;) ::pause();
    });
    wait_until(*ready, 1);
    if (way == kStopped) {
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
      ASSERT_TRUE(WIFSTOPPED(status));
    }
    EXPECT_EQ(watcher.account(0).used(), 6_MiB) << "way " << way;
    ::kill(child, SIGKILL);
    finish(child);
    EXPECT_EQ(watcher.account(0).used(), 0_B) << "way " << way;
  }
}

// As in the containers of one pod: the same process number in two namespaces, and nobody can look at the other's.
TEST_F(BookTest, ProcessesOfOtherPidNamespacesAreToldApartAndReaped) {
  make(10_MiB);
  const SharedWord attached;
  std::vector<pid_t> inits;
  for (int space = 0; space < 2; ++space) {
    inits.push_back(start([&] {
      if (::unshare(CLONE_NEWPID) != 0) return 77;
      const pid_t first = ::fork();  // number 1 in its namespace
      if (first == 0) {
        Book own;
        if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.processes().attach()) ::_exit(1);
        for (int round = 0; round < 20'000; ++round) {
          if (own.account(0).charge(1_MiB) != Charged::kGranted) ::_exit(2);
          own.account(0).refund(1_MiB);
        }
        if (own.account(0).charge(3_MiB) != Charged::kGranted) ::_exit(3);
        (*attached).fetch_add(1);
        for (;;) ::pause();
      }
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      int status = 0;
      ::waitpid(first, &status, 0);
      return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    }));
  }
  for (const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(20); (*attached).load() < 2;) {
    ASSERT_LT(std::chrono::steady_clock::now(), latest) << "they never attached";
    int status = 0;
    for (const pid_t init : inits) {
      if (::waitpid(init, &status, WNOHANG) == init) {
        std::erase(children_, init);
        if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no pid namespaces without privileges here";
        FAIL() << "ended with " << status;
      }
    }
    std::this_thread::yield();
  }
  Book book = open();
  EXPECT_EQ(book.processes().reap(), 0_MiB) << "both live";
  EXPECT_EQ(book.account(0).used(), 6_MiB);
  for (const BookSnapshot& copy = snapshot(); const ProcessSnapshot& process : copy.processes)
    EXPECT_EQ(process.identity.pid, 1);
  // Their namespaces' first processes, by the numbers that they have here.
  for (const pid_t init : inits) {
    std::ifstream children("/proc/" + std::to_string(init) + "/task/" + std::to_string(init) + "/children");
    pid_t first = 0;
    children >> first;
    ASSERT_GT(first, 0);
    ::kill(first, SIGKILL);
    EXPECT_EQ(finish(init), 0);
  }
  EXPECT_EQ(book.processes().reap(), 6_MiB);
  EXPECT_EQ(book.account(0).used(), 0_MiB);
}

TEST_F(BookTest, AProcessThatClosesEveryDescriptorIsStillAlive) {
  make(10_MiB);
  const SharedWord closed, stop;
  const pid_t child = start([&] {
    Book own;
    if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.processes().attach()) return 1;
    if (own.account(0).charge(2_MiB) != Charged::kGranted) return 1;
    for (int descriptor = 0; descriptor < ::getdtablesize() && descriptor < 4096; ++descriptor) ::close(descriptor);
    (*closed).store(1);
    while ((*stop).load() == 0) ::sched_yield();
    return 0;
  });
  wait_until(*closed, 1);
  Book book = open();
  EXPECT_EQ(book.processes().reap(), 0_MiB);
  EXPECT_EQ(book.account(0).used(), 2_MiB);
  (*stop).store(1);
  finish(child);
  EXPECT_EQ(book.processes().reap(), 2_MiB);
}

TEST_F(BookTest, AChildThatOutlivesItsParentDoesNotKeepItAlive) {
  make(10_MiB);
  const SharedWord lives, stop;
  const pid_t parent = start([&] {
    Book own;
    if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.processes().attach()) return 1;
    if (own.account(0).charge(2_MiB) != Charged::kGranted) return 1;
    if (::fork() == 0) {
      (*lives).store(static_cast<std::uint64_t>(::getpid()));
      wait_until(*stop, 1);
      ::_exit(0);
    }
    wait_until(*lives, 1);
    ::_exit(0);  // all that it has open is its child's from here on
  });
  ASSERT_EQ(finish(parent), 0);
  Book book = open();
  EXPECT_EQ(book.processes().reap(), 2_MiB);
  EXPECT_EQ(::kill(static_cast<pid_t>((*lives).load()), 0), 0) << "it is there";
  (*stop).store(1);
}

TEST_F(BookTest, TheLowerOfTheOwnAndTheGivenLimitBinds) {
  make(10_MiB);
  Book book = open(), program = open();
  ASSERT_TRUE(book.processes().attach());
  program.account(0).set_own_limit(4_MiB);
  EXPECT_EQ(book.account(0).limits().binding(), 4_MiB);
  EXPECT_EQ(book.account(0).limits().given, 10_MiB);
  EXPECT_EQ(book.account(0).charge(5_MiB), Charged::kOverLimit);
  ASSERT_EQ(book.account(0).charge(4_MiB), Charged::kGranted);
  book.account(0).set_limit(20_MiB);
  EXPECT_EQ(book.account(0).charge(1_B), Charged::kOverLimit);
  EXPECT_EQ(book.account(0).ceiling(), 4_MiB) << "no daemon can raise what the program itself set";
  program.account(0).set_own_limit(30_MiB);
  EXPECT_EQ(book.account(0).charge(17_MiB), Charged::kOverLimit);
  ASSERT_EQ(book.account(0).charge(16_MiB), Charged::kGranted);
  program.account(0).set_own_limit(6_MiB);
  EXPECT_EQ(book.account(0).used(), 20_MiB) << "shrinking takes nothing away";
  EXPECT_EQ(snapshot().accounts[0].own_limit, 6_MiB);
  EXPECT_EQ(snapshot().accounts[0].limit, 20_MiB);
  program.account(0).set_own_limit(ration::kUnlimited);
  EXPECT_EQ(book.account(0).limits().binding(), 20_MiB);
}

TEST_F(BookTest, TheNextChargeSeesALimitThatAnOutsiderChanged) {
  make(10_MiB);
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  ASSERT_EQ(book.account(0).charge(8_MiB), Charged::kGranted);
  Book outsider = open();
  outsider.account(0).set_limit(4_MiB);
  EXPECT_EQ(book.account(0).charge(1_B), Charged::kOverLimit);
  EXPECT_EQ(book.account(0).used(), 8_MiB) << "shrinking takes nothing away";
  EXPECT_EQ(book.account(0).headroom(), 0_B);
  outsider.account(0).set_limit(9_MiB);
  EXPECT_EQ(book.account(0).charge(1_MiB), Charged::kGranted);
  EXPECT_EQ(snapshot().limit_changes, 2U);
}

TEST_F(BookTest, AReusedProcessNumberIsNotTakenForItsFormerOwner) {
  make(10_MiB);
  const pid_t child = start([&] {
    Book own;
    if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.processes().attach()) return 1;
    return own.account(0).charge(2_MiB) == Charged::kGranted ? 0 : 1;
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
  EXPECT_EQ(book.processes().reap(), 2_MiB);
  EXPECT_EQ(book.account(0).used(), 0_B);
}

TEST_F(BookTest, AWaiterIsWokenByARefundAndByARaisedLimit) {
  make(2_MiB);
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  for (const bool raise : {false, true}) {
    ASSERT_EQ(book.account(0).charge(2_MiB), Charged::kGranted);
    const SharedWord waiting;
    const pid_t child = start([&] {
      Book own;
      if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.processes().attach()) return 1;
      constexpr std::chrono::seconds kLongest{20};
      const auto begun = std::chrono::steady_clock::now();
      own.waiting().begin(0, 1_MiB);
      (*waiting).store(1);
      for (;;) {
        const std::uint32_t seen = own.waiting().generation();
        if (own.account(0).charge(1_MiB) == Charged::kGranted) break;
        own.waiting().wait_for_change(seen, std::chrono::nanoseconds(kLongest).count());
      }
      own.waiting().end();
      own.processes().detach();
      return std::chrono::steady_clock::now() - begun < kLongest ? 0 : 2;  // else nobody woke it
    });
    wait_until(*waiting, 1);
    if (raise)
      book.account(0).set_limit(4_MiB);
    else
      book.account(0).refund(2_MiB);
    EXPECT_EQ(finish(child), 0);
    if (raise) book.account(0).refund(2_MiB);
  }
}

TEST_F(BookTest, DenialsAreNumberedAndTheNewestAreKept) {
  make(1_MiB);
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  for (std::uint64_t i = 1; i <= kDenialRing + 10; ++i) {
    EXPECT_EQ(book.denials().record(0, Bytes{i}, DenialReason::kLimit, "cuMemAlloc", 5, 0), i);
  }
  const BookSnapshot copy = snapshot();
  ASSERT_EQ(copy.denials.size(), kDenialRing);
  EXPECT_EQ(copy.denials.front().sequence, 11U);
  EXPECT_EQ(copy.denials.back().requested.count(), kDenialRing + 10);
  EXPECT_EQ(copy.denials.back().function, "cuMemAlloc");
  EXPECT_EQ(copy.accounts[0].denials, kDenialRing + 10);
}

TEST_F(BookTest, ADenialThatIsBeingWrittenIsReadOnceItsEntryIsThere) {
  make(1_MiB);
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  const int file = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
  auto* layout =
      static_cast<BookLayout*>(::mmap(nullptr, sizeof(BookLayout), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  ::close(file);
  BookReader reader;
  ASSERT_EQ(BookReader::open(path_.c_str(), reader), BookStatus::kOk);
  BookSnapshot copy;
  const auto read = [&] {
    std::vector<std::uint64_t> numbers;
    EXPECT_EQ(reader.read(copy, copy.denial_count), BookStatus::kOk);
    for (const Denial& denial : copy.denials) numbers.push_back(denial.sequence);
    return numbers;
  };
  using Numbers = std::vector<std::uint64_t>;
  const auto write = [&](std::uint64_t number) { layout->denials[(number - 1) % kDenialRing].sequence = number; };
  layout->header.denial_count = 2;  // both count, and neither has been begun
  EXPECT_EQ(read(), Numbers{});
  write(2);
  EXPECT_EQ(read(), Numbers{2});
  layout->denials[0].sequence = kBeingWritten | 1;
  EXPECT_EQ(read(), Numbers{});
  write(1);
  EXPECT_EQ(read(), Numbers{1});
  write(3);  // after the count was read
  EXPECT_EQ(read(), Numbers{}) << "it does not count yet";
  layout->header.denial_count = 3;
  EXPECT_EQ(read(), Numbers{3});
  layout->header.denial_count = 4 + kDenialRing;  // number 4 was never written, by somebody who was killed, say
  for (std::uint64_t number = 5; number <= 4 + kDenialRing; ++number) write(number);
  EXPECT_EQ(read().size(), kDenialRing);
  EXPECT_EQ(read(), Numbers{}) << "what was overwritten is waited for no longer";
  layout->header.denial_count = 9000;
  EXPECT_EQ(read(), Numbers{});
  layout->header.denial_count = 8000;  // as a program can write
  EXPECT_EQ(read(), Numbers{});
  write(9000);
  EXPECT_EQ(read(), Numbers{}) << "nor is what counts no longer";
  ::munmap(layout, sizeof(BookLayout));
}

TEST_F(BookTest, AChildOfForkHoldsNothingOfItsParent) {
  make(10_MiB);
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  ASSERT_EQ(book.account(0).charge(3_MiB), Charged::kGranted);
  const pid_t child = start([&] {
    book.processes().forget_slot();
    if (!book.processes().attach() || book.account(0).held_by_this_process() != 0_B) return 1;
    return book.account(0).charge(1_MiB) == Charged::kGranted && book.account(0).used() == 4_MiB ? 0 : 2;
  });
  EXPECT_EQ(finish(child), 0);
  EXPECT_EQ(book.processes().reap(), 1_MiB);
  EXPECT_EQ(book.account(0).used(), 3_MiB);
}

}  // namespace

}  // namespace ration::book
