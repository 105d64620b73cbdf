// Small files are there whole or as they were.
#include "base/whole_file.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "../temporary.hpp"

namespace ration {
namespace {

TEST(WholeFile, ItIsReplacedWithItsModeAndNothingIsLeftBesideIt) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x");
  ASSERT_TRUE(write_whole(path, "one", 0640));
  ASSERT_TRUE(write_whole(path, "two", 0640));
  EXPECT_EQ(folder.content("x"), "two");
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(WholeFile, WhatCannotBeWrittenStaysAsItWas) {
  const TemporaryFolder folder;
  EXPECT_FALSE(write_whole("/proc/none/x", "one", 0600));
  std::filesystem::create_directories(folder.file("x/kept"));
  EXPECT_FALSE(write_whole(folder.file("x"), "one", 0600)) << "a folder";
  EXPECT_EQ(errno, EISDIR);
  EXPECT_TRUE(std::filesystem::exists(folder.file("x/kept")));
  EXPECT_FALSE(std::filesystem::exists(folder.file("x.new")));
}

TEST(WholeFile, WhatIsWrittenInPartSaysWhy) {
  const TemporaryFolder folder;
  folder.write("x", "kept");
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{4096, limit.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  errno = 0;
  EXPECT_FALSE(write_whole(folder.file("x"), std::string(8192, '1'), 0600));
  EXPECT_EQ(errno, EFBIG) << "as ENOSPC on a full disk";
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(folder.content("x"), "kept");
}

TEST(WholeFile, ALinkIsNotWrittenThrough) {
  const TemporaryFolder folder;
  folder.write("victim", "kept");
  std::filesystem::create_symlink(folder.file("victim"), folder.file("x.new"));
  EXPECT_FALSE(write_whole(folder.file("x"), "one", 0600));
  EXPECT_EQ(folder.content("victim"), "kept");
}

}  // namespace
}  // namespace ration
