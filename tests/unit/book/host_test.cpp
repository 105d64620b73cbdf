// The account of pinned host memory, beside those of devices.
#include <fcntl.h>
#include <sys/mman.h>

#include <random>

#include "book/layout.hpp"
#include "book_fixture.hpp"

namespace ration::book {
namespace {

using namespace literals;

class HostTest : public BookTest {
 protected:
  void make_limited(Bytes host_limit) {
    NewBook contents = one_device(64_MiB);
    contents.host_limit = host_limit;
    ASSERT_EQ(Book::create(path_.c_str(), contents), BookStatus::kOk);
  }

  /// Maps the book's file, for changes that no function makes.
  [[nodiscard]] BookLayout* layout() const {
    const FileDescriptor file{::open(path_.c_str(), O_RDWR | O_CLOEXEC)};
    return static_cast<BookLayout*>(
        ::mmap(nullptr, sizeof(BookLayout), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
  }
};

TEST_F(HostTest, RandomChargesOfHostAndDeviceDoNotMix) {
  make_limited(1000_B);
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  book.account(0).set_limit(700_B);
  struct Side {
    std::uint32_t account;
    std::uint64_t limit, sum = 0, peak = 0;
    std::vector<std::uint64_t> held{};
  };
  Side sides[] = {{0, 700}, {kHostAccount, 1000}};
  std::mt19937 random(1);
  for (int step = 0; step < 100'000; ++step) {
    Side& side = sides[random() % 2];
    const Account account = book.account(side.account);
    if (random() % 20 == 0) {
      side.limit = random() % 1500;
      account.set_limit(Bytes{side.limit});
    } else if (random() % 2 == 0) {
      const std::uint64_t size = random() % 300;
      const bool fits = side.sum + size <= side.limit;
      ASSERT_EQ(account.charge(Bytes{size}, random() % 2 == 0 ? Kind::kHeap : Kind::kPool) == Charged::kGranted, fits);
      if (fits) side.held.push_back(size), side.sum += size, side.peak = std::max(side.peak, side.sum);
    } else if (!side.held.empty()) {
      std::swap(side.held[random() % side.held.size()], side.held.back());
      account.refund(Bytes{side.held.back()});
      side.sum -= side.held.back();
      side.held.pop_back();
    }
    ASSERT_EQ(account.used().count(), side.sum);
  }
  const BookSnapshot now = snapshot();
  EXPECT_EQ(now.accounts[0].used.count(), sides[0].sum);
  EXPECT_EQ(now.host.used.count(), sides[1].sum);
  EXPECT_EQ(now.host.peak.count(), sides[1].peak);
  EXPECT_EQ(now.processes[0].host.count(), sides[1].sum);
}

// As BookTest.DeathAtEveryStepOfAChangeRefundsWhatWasHeld, on the host's account.
TEST_F(HostTest, DeathAtEveryStepOfAChangeRefundsWhatWasHeld) {
  enum Step { kPrepared, kAnnounced, kMade, kEntered, kWithdrawn };
  for (const Step step : {kPrepared, kAnnounced, kMade, kEntered, kWithdrawn}) {
    ::unlink(path_.c_str());
    make_limited(64_MiB);
    Book other = open();
    ASSERT_TRUE(other.processes().attach());
    ASSERT_EQ(other.account(kHostAccount).charge(1_MiB), Charged::kGranted);
    const SharedWord stopped;
    const pid_t child = start([&] {
      Book own;
      if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.processes().attach()) return 1;
      if (own.account(kHostAccount).charge(4_MiB) != Charged::kGranted) return 1;
      BookLayout& book = *layout();
      SlotRecord& slot = book.slots[1];
      const std::uint64_t number = slot.host.changes.load() + 1;
      slot.change.store(kPreparing);
      slot.change_held.store((12_MiB).count());
      if (step >= kAnnounced) slot.change.store(announced(number, kHostAccount));
      if (step >= kMade)
        book.host.usage.store(usage_word(used_bytes(book.host.usage.load()) + (8_MiB).count(), 1, number));
      if (step >= kEntered) slot.host.held.store((12_MiB).count());
      if (step >= kWithdrawn) slot.host.changes.store(number), slot.change.store(kNoChange);
      (*stopped).store(1);
      for (;;) ::pause();
    });
    wait_until(*stopped, 1);
    ASSERT_EQ(other.account(kHostAccount).charge(1_MiB), Charged::kGranted);
    EXPECT_EQ(host_held_by_living(snapshot()), other.account(kHostAccount).used()) << "step " << step;
    ::kill(child, SIGKILL);
    finish(child);
    EXPECT_EQ(other.processes().reap(), step >= kMade ? 12_MiB : 4_MiB) << "step " << step;
    EXPECT_EQ(other.account(kHostAccount).used(), 2_MiB) << "step " << step;
    EXPECT_EQ(other.account(0).used(), 0_B);
  }
}

TEST_F(HostTest, ALimitBelowWhatIsPinnedTakesNothingAwayAndGrantsNothing) {
  make_limited(kUnlimited);
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  const Account host = book.account(kHostAccount);
  ASSERT_EQ(host.charge(10_GiB), Charged::kGranted);
  host.set_limit(4_GiB);
  EXPECT_EQ(host.used(), 10_GiB);
  EXPECT_EQ(host.charge(4_KiB), Charged::kOverLimit);
  host.refund(7_GiB);
  EXPECT_EQ(host.charge(1_GiB), Charged::kGranted);
  EXPECT_EQ(host.charge(4_KiB), Charged::kOverLimit);
  host.set_own_limit(2_GiB);
  EXPECT_EQ(host.limits().binding(), 2_GiB);
  EXPECT_EQ(snapshot().host.in_force(), 2_GiB);
}

TEST_F(HostTest, ADenialIsTheHostsAndOfNoDevice) {
  make_limited(4_MiB);
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  ASSERT_EQ(book.account(kHostAccount).charge(3_MiB), Charged::kGranted);
  book.denials().record(kHostAccount, 2_MiB, DenialReason::kHostLimit, "cuMemHostAlloc", kUnknownBytes, 0);
  const BookSnapshot now = snapshot();
  ASSERT_EQ(now.denials.size(), 1U);
  EXPECT_EQ(now.denials[0].account, kHostAccount);
  EXPECT_EQ(now.denials[0].used, 3_MiB);
  EXPECT_EQ(now.denials[0].limit, 4_MiB);
  EXPECT_EQ(now.host.denials, 1U);
  EXPECT_EQ(now.accounts[0].denials, 0U);
}

TEST_F(HostTest, SharedMemoryOfTheHostStaysChargedWhileAnybodyHoldsIt) {
  make_limited(64_MiB);
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  ASSERT_EQ(book.account(kHostAccount).charge(6_MiB), Charged::kGranted);
  const std::uint64_t number = book.shared_memory().share(kHostAccount, 6_MiB, Kind::kPool);
  const SharedWord joined, leave;
  const pid_t child = start([&] {
    Book own;
    SharedMemory::Found found;
    if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.processes().attach()) return 1;
    if (!own.shared_memory().join(number, found) || found.account != kHostAccount) return 1;
    (*joined).store(1);
    wait_until(*leave, 1);
    return 0;
  });
  wait_until(*joined, 1);
  book.shared_memory().give_up(number, kHostAccount, 6_MiB, Kind::kPool);
  EXPECT_EQ(book.account(kHostAccount).used(), 6_MiB);
  EXPECT_EQ(host_held_by_living(snapshot()), 6_MiB);
  (*leave).store(1);
  EXPECT_EQ(finish(child), 0);
  EXPECT_EQ(book.account(kHostAccount).used(), 0_B);
}

// A process of the version that made such a book would refund nothing of the host's for dead ones.
TEST_F(HostTest, ABookOfAnOlderVersionCountsNone) {
  make_limited(64_MiB);
  std::memset(static_cast<void*>(&layout()->host), 0, sizeof(HostRecord));
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  EXPECT_FALSE(book.counts_host());
  EXPECT_EQ(book.account(kHostAccount).charge(1_MiB), Charged::kNoAccount);
  book.account(kHostAccount).refund(1_MiB);
  book.account(kHostAccount).set_limit(1_MiB);
  EXPECT_EQ(book.account(kHostAccount).used(), 0_B);
  EXPECT_FALSE(snapshot().host.counted);
  EXPECT_EQ(snapshot().host.in_force(), kUnlimited);
  EXPECT_EQ(book.account(0).charge(1_MiB), Charged::kGranted);
}

}  // namespace
}  // namespace ration::book
