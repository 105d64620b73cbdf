// Memory that several processes hold: charged once, for as long as anybody holds it, whoever was killed meanwhile.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "base/descriptor_message.hpp"
#include "book/descriptor_label.hpp"
#include "book/layout.hpp"
#include "book_fixture.hpp"

namespace ration::book {
namespace {

using namespace literals;

class SharedTest : public BookTest {
 protected:
  void SetUp() override {
    BookTest::SetUp();
    control_ = folder_ + "/control";
    FileDescriptor made{::open(control_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
    make(64_MiB);
  }
  void TearDown() override {
    ::unlink(control_.c_str());
    BookTest::TearDown();
  }
  [[nodiscard]] Book attached() const {
    Book book = open();
    EXPECT_TRUE(book.processes().attach());
    return book;
  }
  [[nodiscard]] FileDescriptor descriptor() const {
    return FileDescriptor{::open(control_.c_str(), O_RDWR | O_CLOEXEC)};
  }
  /// Takes and lends, as whoever exports does; the memory's number.
  static std::uint64_t lend(Book& book, Bytes size, std::uint64_t key) {
    EXPECT_EQ(book.account(0).charge(size), Charged::kGranted);
    const std::uint64_t number = book.shared_memory().share(0, size, Kind::kHeap);
    EXPECT_TRUE(book.shared_memory().add_name(number, key));
    return number;
  }
  [[nodiscard]] FileDescriptor export_as_descriptor(Book& book, std::uint64_t number, Bytes size) const {
    FileDescriptor made = descriptor();
    book.shared_memory().note_descriptor(number, made.get(), set_label(made.get(), {number, size}));
    return made;
  }
  /// Runs `work` in a process of its own with a book of its own.
  template <typename Work>
  pid_t start_with_book(Work&& work) {
    return start([&] {
      Book own;
      if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.processes().attach()) return 1;
      return work(own);
    });
  }

  std::string control_;
  static constexpr std::uint64_t kKey = 77;
};

TEST_F(SharedTest, IsChargedOnceForAsLongAsAnybodyHoldsIt) {
  Book lender = attached(), other = attached(), third = attached();
  const std::uint64_t number = lend(lender, 6_MiB, kKey);
  SharedMemory::Found found;
  ASSERT_TRUE(other.shared_memory().join(kKey, found));
  ASSERT_TRUE(third.shared_memory().join(number, found)) << "by its number, too";
  EXPECT_EQ(found.number, number);
  EXPECT_EQ(found.size, 6_MiB);
  EXPECT_EQ(other.account(0).used(), 6_MiB);
  EXPECT_EQ(snapshot().accounts[0].shared, 6_MiB);
  EXPECT_EQ(snapshot().processes[1].shared[0], 6_MiB);
  EXPECT_EQ(snapshot().processes[1].held[0], 0_B);
  lender.shared_memory().give_up(number, 0, 6_MiB, Kind::kHeap);
  EXPECT_EQ(lender.account(0).held_by_this_process(), 0_B);
  EXPECT_EQ(other.account(0).used(), 6_MiB) << "the others keep it";
  EXPECT_EQ(snapshot().accounts[0].kept, 6_MiB);
  other.shared_memory().leave(number);
  EXPECT_EQ(other.account(0).used(), 6_MiB);
  third.shared_memory().leave(number);
  EXPECT_EQ(other.account(0).used(), 0_B);
  EXPECT_FALSE(other.shared_memory().join(kKey, found)) << "its name went with it";
}

TEST_F(SharedTest, IsRefundedAtOnceWhereNobodyElseHoldsIt) {
  Book book = attached();
  const std::uint64_t number = lend(book, 6_MiB, kKey);
  book.shared_memory().give_up(number, 0, 2_MiB, Kind::kHeap);
  EXPECT_EQ(book.account(0).used(), 4_MiB);
  book.shared_memory().give_up(number, 0, 4_MiB, Kind::kHeap);
  EXPECT_EQ(book.account(0).used(), 0_B);
  EXPECT_EQ(snapshot().accounts[0].shared, 0_B);
}

TEST_F(SharedTest, OfADeadLenderStaysChargedUntilTheLastHolderHasGone) {
  Book book = attached();
  const pid_t lender = start_with_book([&](Book& own) {
    if (own.account(0).charge(3_MiB) != Charged::kGranted) return 1;
    lend(own, 6_MiB, kKey);
    ::pause();
    return 0;
  });
  SharedMemory::Found found;
  while (!book.shared_memory().join(kKey, found)) ::sched_yield();
  ::kill(lender, SIGKILL);
  finish(lender);
  EXPECT_EQ(book.processes().reap(), 3_MiB);
  EXPECT_EQ(book.account(0).used(), 6_MiB);
  EXPECT_EQ(book.processes().reap(), 0_B);
  book.shared_memory().leave(found.number);
  EXPECT_EQ(book.account(0).used(), 0_B);
}

TEST_F(SharedTest, WhoWatchesSeesWhatSettlingWillFind) {
  Book book = attached();
  const pid_t lender = start_with_book([&](Book& own) {
    lend(own, 6_MiB, kKey);
    const std::uint64_t number = lend(own, 4_MiB, kKey + 1);
    const FileDescriptor exported = export_as_descriptor(own, number, 4_MiB);
    ::pause();
    return 0;
  });
  SharedMemory::Found found, exported;
  while (!book.shared_memory().join(kKey + 1, exported)) ::sched_yield();
  while (snapshot().shared_memory.back().control_inode == 0) ::sched_yield();
  ASSERT_TRUE(book.shared_memory().join(kKey, found));
  book.shared_memory().leave(exported.number);
  const auto seen = [&](bool lender_lives) {
    BookSnapshot now = snapshot();
    if (!lender_lives) std::erase_if(now.processes, [&](const auto& each) { return each.identity.pid == lender; });
    return held_by_living(now)[0];
  };
  EXPECT_EQ(seen(true), 10_MiB);
  ::kill(lender, SIGKILL);
  finish(lender);
  EXPECT_EQ(seen(false), 6_MiB) << "its descriptor went with it, what was joined stays";
  EXPECT_EQ(snapshot().accounts[0].used, 10_MiB) << "nothing was written";
  book.processes().reap();
  EXPECT_EQ(book.account(0).used(), 6_MiB);
  EXPECT_EQ(seen(false), 6_MiB);
  book.shared_memory().leave(found.number);
  EXPECT_EQ(seen(false), 0_B);
}

// A lender ends, is killed and reaped, or gives up what it lent, while another process holds that.
TEST_F(SharedTest, WhoWatchesSeesTheSameWhateverBecomesOfTheLender) {
  constexpr int kPieces = 30;
  enum class End { kKilled, kDetached, kGivenUp };
  for (int round = 0; round < 150 && !HasFailure(); ++round) {
    const auto end = static_cast<End>(round % 3);
    Book book = attached();
    int go[2];
    ASSERT_EQ(::pipe(go), 0);
    const pid_t lender = start_with_book([&](Book& own) {
      std::vector<std::uint64_t> numbers;
      for (int piece = 0; piece < kPieces; ++piece) numbers.push_back(lend(own, 2_MiB, kKey + piece));
      char byte = 0;
      (void)!::read(go[0], &byte, 1);
      if (end == End::kGivenUp)
        for (const std::uint64_t number : numbers) own.shared_memory().give_up(number, 0, 2_MiB, Kind::kHeap);
      own.processes().detach();
      return 0;
    });
    std::vector<SharedMemory::Found> found(kPieces);
    for (int piece = 0; piece < kPieces; ++piece)
      while (!book.shared_memory().join(kKey + piece, found[piece])) ::sched_yield();
    std::atomic<bool> has_ended{false};
    std::thread others([&] {
      if (end == End::kKilled) ::kill(lender, SIGKILL);
      (void)!::write(go[1], "", 1);
      finish(lender);
      book.processes().reap();
      has_ended = true;
    });
    Bytes least = kUnlimited, most;
    for (bool last = false; !last;) {
      last = has_ended;
      const Bytes held = held_by_living(snapshot())[0];
      least = std::min(least, held);
      most = std::max(most, held);
    }
    others.join();
    ::close(go[0]);
    ::close(go[1]);
    EXPECT_EQ(least, 2_MiB * kPieces);
    // What is given up piece by piece is charged twice for an instant.
    EXPECT_LE(most, 2_MiB * (end == End::kGivenUp ? kPieces + 1 : kPieces));
    for (const SharedMemory::Found& each : found) book.shared_memory().leave(each.number);
    EXPECT_EQ(held_by_living(snapshot())[0], 0_B);
    book.processes().detach();
  }
}

TEST_F(SharedTest, ADeadHolderHoldsNothing) {
  Book book = attached();
  const std::uint64_t number = lend(book, 6_MiB, kKey);
  ASSERT_EQ(finish(start_with_book([&](Book& own) {
              SharedMemory::Found found;
              return own.shared_memory().join(kKey, found) ? 0 : 1;
            })),
            0);
  book.shared_memory().give_up(number, 0, 6_MiB, Kind::kHeap);
  EXPECT_EQ(snapshot().accounts[0].used, 6_MiB) << "nobody has looked yet";
  EXPECT_EQ(book.account(0).used(), 0_B);
}

TEST_F(SharedTest, OfAnotherWorkloadIsChargedToTheFirstWhoBringsItIn) {
  Book first = attached(), second = attached();
  std::uint64_t number = 0, same = 0;
  ASSERT_EQ(first.account(0).charge(6_MiB), Charged::kGranted);
  EXPECT_FALSE(first.shared_memory().join_or_enter(kKey, 0, 6_MiB, number));
  ASSERT_EQ(second.account(0).charge(6_MiB), Charged::kGranted);
  ASSERT_TRUE(second.shared_memory().join_or_enter(kKey, 0, 6_MiB, same));
  EXPECT_EQ(same, number);
  second.account(0).refund(6_MiB);
  first.shared_memory().give_up(number, 0, 6_MiB, Kind::kHeap);
  EXPECT_EQ(first.account(0).used(), 6_MiB);
  second.shared_memory().leave(number);
  EXPECT_EQ(first.account(0).used(), 0_B);
}

TEST_F(SharedTest, ADescriptorHoldsItWhereverItIs) {
  Book book = attached();
  const std::uint64_t number = lend(book, 6_MiB, kKey);
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  {
    const FileDescriptor sent = export_as_descriptor(book, number, 6_MiB);
    ASSERT_TRUE(send_message(pair[0], char{0}, sent.get()));
  }
  book.shared_memory().give_up(number, 0, 6_MiB, Kind::kHeap);
  book.shared_memory().settle();
  EXPECT_EQ(book.account(0).used(), 6_MiB) << "in flight";
  ::close(pair[0]);
  ::close(pair[1]);  // the kernel drops what nobody received
  book.shared_memory().settle();
  EXPECT_EQ(book.account(0).used(), 0_B);
}

TEST_F(SharedTest, TheLastCopyOfADescriptorThatIsClosedLetsGo) {
  Book book = attached();
  const std::uint64_t number = lend(book, 6_MiB, kKey);
  FileDescriptor copy;
  {
    const FileDescriptor sent = export_as_descriptor(book, number, 6_MiB);
    copy = FileDescriptor{::dup(sent.get())};
  }
  EXPECT_EQ(read_label(copy.get()).number, number);
  EXPECT_EQ(read_label(copy.get()).size, 6_MiB);
  EXPECT_EQ(read_label(descriptor().get()).number, 0U) << "another one of the same file";
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = start([&] {  // inherits it
    const char byte = 0;
    (void)!::write(ready[1], &byte, 1);
    ::pause();
    return 0;
  });
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  { const FileDescriptor closed = std::move(copy); }
  book.shared_memory().give_up(number, 0, 6_MiB, Kind::kHeap);
  EXPECT_EQ(book.account(0).used(), 6_MiB);
  ::kill(child, SIGKILL);
  finish(child);
  book.shared_memory().settle();
  EXPECT_EQ(book.account(0).used(), 0_B);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(SharedTest, ExportedClosedAndFreedAgainAndAgainLeavesNothing) {
  Book book = attached();
  for (int round = 0; round < 1000; ++round) {
    const std::uint64_t number = lend(book, 6_MiB, kKey);
    const bool closed_first = round % 2 == 0;
    {
      const FileDescriptor made = export_as_descriptor(book, number, 6_MiB);
      if (!closed_first) book.shared_memory().give_up(number, 0, 6_MiB, Kind::kHeap);
    }
    if (closed_first) book.shared_memory().give_up(number, 0, 6_MiB, Kind::kHeap);
    book.shared_memory().settle();
    ASSERT_EQ(book.account(0).used(), 0_B) << round;
  }
}

TEST_F(SharedTest, WhereDescriptorsCannotBeLabelledItStaysCharged) {
  Book book = attached();
  const std::uint64_t number = lend(book, 6_MiB, kKey);
  book.shared_memory().note_descriptor(number, descriptor().get(), false);
  book.shared_memory().give_up(number, 0, 6_MiB, Kind::kHeap);
  book.shared_memory().settle();
  EXPECT_EQ(book.account(0).used(), 6_MiB);
}

TEST_F(SharedTest, APoolLivesWhileAPieceIsHeldThatItsMakerHasFreed) {
  Book pool = attached(), other = attached();
  ASSERT_EQ(pool.account(0).charge(32_MiB, Kind::kPool), Charged::kGranted);
  const std::uint64_t whole = pool.shared_memory().share(0, 32_MiB, Kind::kPool);
  const std::uint64_t piece = pool.shared_memory().share(0, 0_B, Kind::kPool, whole);
  ASSERT_TRUE(pool.shared_memory().add_name(piece, kKey));
  SharedMemory::Found found;
  ASSERT_TRUE(other.shared_memory().join(kKey, found));
  pool.shared_memory().give_up(whole, 0, 16_MiB, Kind::kPool);
  EXPECT_EQ(pool.account(0).used(), 16_MiB) << "what shrinks while its maker holds the piece is not the piece";
  pool.shared_memory().leave(piece);
  pool.shared_memory().give_up(whole, 0, 16_MiB, Kind::kPool);
  EXPECT_EQ(pool.account(0).used(), 16_MiB);
  other.shared_memory().leave(piece);
  EXPECT_EQ(pool.account(0).used(), 0_B);
  EXPECT_EQ(snapshot().processes[0].pooled[0], 0_B);
}

TEST_F(SharedTest, WhoIsStoppedInsideDelaysNobodyForLongAndNothingIsLost) {
  Book lender = attached(), other = attached();
  const std::uint64_t number = lend(lender, 6_MiB, kKey);
  SharedMemory::Found found;
  ASSERT_TRUE(other.shared_memory().join(kKey, found));
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t stopped = start([&] {
    const FileDescriptor file{::open(path_.c_str(), O_RDWR)};
    void* address = ::mmap(nullptr, sizeof(BookLayout), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    ::pthread_mutex_lock(&static_cast<BookLayout*>(address)->shared.lock);
    const char byte = 0;
    (void)!::write(ready[1], &byte, 1);
    ::pause();
    return 0;
  });
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_FALSE(lender.shared_memory().join(number, found));
  EXPECT_EQ(lender.account(0).charge(2_MiB), Charged::kGranted) << "charges are not concerned at all";
  lender.account(0).refund(2_MiB);
  other.shared_memory().leave(number);
  lender.shared_memory().give_up(number, 0, 6_MiB, Kind::kHeap);
  EXPECT_EQ(lender.account(0).used(), 6_MiB) << "until it can be settled";
  ::kill(stopped, SIGKILL);
  finish(stopped);
  lender.shared_memory().settle();
  EXPECT_EQ(lender.account(0).used(), 0_B);
  ::close(ready[0]);
  ::close(ready[1]);
}

// Eight processes lend, join, leave and give up at random and are killed after a random number of steps.
TEST_F(SharedTest, KilledAnywhereProcessesLeaveNothingAndTheLimitHolds) {
  Book watcher = attached();
  auto* steps = static_cast<std::atomic<std::uint64_t>*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::mt19937_64 random(7);
  const auto work = [&](int place, std::uint64_t seed) {
    return start_with_book([&, place, seed](Book& own) {
      std::mt19937_64 dice(seed);
      std::vector<std::uint64_t> lent, joined;
      for (;;) {
        steps[place].fetch_add(1);
        SharedMemory::Found found;
        const std::uint64_t key = 1 + dice() % 5;
        switch (dice() % 4) {
          case 0:
            if (lent.size() < 3 && own.account(0).charge(4_MiB) == Charged::kGranted) {
              lent.push_back(own.shared_memory().share(0, 4_MiB, Kind::kHeap));
              own.shared_memory().add_name(lent.back(), key);
            }
            break;
          case 1:
            if (own.shared_memory().join(key, found)) joined.push_back(found.number);
            break;
          case 2:
            if (!joined.empty()) {
              const std::uint64_t number = joined.back();
              std::erase(joined, number);
              own.shared_memory().leave(number);
            }
            break;
          default:
            if (!lent.empty()) {
              own.shared_memory().give_up(lent.back(), 0, 4_MiB, Kind::kHeap);
              lent.pop_back();
            }
        }
      }
      return 0;
    });
  };
  constexpr int kProcesses = 8;
  pid_t running[kProcesses] = {};
  for (int killed = 0; killed < 150; ++killed) {
    const int place = static_cast<int>(random() % kProcesses);
    for (int each = 0; each < kProcesses; ++each) {
      if (running[each] == 0) running[each] = work(each, random());
    }
    const std::uint64_t until = steps[place] + 1 + random() % 50;
    while (steps[place] < until) ::sched_yield();
    ::kill(running[place], SIGKILL);
    finish(running[place]);
    running[place] = 0;
    // What becomes common is charged twice for an instant, never to nobody: of one process at a time, and of the killed
    // one until it is reaped.
    EXPECT_LE(snapshot().accounts[0].used, 64_MiB + 4_MiB * 2);
    watcher.processes().reap();
  }
  for (pid_t& child : running) {
    if (child == 0) continue;
    ::kill(child, SIGKILL);
    finish(child);
  }
  watcher.processes().reap();
  watcher.shared_memory().settle();
  EXPECT_EQ(watcher.account(0).used(), 0_B);
  EXPECT_EQ(snapshot().accounts[0].kept, 0_B);
  EXPECT_EQ(snapshot().accounts[0].shared, 0_B);
  EXPECT_EQ(watcher.account(0).charge(64_MiB), Charged::kGranted) << "all of it is there again";
  ::munmap(steps, 4096);
}

}  // namespace
}  // namespace ration::book
