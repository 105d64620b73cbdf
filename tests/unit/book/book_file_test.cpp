// Files that are no sound book: each is refused with its own reason, by whoever charges and by whoever reads.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <memory>

#include "book/layout.hpp"
#include "book/status_message.hpp"
#include "book_fixture.hpp"

namespace ration::book {
namespace {

using namespace literals;

class BookFileTest : public BookTest {
 protected:
  void overwrite(std::size_t offset, const void* bytes, std::size_t size) const {
    const int file = ::open(path_.c_str(), O_WRONLY);
    ASSERT_EQ(::pwrite(file, bytes, size, static_cast<off_t>(offset)), static_cast<ssize_t>(size));
    ::close(file);
  }
  void expect_both(BookStatus status) const {
    Book book;
    BookSnapshot copy;
    EXPECT_EQ(Book::open(path_.c_str(), book), status);
    EXPECT_EQ(Book::read(path_.c_str(), copy), status);
    EXPECT_FALSE(book.is_open());
  }
};

TEST_F(BookFileTest, AbsentIsMissing) { expect_both(BookStatus::kMissing); }

TEST_F(BookFileTest, ShorterThanItsFormatIsTruncated) {
  make(1_MiB);
  for (const off_t size : {off_t{0}, off_t{5}, off_t{4096}, static_cast<off_t>(sizeof(BookLayout) - 1)}) {
    ASSERT_EQ(::truncate(path_.c_str(), size), 0);
    if (size < 8)
      expect_both(BookStatus::kTruncated);
    else {
      const std::uint64_t magic = kBookMagic;
      overwrite(0, &magic, sizeof magic);
      expect_both(BookStatus::kTruncated);
    }
  }
}

TEST_F(BookFileTest, AFreshLayoutIsZerosAsAFreshFileIs) {
  const auto layout = std::make_unique<BookLayout>();
  const std::vector<std::byte> zeros(sizeof(BookLayout));
  EXPECT_EQ(std::memcmp(layout.get(), zeros.data(), zeros.size()), 0) << "Book::create() writes none of these";
}

TEST_F(BookFileTest, AnotherFileIsForeign) {
  std::ofstream(path_) << "this is a shopping list, not a book\n";
  expect_both(BookStatus::kForeign);
}

TEST_F(BookFileTest, OneThatTheSystemDoesNotOpenIsNotCalledForeign) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  Book book;
  BookReader reader;
  const auto opened = Book::open(path_.c_str(), book), read = BookReader::open(path_.c_str(), reader);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(opened, BookStatus::kSystem);
  EXPECT_EQ(read, BookStatus::kSystem);
  EXPECT_EQ(status_of(EROFS), BookStatus::kNotPermitted);
}

TEST_F(BookFileTest, AnotherVersionIsSaidToBeOne) {
  make(1_MiB);
  const std::uint32_t version = kBookVersion + 1;
  overwrite(offsetof(BookHeader, version), &version, sizeof version);
  expect_both(BookStatus::kOtherVersion);
}

TEST_F(BookFileTest, KeepsTheNewestNamesOfUnlistedFunctionsAndCountsEachOnce) {
  make(1_MiB);
  Book book = open();
  const auto name = [](std::size_t number) { return "cuNew" + std::to_string(number) + std::string(80, 'x'); };
  for (std::size_t number = 0; number < kUnlistedRing + 2; ++number)
    for (int times = 0; times < 2; ++times) book.denials().note_unlisted(name(number).c_str());
  BookSnapshot copy;
  ASSERT_EQ(Book::read(path_.c_str(), copy), BookStatus::kOk);
  EXPECT_EQ(copy.unlisted_count, kUnlistedRing + 2);
  ASSERT_EQ(copy.unlisted.size(), kUnlistedRing);
  EXPECT_EQ(copy.unlisted.front(), name(2).substr(0, 55));
  EXPECT_EQ(copy.unlisted.back(), name(kUnlistedRing + 1).substr(0, 55));
}

TEST_F(BookFileTest, FieldsOutOfRangeAreDamage) {
  for (const std::size_t field : {offsetof(BookHeader, account_count), offsetof(BookHeader, on_deny),
                                  offsetof(BookHeader, account_mode), offsetof(BookHeader, header_size)}) {
    ::unlink(path_.c_str());
    make(1_MiB);
    const std::uint32_t wild = 0xffffffff;
    overwrite(field, &wild, sizeof wild);
    expect_both(BookStatus::kDamaged);
  }
}

TEST_F(BookFileTest, AFileThatIsThereIsNeverOverwritten) {
  make(1_MiB);
  EXPECT_NE(Book::create(path_.c_str(), one_device(2_MiB)), BookStatus::kOk);
  EXPECT_EQ(snapshot().accounts[0].limit, 1_MiB);
}

TEST_F(BookFileTest, AFullDiskLeavesNoFileBehind) {
  const pid_t child = start([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit smallest{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &smallest);
    return Book::create(path_.c_str(), one_device(1_MiB)) == BookStatus::kOk ? 1 : 0;
  });
  EXPECT_EQ(finish(child), 0);
  EXPECT_NE(::access(path_.c_str(), F_OK), 0);
}

TEST_F(BookFileTest, ASymbolicLinkIsNotFollowed) {
  make(1_MiB);
  const std::string link = folder_ + "/link.book";
  ASSERT_EQ(::symlink(path_.c_str(), link.c_str()), 0);
  Book book;
  EXPECT_NE(Book::open(link.c_str(), book), BookStatus::kOk);
  ::unlink(link.c_str());
}

TEST_F(BookFileTest, TextInABookCannotMoveATerminal) {
  make(1_MiB);
  overwrite(offsetof(BookHeader, command), "\x1b[2Jgone", 8);
  EXPECT_EQ(snapshot().command, "?[2Jgone");
}

// Two tables, of which the guard has the one without ids.
TEST(BookStatus, IsSaidAsAMessageInTheSameWords) {
  for (std::uint32_t status = 0; status <= static_cast<std::uint32_t>(BookStatus::kSystem); ++status) {
    const Message said = message_of(static_cast<BookStatus>(status));
    EXPECT_EQ(said, describe(static_cast<BookStatus>(status)));
    EXPECT_NE(said.id(), "") << said;
  }
  EXPECT_EQ(message_of(BookStatus::kForeign).id(), "book.is_foreign");
}

}  // namespace
}  // namespace ration::book
