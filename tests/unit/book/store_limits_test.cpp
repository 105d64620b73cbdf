// Limits stored by an outsider into books that their owners damage meanwhile.
#include "book/store_limits.hpp"

#include <fcntl.h>

#include <array>
#include <atomic>
#include <thread>

#include "book/layout.hpp"
#include "book_fixture.hpp"

namespace ration::book {
namespace {

using namespace literals;

class StoreLimits : public BookTest {
 protected:
  [[nodiscard]] BookStatus store(const LimitChange& change, std::uint32_t owner = ::getuid()) const {
    const FileDescriptor book{::open(path_.c_str(), O_RDONLY | O_CLOEXEC)};
    return store_limits(book.get(), owner, {change});
  }
};

TEST_F(StoreLimits, TheNextChargeSeesThem) {
  make(8_MiB);
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  ASSERT_EQ(book.account(0).charge(6_MiB), Charged::kGranted);
  EXPECT_EQ(store({0, 4_MiB, 1_MiB}), BookStatus::kOk);
  EXPECT_EQ(book.account(0).charge(1_MiB), Charged::kOverLimit);
  EXPECT_EQ(store({0, 16_MiB, std::nullopt}), BookStatus::kOk);
  EXPECT_EQ(book.account(0).charge(10_MiB), Charged::kGranted);
  EXPECT_EQ(snapshot().accounts.front().guarantee, 1_MiB);
}

TEST_F(StoreLimits, ProgramsSeeTheGrantedLimitAndWhatTheDaemonRaisesItToWhileItLives) {
  make(16_MiB);
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  ASSERT_EQ(book.account(0).charge(2_MiB), Charged::kGranted);
  const auto visible = [&] {
    const Account::Visible all = book.account(0).visible(64_MiB, 64_MiB);
    return std::array{all.total, all.free, all.used};
  };
  using Figures = std::array<Bytes, 3>;
  EXPECT_EQ(visible(), (Figures{16_MiB, 14_MiB, 2_MiB}));
  {
    const FileDescriptor daemon{::open(path_.c_str(), O_RDONLY | O_CLOEXEC)};
    const LimitChange lowered{0, 4_MiB, std::nullopt, 16_MiB, 16_MiB, 10_MiB};
    ASSERT_EQ(store_limits(daemon.get(), ::getuid(), {lowered}), BookStatus::kOk);
    EXPECT_EQ(visible(), (Figures{16_MiB, 8_MiB, 2_MiB}));
    EXPECT_EQ(snapshot().accounts.front().reach, 10_MiB);
  }
  EXPECT_EQ(visible(), (Figures{16_MiB, 2_MiB, 2_MiB})) << "the daemon has ended";
  book.account(0).set_own_limit(12_MiB);
  EXPECT_EQ(visible(), (Figures{12_MiB, 2_MiB, 2_MiB}));
  book.account(0).set_limit(8_MiB);
  EXPECT_EQ(visible(), (Figures{8_MiB, 6_MiB, 2_MiB}));
}

TEST_F(StoreLimits, AnOlderBookHasTheLimitInForceAlone) {
  make(16_MiB);
  Book book = open();
  ASSERT_EQ(store({0, 4_MiB, std::nullopt}), BookStatus::kOk);  // as a daemon does that knows of no other
  EXPECT_EQ(book.account(0).granted(), 4_MiB);
  EXPECT_EQ(book.account(0).visible(64_MiB, 64_MiB).total, 4_MiB);
}

TEST_F(StoreLimits, SomebodySleepingForBytesIsWoken) {
  make(1_MiB);
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  std::atomic<bool> waits{false};
  std::thread sleeper([&] {
    const std::uint32_t seen = book.waiting().generation();
    book.waiting().begin(0, 1_MiB);
    waits = true;
    while (book.account(0).charge(4_MiB) != Charged::kGranted) book.waiting().wait_for_change(seen, 60'000'000'000U);
    book.waiting().end();
  });
  while (!waits) std::this_thread::yield();
  EXPECT_EQ(store({0, 8_MiB, std::nullopt}), BookStatus::kOk);
  sleeper.join();  // would take a minute if nobody woke it
}

TEST_F(StoreLimits, WhatWasFoundOfProcessesThatHaveEndedIsNotStored) {
  make(8_MiB);
  const FileDescriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC)};
  const auto find = [&](const BookSnapshot& read, Bytes found) {
    EXPECT_EQ(store_unrequested(file.get(), ::getuid(), 0, read.accounts.front(), found), BookStatus::kOk);
  };
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  const BookSnapshot before = snapshot();
  find(before, 4_MiB);
  EXPECT_EQ(book.account(0).charge(5_MiB), Charged::kOverLimit);
  EXPECT_EQ(book.account(0).charge(4_MiB), Charged::kGranted);
  book.processes().detach();
  EXPECT_EQ(snapshot().accounts.front().unrequested, 0_MiB) << "it goes with the last process";
  ASSERT_TRUE(book.processes().attach());
  find(before, 4_MiB);
  EXPECT_EQ(snapshot().accounts.front().unrequested, 0_MiB) << "it was 0 before, too, but of another process";
  find(snapshot(), 6_MiB);
  EXPECT_EQ(book.account(0).headroom(), 2_MiB);
}

TEST_F(StoreLimits, TheFileOfAnotherUserIsNotTouched) {
  make(8_MiB);
  EXPECT_EQ(store({0, 4_MiB, std::nullopt}, ::getuid() + 1), BookStatus::kForeign);
  EXPECT_EQ(snapshot().accounts.front().limit, 8_MiB);
}

TEST_F(StoreLimits, TheFileThatIsOpenIsWrittenWhateverLiesAtItsPath) {
  make(8_MiB);
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  const FileDescriptor known{::open(path_.c_str(), O_RDONLY | O_CLOEXEC)};
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  make(64_MiB);
  EXPECT_EQ(store_limits(known.get(), ::getuid(), {{0, 4_MiB, std::nullopt}}), BookStatus::kOk);
  EXPECT_EQ(book.account(0).charge(5_MiB), Charged::kOverLimit);
  EXPECT_EQ(snapshot().accounts.front().limit, 64_MiB) << "what was put there is somebody else's";
}

TEST_F(StoreLimits, AFileCutShortIsAnErrorNotACrash) {
  make(8_MiB);
  for (const off_t size : {off_t{0}, off_t{100}, off_t{4096}}) {
    ASSERT_EQ(::truncate(path_.c_str(), size), 0);
    EXPECT_NE(store({0, 4_MiB, std::nullopt}), BookStatus::kOk);
  }
}

TEST_F(StoreLimits, AFileCutShortWhileItIsWrittenIsAnErrorNotACrash) {
  make(8_MiB);
  std::atomic<bool> stop{false};
  std::thread vandal([&] {
    while (!stop) {
      (void)::truncate(path_.c_str(), 4096);
      (void)::truncate(path_.c_str(), sizeof(BookLayout));
    }
  });
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    const BookStatus status = store({0, 4_MiB, std::nullopt});
    refused += status == BookStatus::kTruncated;
  }
  stop = true;
  vandal.join();
  EXPECT_GT(refused, 0) << "the vandal never came in between";
}

}  // namespace
}  // namespace ration::book
