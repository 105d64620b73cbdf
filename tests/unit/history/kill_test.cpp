// Killed at any moment: what was committed is there once, and counting goes on where it stood.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>

#include "history_fixture.hpp"

namespace ration::history {
namespace {

constexpr TimeMs kInterval = 100;
constexpr int kKills = 1000;

// What the run holds at its k-th sample: known to both sides, never the same twice in a row.
Bytes held_at(std::int64_t k) { return Bytes{static_cast<std::uint64_t>(k * 7919 % 1'000'003) + 1'000'000}; }

Sample known_sample(std::int64_t k) {
  Sample sample = sample_at(kStart + k * kInterval, {workload(1, "train", held_at(k))});
  sample.workloads[0].denials = static_cast<std::uint64_t>(k + 1);  // of the whole run, as a book says it
  return sample;
}

// A daemon: goes on where the file stands, commits every few samples and says through the pipe what it committed.
[[noreturn]] void record_for_ever(const std::string& path, int say, unsigned seed) {
  auto history = History::open(path, {3 * kInterval, true});
  if (!history) ::_exit(1);
  std::minstd_rand random(seed);
  std::int64_t k = history->committed_to() == 0 ? 0 : (history->committed_to() - kStart) / kInterval + 1;
  for (;; ++k) {
    if (!history->record(known_sample(k))) ::_exit(2);
    if (random() % 4 != 0) continue;
    if (!history->commit()) ::_exit(3);
    const TimeMs done = history->committed_to();
    if (::write(say, &done, sizeof done) != sizeof done) ::_exit(4);
  }
}

TEST_F(HistoryTest, KilledAThousandTimesNothingIsCountedTwiceOrLost) {
  std::mt19937 random(3);
  TimeMs said = 0;
  int advanced = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) record_for_ever(path_, ends[1], static_cast<unsigned>(kill));
    ::close(ends[1]);
    // Anywhere: while it opens, records, commits. Every fourth has got somewhere, however slow the machine is.
    TimeMs latest = 0, one = 0;
    if (kill % 4 == 0) {
      ASSERT_EQ(::read(ends[0], &one, sizeof one), sizeof one);
      latest = one;
    }
    const auto instant = std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 9000);
    while (std::chrono::steady_clock::now() < instant) {
    }
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "ended by itself: " << WEXITSTATUS(status);
    while (::read(ends[0], &one, sizeof one) == sizeof one) latest = one;
    ::close(ends[0]);
    if (latest > said) said = latest, ++advanced;
  }
  EXPECT_GE(advanced, kKills / 4);

  Reader reader = this->reader();
  const TimeMs mark = std::stoll(sql("SELECT value FROM marks WHERE name = 'recorded_to'"));
  EXPECT_GE(mark, said) << "what was said to be committed is there";
  // The sample at the mark is the last: each before it held for one interval, however often the daemon began anew.
  __int128 expected = 0;
  const std::int64_t last = (mark - kStart) / kInterval;
  for (std::int64_t k = 0; k < last; ++k) expected += __int128{held_at(k).count()} * kInterval;
  const auto report = reader.usage(whole_window());
  ASSERT_TRUE(report);
  const ReportRow* row = find_row(*report, "nlp");
  ASSERT_NE(row, nullptr);
  EXPECT_TRUE(row->used == ByteTime{expected});
  EXPECT_EQ(row->denials, last + 1);
  EXPECT_TRUE(report->adds_up);
  EXPECT_TRUE(report->gaps.empty());
  EXPECT_EQ(byte_seconds(report->capacity), seconds(40_GiB, last * kInterval));
  History history = open();
  EXPECT_TRUE(history.check());
  EXPECT_TRUE(history.take_notices().empty());
}

}  // namespace
}  // namespace ration::history
