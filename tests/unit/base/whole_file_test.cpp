// Small files are there whole or as they were.
#include "base/whole_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

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

TEST(WholeFile, ALinkIsNotWrittenThrough) {
  const TemporaryFolder folder;
  folder.write("victim", "kept");
  std::filesystem::create_symlink(folder.file("victim"), folder.file("x.new"));
  EXPECT_FALSE(write_whole(folder.file("x"), "one", 0600));
  EXPECT_EQ(folder.content("victim"), "kept");
}

}  // namespace
}  // namespace ration
