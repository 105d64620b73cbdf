// Killed at any step: what was committed is there once, and counting goes on where it stood.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "../stopped_at.hpp"
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

class KillTest : public HistoryTest {
 protected:
  /// Expects everything up to the mark once, and the mark not before `said`.
  void expect_whole(TimeMs said) {
    const TimeMs mark = std::stoll(sql("SELECT value FROM marks WHERE name = 'recorded_to'"));
    EXPECT_GE(mark, said) << "what was said to be committed is there";
    // The sample at the mark is the last: each before it held for one interval, however often the daemon began anew.
    __int128 expected = 0;
    const std::int64_t last = (mark - kStart) / kInterval;
    for (std::int64_t k = 0; k < last; ++k) expected += __int128{held_at(k).count()} * kInterval;
    const auto report = reader().usage(whole_window());
    ASSERT_TRUE(report);
    const ReportRow* row = find_row(*report, "nlp");
    ASSERT_NE(row, nullptr);
    EXPECT_TRUE(row->used == ByteTime{expected});
    EXPECT_EQ(row->denials, last + 1);
    EXPECT_TRUE(report->adds_up);
    EXPECT_TRUE(report->gaps.empty());
    EXPECT_EQ(byte_seconds(report->capacity), seconds(40_GiB, last * kInterval));
  }
};

TEST_F(KillTest, KilledAThousandTimesNothingIsCountedTwiceOrLost) {
  // While it opens, records, commits: at each of a daemon's first thousand steps, from where the one before was killed.
  constexpr int kBetweenChecks = 20;
  TimeMs said = 0;
  int advanced = 0;
  for (int step = 1; step <= kKills && !HasFailure(); ++step) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const Stopped child =
        stopped_at(step, [&]() -> int { record_for_ever(path_, ends[1], static_cast<unsigned>(step)); });
    ::close(ends[1]);
    const int status = kill_there(child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "step " << step << ": ended by itself with " << WEXITSTATUS(status);
    TimeMs latest = 0, one = 0;
    while (::read(ends[0], &one, sizeof one) == sizeof one) latest = one;
    ::close(ends[0]);
    if (latest > said) said = latest, ++advanced;
    // Whoever opens the file brings it in order: that is left to the next daemon, but for some.
    if (said == 0 || step % kBetweenChecks != 0) continue;
    SCOPED_TRACE("killed at step " + std::to_string(step) + ", or one of the " + std::to_string(kBetweenChecks) +
                 " before");
    expect_whole(said);
  }
  EXPECT_GT(advanced, kKills / 5);
  expect_whole(said);
  History history = open();
  EXPECT_TRUE(history.check());
  EXPECT_TRUE(history.take_notices().empty());
}

}  // namespace
}  // namespace ration::history
