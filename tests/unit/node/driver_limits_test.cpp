// Limits that the driver holds over a workload's cgroup: whose they are, and that they go with it. The simulated NVML
// of release 615 answers; folders stand for cgroups, since an ordinary user can make none.
#include "node/limits/driver_limits.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "machine/cgroup_limits.hpp"

namespace ration::node {
namespace {

using namespace literals;

class DriverLimitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/ration-cgroups-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    ::setenv("RATION_SIM", "T4:1GiB,driver=615", 1);
    ::setenv("RATION_SIM_DIR", (folder_ + "/node").c_str(), 1);
    group_ = folder_ + "/group";
    std::filesystem::create_directories(group_ + "/below");
    enter(group_, ::getpid());
    enter(group_ + "/below", 0);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static DriverLimits::CreatorOf creator(pid_t pid) {
    return [pid] { return pid; };
  }
  static void enter(const std::string& cgroup, pid_t pid) {
    std::ofstream file(cgroup + "/cgroup.procs");
    if (pid != 0) file << pid << "\n";
  }
  std::optional<Bytes> held() const {
    const auto limit = machine::cgroup_limit(SIMULATED_DRIVER, 0, group_);
    EXPECT_TRUE(limit) << limit.error().what;
    return limit.value_or(std::nullopt);
  }

  std::string folder_, group_;
  DriverLimits limits_{SIMULATED_DRIVER, [this](std::int32_t) { return group_; }};
};

TEST_F(DriverLimitsTest, AWorkloadsOwnCgroupIsLimitedAndFreeAfterwards) {
  EXPECT_TRUE(limits_.apply("train", creator(::getpid()), {{0, 256_MiB}}));
  EXPECT_EQ(held(), 256_MiB);
  EXPECT_TRUE(limits_.apply("train", creator(::getpid()), {{0, 512_MiB}}));
  EXPECT_EQ(held(), 512_MiB);
  EXPECT_TRUE(limits_.is_applied("train"));
  limits_.release("train");
  EXPECT_EQ(held(), std::nullopt);
  EXPECT_FALSE(limits_.is_applied("train"));
}

TEST_F(DriverLimitsTest, DescendantsAreItsOwnAndOthersAreNot) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  enter(group_ + "/below", child);
  EXPECT_TRUE(limits_.apply("parent", creator(::getpid()), {{0, 256_MiB}}));
  limits_.release("parent");
  // The child's workload would limit its parent, too.
  EXPECT_FALSE(limits_.apply("child", creator(child), {{0, 256_MiB}}));
  EXPECT_EQ(held(), std::nullopt);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(DriverLimitsTest, WhoStartedAWorkloadIsAskedOnce) {
  int asked = 0;
  const auto unknown = [&] { return ++asked, std::optional<std::int32_t>(); };
  EXPECT_FALSE(limits_.apply("train", unknown, {{0, 256_MiB}}));
  EXPECT_FALSE(limits_.apply("train", unknown, {{0, 512_MiB}}));
  EXPECT_EQ(asked, 1);
}

TEST_F(DriverLimitsTest, WhatIsNoCgroupIsLeftAlone) {
  std::filesystem::remove_all(group_);
  EXPECT_FALSE(limits_.apply("train", creator(::getpid()), {{0, 256_MiB}}));
  EXPECT_TRUE(limits_.take_problems().empty());
}

}  // namespace
}  // namespace ration::node
