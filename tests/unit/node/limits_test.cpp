// Whose limits are remembered over a restart of the daemon.
#include "node/limits.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace ration::node {
namespace {

using namespace literals;

class LimitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/ration-limits-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    workload_.path = "/books/train.1.book";
    workload_.owner = 1000;
    workload_.file_number = 7;
    workload_.book.tenant = "nlp";
    workload_.book.accounts.resize(1);
    workload_.book.accounts.front().limit = 4_GiB;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string file() const { return folder_ + "/limits.json"; }

  std::string folder_;
  Workload workload_;
};

TEST_F(LimitsTest, TheSameFileIsTheSameWorkloadWhateverIsWrittenIntoIt) {
  {
    Limits limits(file());
    EXPECT_TRUE(limits.take_up(workload_));
    ASSERT_TRUE(limits.save());
  }
  workload_.book.accounts.front().limit = 12_GiB;
  workload_.book.tenant = "somebody else";
  workload_.book.created_ns = 5;
  Limits limits(file());
  EXPECT_FALSE(limits.take_up(workload_));
  EXPECT_EQ(limits.find(workload_.path)->accounts.front().configured, 4_GiB);
  EXPECT_EQ(limits.find(workload_.path)->tenant, "nlp");
}

TEST_F(LimitsTest, AnotherFileAtItsPathIsAnotherWorkload) {
  {
    Limits limits(file());
    EXPECT_TRUE(limits.take_up(workload_));
    ASSERT_TRUE(limits.save());
  }
  workload_.file_number = 8;
  workload_.book.accounts.front().limit = 12_GiB;
  Limits limits(file());
  EXPECT_TRUE(limits.take_up(workload_));
  EXPECT_EQ(limits.find(workload_.path)->accounts.front().configured, 12_GiB);
}

TEST_F(LimitsTest, AfterABootNobodyIsKnown) {
  {
    Limits limits(file());
    EXPECT_TRUE(limits.take_up(workload_));
    ASSERT_TRUE(limits.save());
  }
  std::stringstream text;
  text << std::ifstream(file()).rdbuf();
  std::string other = text.str();
  const std::size_t boot = other.find("\"boot\":\"") + 8;
  other[boot] = other[boot] == '0' ? '1' : '0';
  std::ofstream(file()) << other;
  Limits limits(file());
  EXPECT_TRUE(limits.take_up(workload_));
}

}  // namespace
}  // namespace ration::node
