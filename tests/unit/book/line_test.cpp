// The line of the threads that wait for memory of one account: who comes first, and who is passed over.
#include <fcntl.h>

#include <random>

#include "base/file.hpp"
#include "book/layout.hpp"
#include "book_fixture.hpp"

namespace ration::book {
namespace {

using namespace literals;

// A line alternates between closed and open: what is due while it is closed is tried until it is.
TEST_F(BookTest, ARequestThatFitsStandsBehindOneThatCameEarlierAndWaits) {
  make(10_MiB);
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  const Waiting waiting = book.waiting();
  const auto charge_elsewhere = [&] {
    Charged result{};
    std::thread([&] { result = book.account(0).charge(1_MiB); }).join();
    if (result == Charged::kGranted) book.account(0).refund(1_MiB);
    return result;
  };
  {
    PlaceInLine place = waiting.place_in_line(0);
    EXPECT_EQ(charge_elsewhere(), Charged::kGranted) << "nothing is behind a place that was never renewed";
    while (charge_elsewhere() != Charged::kBehind) place.renew();
    ASSERT_EQ(book.account(0).charge(9_MiB), Charged::kGranted) << "the one that waits has its turn";
    while (charge_elsewhere() != Charged::kGranted) place.renew();
    book.account(0).refund(9_MiB);
    while (charge_elsewhere() != Charged::kBehind) place.renew();
    std::thread([&] {
      const PastTheLine past;
      EXPECT_EQ(book.account(0).charge(10_MiB), Charged::kGranted);
      EXPECT_EQ(book.account(0).charge(1_MiB), Charged::kOverLimit);
    }).join();
    book.account(0).refund(10_MiB);
  }
  EXPECT_EQ(charge_elsewhere(), Charged::kGranted) << "the place was given up";
}

TEST_F(BookTest, AThreadThatWaitsAndDiesIsPassedOver) {
  make(10_MiB);
  Book book = open();
  ASSERT_TRUE(book.processes().attach());
  // More of them than there are places, each at another instant.
  std::mt19937 random(3);
  for (int kill = 0; kill < 200; ++kill) {
    const SharedWord renewed;
    const pid_t child = start([&] {
      Book own;
      if (Book::open(path_.c_str(), own) != BookStatus::kOk || !own.processes().attach()) return 1;
      PlaceInLine place = own.waiting().place_in_line(0);
      for (std::uint64_t times = 1;; ++times) {
        place.renew();
        (*renewed).store(times);
      }
    });
    wait_until(*renewed, random() % 500 + 1);
    ::kill(child, SIGKILL);
    finish(child);
  }
  auto* const layout =
      static_cast<BookLayout*>(::mmap(nullptr, sizeof(BookLayout), PROT_READ, MAP_SHARED,
                                      FileDescriptor{::open(path_.c_str(), O_RDWR | O_CLOEXEC)}.get(), 0));
  ASSERT_NE(layout, MAP_FAILED);
  while (layout->line.newest[0].load() != 0) {
    if (book.account(0).charge(1_MiB) == Charged::kGranted) book.account(0).refund(1_MiB);
  }
  PlaceInLine place = book.waiting().place_in_line(0);
  place.renew();
  EXPECT_NE(layout->line.newest[0].load(), 0U) << "a place of the dead is taken";
  ::munmap(layout, sizeof(BookLayout));
}

}  // namespace
}  // namespace ration::book
