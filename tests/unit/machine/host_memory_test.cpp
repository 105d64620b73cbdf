// Room before the limits of a process's memory cgroup: folders and files stand for cgroups, since an ordinary user can
// make none.
#include "machine/host_memory.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace ration::machine {
namespace {

using namespace literals;

class HostMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/ration-memory-XXXXXX";
    root_ = ::mkdtemp(pattern);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + "/" + path).parent_path());
    std::ofstream(root_ + "/" + path) << text << "\n";
  }
  [[nodiscard]] std::optional<Bytes> left(const std::string& listed) const {
    const auto room = room_in_memory_group(listed, root_);
    return room ? std::optional(room->left) : std::nullopt;
  }

  std::string root_;
};

TEST_F(HostMemoryTest, TheNearestLimitOfVersion2Counts) {
  write("pod/memory.max", "4294967296");
  write("pod/memory.current", "3221225472");
  write("pod/memory.stat", "anon 5\nfile 7");
  write("pod/job/memory.max", "max");
  write("pod/job/memory.current", "1073741824");
  EXPECT_EQ(left("0::/pod/job\n"), 1_GiB);
  write("pod/job/memory.max", "1610612736");
  EXPECT_EQ(left("0::/pod/job\n"), 512_MiB);
}

TEST_F(HostMemoryTest, WhatTheKernelWouldGiveUpIsFree) {
  write("job/memory.max", "2147483648");
  write("job/memory.current", "2147483648");
  write("job/memory.stat", "anon 1073741824\ninactive_file 536870912");
  EXPECT_EQ(left("0::/job\n"), 512_MiB);
}

TEST_F(HostMemoryTest, Version1HasItsOwnFolderAndNames) {
  write("memory/docker/abc/memory.limit_in_bytes", "2147483648");
  write("memory/docker/abc/memory.usage_in_bytes", "1073741824");
  EXPECT_EQ(left("5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/\n"), 1_GiB);
}

TEST_F(HostMemoryTest, WithoutALimitThereIsNoneToTell) {
  EXPECT_EQ(left("0::/job\n"), std::nullopt);
  EXPECT_EQ(left(""), std::nullopt);
  EXPECT_EQ(left("0::no path\n1:\n"), std::nullopt);
}

}  // namespace
}  // namespace ration::machine
