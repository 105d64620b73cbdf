// A closed month stays as it is.
#include "history/periods.hpp"
#include "history_fixture.hpp"

namespace ration::history {
namespace {

const TimeMs kFebruary = month_start(2026, 2);

void until_february(History& history) {
  ASSERT_TRUE(history.record(sample_at(kFebruary - kHourMs, {workload(1, "train", 8_GiB)})));
  ASSERT_TRUE(history.record(sample_at(kFebruary + kHourMs, {workload(1, "train", 8_GiB)})));
}

ReportQuestion of_january() {
  ReportQuestion question;
  question.window = {month_start(2026, 1), kFebruary};
  return question;
}

TEST_F(HistoryTest, AMonthIsClosedOnceAndOnlyWhenItIsOver) {
  History history = open({4 * kHourMs, false});
  ASSERT_TRUE(history.record(sample_at(kFebruary - kHourMs, {workload(1, "train", 8_GiB)})));
  EXPECT_EQ(history.close_period("2026-01", kFebruary + kDayMs).error().id, "E1914") << "not recorded to its end";
  ASSERT_TRUE(history.record(sample_at(kFebruary + kHourMs, {workload(1, "train", 8_GiB)})));
  EXPECT_EQ(history.close_period("2026-01", kFebruary - 1).error().id, "E1914") << "not over";
  for (const char* name : {"2026-13", "2026-00", "2026-1", "202601", "last", "2026-01-01", "-026-01"})
    EXPECT_EQ(history.close_period(name, kFebruary + kDayMs).error().id, "E1914") << name;
  const auto closed = history.close_period("2026-01", kFebruary + kDayMs);
  ASSERT_TRUE(closed) << closed.error().what;
  EXPECT_EQ(closed->seal.size(), 64u);
  EXPECT_EQ(closed->seal, sha256(closed->lines));
  EXPECT_EQ(history.close_period("2026-01", kFebruary + kDayMs).error().id, "E1915");
  const auto kept = reader().usage(of_january())->closed;
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->lines, closed->lines);
  EXPECT_TRUE(kept->intact);
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(HistoryTest, WhatIsRecordedLaterLeavesAClosedMonthAsItWas) {
  std::optional<History> history(open({4 * kHourMs, false}));
  until_february(*history);
  const auto closed = history->close_period("2026-01", kFebruary + kDayMs);
  ASSERT_TRUE(closed);
  const auto before = reader().usage(of_january());
  ASSERT_TRUE(before->closed);
  EXPECT_EQ(before->period, "2026-01");
  ASSERT_NE(find_row(*before, "nlp"), nullptr);
  EXPECT_EQ(byte_seconds(find_row(*before, "nlp")->used), seconds(8_GiB, kHourMs));
  ASSERT_TRUE(history->record(sample_at(kFebruary + 2 * kHourMs, {workload(1, "train", 8_GiB)})));
  // The clock is set back into that month, and the daemon begins anew.
  for (const std::uint64_t run : {1U, 2U}) {
    ASSERT_TRUE(history->record(sample_at(kFebruary - kHourMs / 2, {workload(run, "train", 9_GiB)})));
    ASSERT_TRUE(history->record(sample_at(kFebruary - kHourMs / 4, {workload(run, "train", 9_GiB)})));
    ASSERT_TRUE(history->commit());
    history.reset();
    history.emplace(open({4 * kHourMs, false}));
  }
  const auto after = reader().usage(of_january());
  EXPECT_TRUE(after->sum == before->sum);
  ASSERT_NE(find_row(*after, "nlp"), nullptr);
  EXPECT_EQ(byte_seconds(find_row(*after, "nlp")->used), seconds(8_GiB, kHourMs));
  EXPECT_EQ(after->closed->lines, closed->lines);
  EXPECT_EQ(after->closed->seal, closed->seal);
  EXPECT_TRUE(after->closed->intact);
}

TEST_F(HistoryTest, NobodyChangesASealedMonthUnseen) {
  History history = open({4 * kHourMs, false});
  until_february(history);
  const auto closed = history.close_period("2026-01", kFebruary + kDayMs);
  ASSERT_TRUE(closed);
  const auto kept = [&] { return reader().usage(of_january())->closed.value(); };
  EXPECT_EQ(sql("UPDATE periods SET lines = 'less'"), "a closed period is never changed");
  EXPECT_EQ(sql("DELETE FROM periods"), "a closed period is never removed");
  EXPECT_EQ(kept().lines, closed->lines);
  EXPECT_TRUE(kept().intact);
  EXPECT_EQ(sql("DROP TRIGGER periods_stay; UPDATE periods SET lines = replace(lines, 'nlp', 'vis')"), "");
  EXPECT_NE(kept().lines, closed->lines);
  EXPECT_FALSE(kept().intact);
}

TEST_F(HistoryTest, TheSameMonthHasTheSameSealWhereverItWasRecorded) {
  std::string seals[2];
  for (std::string& seal : seals) {
    for (const char* part : {"", "-wal", "-shm"}) std::filesystem::remove(path_ + part);
    History history = open({4 * kHourMs, false});
    if (&seal != seals) {
      ASSERT_TRUE(history.record(sample_at(kFebruary - 2 * kHourMs, {}, {device("GPU-9")})));
    }
    until_february(history);
    if (&seal != seals) {
      ASSERT_TRUE(history.commit());
      sql("DELETE FROM device_hours WHERE device = 1; DELETE FROM spans WHERE device = 1");
    }
    const auto closed = history.close_period("2026-01", kFebruary + kDayMs);
    ASSERT_TRUE(closed) << closed.error().what;
    seal = closed->seal;
  }
  EXPECT_EQ(seals[0], seals[1]) << "numbers of rows are not part of it";
}

}  // namespace
}  // namespace ration::history
