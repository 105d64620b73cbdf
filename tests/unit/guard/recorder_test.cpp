// The recorder's file, at every step of a process that writes it: nothing is lost, nothing is there twice.
#include "guard/recorder/recorder.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>

#include "../stopped_at.hpp"
#include "../temporary.hpp"
#include "guard/environment.hpp"
#include "guard/recorder/call_sites.hpp"
#include "guard/recorder/record_layout.hpp"
#include "trace/event.hpp"
#include "trace/parts.hpp"

namespace ration::guard {

// In place of the guard's own: a process that is governed, and whose call sites nobody asked for.
namespace {
Environment test_environment{};
}  // namespace
const Environment& environment() noexcept { return test_environment; }
bool has_call_sites() noexcept { return false; }
std::uint32_t call_site(std::uint32_t) noexcept { return 0; }

namespace {

constexpr std::uint64_t kBytes = 2 << 20, kDomain = std::uint64_t{1} << 40;

/// More than three times what a home has room for.
constexpr std::uint64_t kEvents = 3 * (kChunkSize / sizeof(RawRecord)) + 500;

class RecorderTest : public ::testing::Test {
 protected:
  RecorderTest() {
    done_ = static_cast<std::atomic<std::uint64_t>*>(
        ::mmap(nullptr, sizeof *done_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }
  ~RecorderTest() override { ::munmap(done_, sizeof *done_); }

  void make_folder() {
    done_->store(0);
    file_ = folder_.file(std::to_string(++files_) + ".rec");
    EXPECT_EQ(::mkdir((file_ + ".parts").c_str(), 0700), 0);
  }

  /// Records the numbers from 1 on, with as many ranges that are taken back after each, and counts the numbers that
  /// were recorded. Called in a child.
  int record_numbers(std::uint64_t last, int ranges = 0) {
    std::strcpy(test_environment.record, (file_ + ".parts").c_str());
    RecordedDevices devices;
    devices.count = 1;
    if (begin_recording(devices, false) != 0) return 1;
    RecordedEvent event{};
    event.kind = trace::Kind::kAllocate;
    event.bytes = kBytes;
    for (event.address = 1; event.address <= last; ++event.address) {
      record(event);
      done_->store(event.address);
      for (int range = 0; range < ranges; ++range) {
        begin_range(0, kDomain);
        end_range(kDomain);
      }
    }
    if (ranges > 0) begin_range(0, kDomain);
    return 0;
  }

  Stopped record_until(int step) {
    make_folder();
    return stopped_at(step, [this] { return record_numbers(kEvents); });
  }

  /// Expects the file to have every number that was recorded once and in order, and whole ranges. Returns the last
  /// number.
  std::uint64_t read_in_order() {
    const std::uint64_t done = done_->load();
    const auto recording = trace::open_parts(file_);
    std::uint64_t last = 0;
    bool is_in_order = true;
    if (recording) {
      (*recording)->read([&](const trace::Event& event) {
        if (event.kind == trace::Kind::kAllocate)
          is_in_order = is_in_order && event.address == ++last && event.bytes == kBytes;
        if (event.kind == trace::Kind::kRangeBegan) {
          is_in_order = is_in_order && event.address == kDomain && event.bytes == 0;
          ++ranges_;
        }
        return true;
      });
    }
    EXPECT_TRUE(is_in_order);
    EXPECT_GE(last, done);
    return last;
  }

  /// Expects the same of a process that stands or has ended: it may have recorded one that it did not count.
  void expect_all() { EXPECT_LE(read_in_order(), done_->load() + 1); }

  TemporaryFolder folder_;
  int files_ = 0;
  std::string file_;
  std::atomic<std::uint64_t>* done_ = nullptr;
  std::uint64_t ranges_ = 0;  // that were read
};

TEST_F(RecorderTest, HasAllEventsAtEverySystemCallOfAProcessThatWritesOrIsKilledThere) {
  for (int step = 1;; ++step) {
    const Stopped stopped = record_until(step);
    expect_all();
    const int status = kill_there(stopped);
    expect_all();
    if (stopped.status) {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
      EXPECT_EQ(done_->load(), kEvents);
      break;
    }
    ASSERT_FALSE(HasFailure()) << "step " << step;
  }
}

TEST_F(RecorderTest, HasAllEventsAtAnyInstructionWhileAHomeIsEmptied) {
  // The home is emptied between the last two system calls before the count goes on: the copy's header, and close().
  int written = 0;
  for (int step = 1; written == 0; ++step) {
    const Stopped stopped = record_until(step);
    (void)kill_there(stopped);
    ASSERT_FALSE(stopped.status);
    if (done_->load() > kChunkSize / sizeof(RawRecord)) written = step - 3;
  }
  constexpr int kClose = 400, kMostInstructions = 8000;  // one by one at first, then in wider steps
  for (int instructions = 0; instructions < kMostInstructions; instructions += instructions < kClose ? 1 : 200) {
    const Stopped stopped = record_until(written);
    for (int left = instructions; left > 0; --left) {
      int status = 0;
      ::ptrace(PTRACE_SINGLESTEP, stopped.pid, nullptr, nullptr);
      ::waitpid(stopped.pid, &status, 0);
      ASSERT_TRUE(WIFSTOPPED(status));
    }
    expect_all();
    (void)kill_there(stopped);
    expect_all();
    ASSERT_FALSE(HasFailure()) << instructions << " instructions after the copy";
  }
}

TEST_F(RecorderTest, HasAllEventsWhileTheProcessGoesOn) {
  constexpr int kProcesses = 100;
  int reads = 0;
  for (int process = 0; process < kProcesses && !HasFailure(); ++process) {
    make_folder();
    const pid_t child = ::fork();
    if (child == 0) ::_exit(record_numbers(10 * kEvents));
    for (; done_->load() < 10 * kEvents && !HasFailure(); ++reads) (void)read_in_order();
    int status = 0;
    ::waitpid(child, &status, 0);
    expect_all();
  }
  EXPECT_GT(reads, kProcesses);
}

TEST_F(RecorderTest, ARecordThatIsTakenBackIsReadWholeOrNotAtAll) {
  constexpr int kProcesses = 30, kRanges = 3;
  for (int process = 0; process < kProcesses && !HasFailure(); ++process) {
    make_folder();
    const pid_t child = ::fork();
    if (child == 0) ::_exit(record_numbers(10 * kEvents, kRanges));
    while (done_->load() < 10 * kEvents && !HasFailure()) (void)read_in_order();
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    expect_all();
  }
  // The last one stays open. A few others took more than a millisecond.
  ranges_ = 0;
  expect_all();
  EXPECT_GE(ranges_, 1u);
  EXPECT_LT(ranges_, kEvents);
}

}  // namespace
}  // namespace ration::guard
