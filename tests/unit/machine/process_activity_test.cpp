#include "machine/process_activity.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ration::machine {
namespace {

/// A /proc with one thread in it, number 7 of process 5.
class ProcessActivityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/ration-activity-XXXXXX";
    proc_ = ::mkdtemp(folder);
    std::filesystem::create_directories(proc_ + "/5/task/7");
    process_.pid = 5;
  }
  void TearDown() override { std::filesystem::remove_all(proc_); }
  void write(const std::string& name, const std::string& content) {
    std::ofstream(proc_ + "/5/task/7/" + name) << content;
  }
  ThreadActivity read() { return activity_of({process_}, proc_).at(7); }

  std::string proc_;
  ProcessIdentity process_;
};

TEST_F(ProcessActivityTest, WhereTheKernelKeepsNothingFinerTicksAndSwitchesAreRead) {
  const auto tick_ns = 1'000'000'000U / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  write("stat", "7 (a) b (c) S 1 5 5 0 -1 4194560 11 0 0 0 30 12 0 0 20 0 1 0 99 0 0\n");
  write("status", "Name:\ta\nvoluntary_ctxt_switches:\t40\nnonvoluntary_ctxt_switches:\t2\n");
  EXPECT_EQ(read().processor_ns, 42 * tick_ns);
  EXPECT_EQ(read().turns, 42U);
}

TEST_F(ProcessActivityTest, WhatAThreadIsCalledIsNoNumberAndEndsNothing) {
  write("stat", "7 (ctxt_switches:) S\n");
  write("status", "Name:\tctxt_switches:\nvoluntary_ctxt_switches:\tmany\nnonvoluntary_ctxt_switches:\t2\n");
  EXPECT_EQ(read().processor_ns, 0U);
  EXPECT_EQ(read().turns, 2U);
}

TEST_F(ProcessActivityTest, TheKernelsOwnAccountGoesFirst) {
  write("schedstat", "5000 70 3\n");
  write("stat", "7 (a) S 1 5 5 0 -1 4194560 11 0 0 0 30 12 0 0 20 0 1 0 99 0 0\n");
  EXPECT_EQ(read().processor_ns, 5000U);
  EXPECT_EQ(read().turns, 3U);
}

}  // namespace
}  // namespace ration::machine
