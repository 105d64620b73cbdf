// Programs started as env(1) would: their exit codes, their output, and what they leave behind.
#include "cli/start/launch.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "../temporary.hpp"

namespace ration::cli {
namespace {

TEST(Launch, TheExitCodeIsTheProgramsOwn) {
  EXPECT_EQ(launch({"true"}).exit_code, 0);
  EXPECT_EQ(launch({"sh", "-c", "exit 42"}).exit_code, 42);
  EXPECT_EQ(launch({"sh", "-c", "kill -9 $$"}).exit_code, 128 + 9);
}

TEST(Launch, WhatCannotBeStartedSaysWhyAndIsNotTakenForRunning) {
  const TemporaryFolder folder;
  bool ran = false;
  const Ended missing = launch({folder.file("nothing")}, [&] { ran = true; });
  EXPECT_EQ(missing.exit_code, 127);
  EXPECT_EQ(missing.start_error, ENOENT);
  const Ended text = launch({folder.write("text", "x")}, [&] { ran = true; });
  EXPECT_EQ(text.exit_code, 126);
  EXPECT_EQ(text.start_error, EACCES);
  EXPECT_FALSE(ran);
}

TEST(Launch, WordsAreHandedOnAsTheyAre) {
  const TemporaryFolder folder;
  const std::string out = folder.file("out");
  EXPECT_EQ(launch({"sh", "-c", "printf '%s|' \"$@\" > " + out, "sh", "a b", "", "$HOME", "'\n"}).exit_code, 0);
  EXPECT_EQ(folder.content("out"), "a b||$HOME|'\n|");
}

TEST(Launch, ASignalReachesTheProgram) {
  const TemporaryFolder folder;
  const std::string pipe = folder.file("ready");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Ended ended =
      launch({"sh", "-c", "trap 'exit 7' TERM; echo > " + pipe + "; while :; do sleep 0.01; done"}, [&] {
        std::ifstream ready(pipe);  // opens once the program has set its trap
        std::string line;
        std::getline(ready, line);
        ::kill(::getpid(), SIGTERM);
      });
  EXPECT_EQ(ended.exit_code, 7);
}

TEST(Launch, ProcessesThatOutliveTheProgramAreTold) {
  EXPECT_FALSE(launch({"sh", "-c", "true & wait"}).left_running);
  const TemporaryFolder folder;
  const Ended ended = launch({"sh", "-c", "sleep 1000 & echo $! > " + folder.file("pid")});
  EXPECT_TRUE(ended.left_running);
  const pid_t left = std::stoi(folder.content("pid"));
  ::kill(left, SIGKILL);
  EXPECT_EQ(::waitpid(left, nullptr, 0), left) << "it had become a child of this process";
}

TEST(OutputOf, CollectsBothStreamsAndTheExitCode) {
  const Output output = output_of({"sh", "-c", "echo out; echo err >&2; exit 3"});
  EXPECT_EQ(output.exit_code, 3);
  EXPECT_EQ(output.text, "out\nerr\n");
  EXPECT_EQ(output_of({"/no/such/program"}).exit_code, 127);
  EXPECT_EQ(output_of({"sh", "-c", "kill -15 $$"}).exit_code, 128 + 15);
  EXPECT_EQ(output_of({"sh", "-c", "head -c 300000 /dev/zero"}).text.size(), 300'000U);
}

TEST(StartInBackground, ItsGroupIsItsOwnAndItsOutputIsInTheLog) {
  const TemporaryFolder folder;
  const pid_t child = start_in_background({"sh", "-c", "echo said; cat; sleep 1000"}, folder.file("log"), 0);
  ASSERT_GT(child, 0);
  EXPECT_EQ(::getpgid(child), child);
  ::kill(-child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  const pid_t quick = start_in_background({"sh", "-c", "cat; echo said"}, folder.file("log"), child);
  ASSERT_GT(quick, 0);
  ASSERT_EQ(::waitpid(quick, nullptr, 0), quick) << "its standard input is at its end";
  EXPECT_EQ(folder.content("log"), "said\n");
  EXPECT_EQ(start_in_background({"true"}, folder.file("no/log"), 0), -1);
}

TEST(LeaveGuard, WithoutAWorkloadNothingIsChanged) {
  const TemporaryVariable book("RATION_BOOK", nullptr), preload("LD_PRELOAD", "/x/libcuda.so.1");
  leave_guard(nullptr);
  EXPECT_STREQ(::getenv("LD_PRELOAD"), "/x/libcuda.so.1");
}

TEST(LeaveGuard, InsideOneTheProgramStartsAgainWithoutTheGuardAlone) {
  const Output output = output_of({"sh", "-c",
                                   "RATION_BOOK=/b LD_PRELOAD=/nowhere/libcuda.so.1:/nowhere/own.so exec " +
                                       std::filesystem::read_symlink("/proc/self/exe").string() +
                                       " --gtest_also_run_disabled_tests "
                                       "--gtest_filter=LeaveGuard.DISABLED_AsTheCommandLineDoes 2>/dev/null"});
  EXPECT_EQ(output.exit_code, 0) << output.text;
}

// Of the test before: the first time with the guard, then, started by itself, without.
TEST(LeaveGuard, DISABLED_AsTheCommandLineDoes) {
  std::string own = std::filesystem::read_symlink("/proc/self/exe"),
              filter = "--gtest_filter=LeaveGuard.DISABLED_AsTheCommandLineDoes",
              all = "--gtest_also_run_disabled_tests";
  char* words[] = {own.data(), all.data(), filter.data(), nullptr};
  leave_guard(words);
  EXPECT_STREQ(::getenv("LD_PRELOAD"), "/nowhere/own.so");
  EXPECT_STREQ(::getenv("RATION_BOOK"), "/b") << "no limit is made inside a limit";
}

}  // namespace
}  // namespace ration::cli
