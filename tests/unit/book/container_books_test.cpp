// Books of containers: what was granted stays, nothing that is half made stays, and a book has no room to grow.
#include "book/container_books.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "../temporary.hpp"
#include "book/book.hpp"
#include "book/layout.hpp"

namespace ration::book {
namespace {

using namespace literals;
namespace fs = std::filesystem;

class ContainerBooks : public testing::Test {
 protected:
  void SetUp() override { fs::create_directory(folder_ + "/books"); }

  static NewBook contents(const ProcessIdentity& creator) {
    NewBook book;
    book.name = "web";
    book.tenant = "nlp";
    book.labels = "container=web";
    book.run_number = 7;
    book.creator = creator;
    NewAccount account;
    account.device = {1};
    account.device_total = 16_GiB;
    account.limit = 4_GiB;
    book.accounts.push_back(account);
    return book;
  }
  static ProcessIdentity somebody_dead() {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    ProcessIdentity identity = current_process();
    identity.pid = child;
    ::waitpid(child, nullptr, 0);
    return identity;
  }
  void write(std::size_t offset, const std::string& text) const {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file << text;
  }
  bool is_empty(const char* inside) const { return !fs::exists(folder_ + inside) || fs::is_empty(folder_ + inside); }
  static std::string mounts() {
    std::ifstream file("/proc/self/mounts");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path(), path_ = temporary_.file("books/web.7.book");
};

TEST_F(ContainerBooks, WhatWasGrantedIsReadWhateverTheBookSays) {
  ASSERT_EQ(create_granted(path_, contents(current_process()), std::nullopt), BookStatus::kOk);
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0666U);
  ASSERT_EQ(::stat(granted_path(path_).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  EXPECT_LE(status.st_blocks * 512, 16384) << "its beginning alone";
  ASSERT_EQ(::truncate(path_.c_str(), 0), 0);
  const auto granted = read_granted(path_, ::getuid());
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->name, "web");
  EXPECT_EQ(granted->accounts.front().limit, 4_GiB);
  EXPECT_FALSE(read_granted(path_, ::getuid() + 1)) << "somebody else's";
}

TEST_F(ContainerBooks, ARetiredBookSaysWhatHappenedUnderWhatWasGranted) {
  ASSERT_EQ(create_granted(path_, contents(somebody_dead()), std::nullopt), BookStatus::kOk);
  Book book;
  ASSERT_EQ(Book::open(path_.c_str(), book), BookStatus::kOk);
  ASSERT_TRUE(book.processes().attach());
  ASSERT_EQ(book.account(0).charge(1_GiB), Charged::kGranted);
  book.denials().record(0, 5_GiB, DenialReason::kLimit, "cuMemAlloc", kUnknownBytes, 0);
  write(offsetof(BookHeader, tenant), "vision");
  retire_ended(folder_);
  BookSnapshot left;
  ASSERT_EQ(Book::read(path_.c_str(), left), BookStatus::kOk);
  EXPECT_EQ(left.tenant, "nlp");
  EXPECT_NE(left.ended_ns, 0U);
  EXPECT_EQ(left.denials.size(), 1U);
  EXPECT_EQ(left.accounts.front().used, 0_GiB) << "its processes have ended with it";
  EXPECT_EQ(left.accounts.front().peak, 1_GiB);
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  EXPECT_TRUE(is_empty("/granted"));
}

TEST_F(ContainerBooks, OneThatCannotBeReadIsRemovedWithWhatWasGranted) {
  ASSERT_EQ(create_granted(path_, contents(somebody_dead()), std::nullopt), BookStatus::kOk);
  write(0, "rubbish!");
  retire_ended(folder_);
  EXPECT_TRUE(is_empty("/books"));
  EXPECT_TRUE(is_empty("/granted"));
}

TEST_F(ContainerBooks, OneWhoseContainerRunsIsNotRetired) {
  ASSERT_EQ(create_granted(path_, contents(current_process()), std::nullopt), BookStatus::kOk);
  retire_ended(folder_);
  EXPECT_TRUE(fs::exists(path_));
  EXPECT_TRUE(read_granted(path_, ::getuid()));
}

/// In a mount namespace of its own; 77: there is none for this user.
template <typename Check>
void in_own_mounts(const Check& check) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) ::_exit(77);
    check();
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs a mount namespace";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(ContainerBooks, ABookHasAFileSystemThatHasRoomForNothingElse) {
  in_own_mounts([&] {
    ASSERT_EQ(create_granted(path_, contents(somebody_dead()), ::getpid()), BookStatus::kOk);
    struct statvfs room {};
    ASSERT_EQ(::statvfs(path_.c_str(), &room), 0);
    EXPECT_EQ(room.f_bfree, 0U);
    const FileDescriptor file{::open(path_.c_str(), O_RDWR)};
    EXPECT_LT(::pwrite(file.get(), "x", 1, sizeof(BookLayout) + 4096), 0);
    EXPECT_EQ(errno, ENOSPC);
    EXPECT_TRUE(is_empty("/making"));
    retire(path_);
    EXPECT_EQ(mounts().find(folder_), std::string::npos);
    BookSnapshot left;
    EXPECT_EQ(Book::read(path_.c_str(), left), BookStatus::kOk);
  });
}

TEST_F(ContainerBooks, WhereTheDaemonDoesNotSeeTheMountItIsAPlainFile) {
  const pid_t elsewhere = ::fork();  // in the mounts of before
  if (elsewhere == 0)
    for (;;) ::pause();
  in_own_mounts([&] {
    ASSERT_EQ(create_granted(path_, contents(current_process()), elsewhere), BookStatus::kOk);
    EXPECT_EQ(mounts().find(folder_), std::string::npos);
    EXPECT_TRUE(read_granted(path_, ::getuid()));
  });
  ::kill(elsewhere, SIGKILL);
  ::waitpid(elsewhere, nullptr, 0);
}

/// Forks a hook, and kills it once it has entered or left `steps` system calls. True if it ended before.
template <typename Hook>
bool ends_within(int steps, const Hook& hook) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(1);
    ::raise(SIGSTOP);
    hook();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  for (int step = 0; step < steps && WIFSTOPPED(status); ++step) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    ::waitpid(child, &status, 0);
  }
  if (!WIFSTOPPED(status)) {
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return true;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return false;
}

TEST_F(ContainerBooks, OfAHookThatIsKilledNothingStays) {
  in_own_mounts([&] {
    const ProcessIdentity creator = somebody_dead();
    for (const std::optional<pid_t> mounts_of : {std::optional(::getpid()), std::optional<pid_t>()}) {
      int killed = 0;
      for (bool ended = false; !ended; ++killed) {
        ended = ends_within(killed, [&] { (void)create_granted(path_, contents(creator), mounts_of); });
        SCOPED_TRACE("killed at step " + std::to_string(killed));
        remove_unfinished(folder_);
        EXPECT_TRUE(is_empty("/making"));
        const bool there = fs::exists(path_);
        EXPECT_TRUE(there || !ended);
        EXPECT_TRUE(!there || read_granted(path_, ::getuid())) << "never without what was granted";
        BookSnapshot book;
        EXPECT_EQ(Book::read(path_.c_str(), book), there ? BookStatus::kOk : BookStatus::kMissing);
        retire_ended(folder_);
        EXPECT_EQ(mounts().find(folder_), std::string::npos);
        EXPECT_TRUE(is_empty("/granted"));
        ::unlink(path_.c_str());
      }
      EXPECT_GT(killed, 10) << "the hook was killed before it did anything";
    }
  });
}

}  // namespace
}  // namespace ration::book
