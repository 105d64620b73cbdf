// One process has the place, and whatever stands there stays as it is.
#include "base/file_lock.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../temporary.hpp"

namespace ration {
namespace {

TEST(FileLock, IsHadByOneAtATimeAndFreeAgainWhenItsOwnerIsGone) {
  const TemporaryFolder folder;
  const std::string path = folder.file("lock");
  EXPECT_FALSE(is_locked(path)) << "there is no such file";
  {
    const FileLock first = lock_file(path);
    ASSERT_TRUE(first.file);
    EXPECT_TRUE(is_locked(path));
    const FileLock second = lock_file(path);
    EXPECT_FALSE(second.file);
    EXPECT_TRUE(second.taken);
    if (const auto holder = lock_holder(path)) {
      EXPECT_EQ(*holder, ::getpid());
    }
  }
  EXPECT_FALSE(is_locked(path));
  EXPECT_EQ(lock_holder(path), std::nullopt);
  EXPECT_TRUE(lock_file(path).file);
}

TEST(FileLock, ToldApartFromAPlaceWhereNoneCanBe) {
  const TemporaryFolder folder;
  const FileLock lock = lock_file(folder.file("nowhere/lock"));
  EXPECT_FALSE(lock.file);
  EXPECT_FALSE(lock.taken);
  EXPECT_FALSE(lock.in_place());
}

TEST(FileLock, FollowsNoLinkAndKeepsWhatIsInTheFile) {
  const TemporaryFolder folder;
  const std::string target = folder.write("target", "precious");
  ASSERT_EQ(::symlink(target.c_str(), folder.file("link").c_str()), 0);
  EXPECT_FALSE(lock_file(folder.file("link")).file);
  EXPECT_FALSE(is_locked(target));
  EXPECT_TRUE(lock_file(target).file);
  EXPECT_EQ(folder.content("target"), "precious");
}

TEST(FileLock, APipeIsNotWaitedFor) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(is_locked(folder.file("pipe")));
}

TEST(FileLock, KnowsThatItsFileWasRemovedOrReplaced) {
  const TemporaryFolder folder;
  const FileLock lock = lock_file(folder.file("lock"));
  EXPECT_TRUE(lock.in_place());
  ASSERT_EQ(::unlink(folder.file("lock").c_str()), 0);
  EXPECT_FALSE(lock.in_place());
  folder.write("lock", "");
  EXPECT_FALSE(lock.in_place());
}

}  // namespace
}  // namespace ration
