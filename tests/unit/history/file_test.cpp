// The file itself: rights, two daemons, newer and damaged files.
#include <sys/stat.h>

#include <fstream>

#include "base/say.hpp"
#include "history_fixture.hpp"

namespace ration::history {
namespace {

std::vector<std::string> set_aside(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().string().find(".damaged-") != std::string::npos) names.push_back(entry.path());
  }
  return names;
}

TEST_F(HistoryTest, OnlyItsOwnerMayReadIt) {
  History history = open();
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(HistoryTest, ASecondDaemonIsRefused) {
  History history = open();
  const auto second = History::open(path_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().id, "E1913");
}

TEST_F(HistoryTest, AFileOfANewerRationIsRefusedAndLeftAlone) {
  { History history = open(); }
  sql("PRAGMA user_version = 99");
  const auto refused = History::open(path_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().id, "E1911");
  EXPECT_NE(refused.error().what.find("schema 99"), std::string::npos) << refused.error().what;
  EXPECT_EQ(Reader::open(path_).error().id, "E1911");
  EXPECT_EQ(sql("PRAGMA user_version"), "99");
  EXPECT_TRUE(set_aside(folder_).empty());
}

TEST_F(HistoryTest, AFileThatIsNoDatabaseIsSetAsideAndReported) {
  std::ofstream(path_) << std::string(20'000, 'x');
  History history = open();
  EXPECT_EQ(history.take_notices().size(), 1u);
  EXPECT_TRUE(history.take_notices().empty());
  const auto aside = set_aside(folder_);
  ASSERT_EQ(aside.size(), 1u);
  EXPECT_EQ(std::filesystem::file_size(aside[0]), 20'000u) << "kept as it was";
  ASSERT_TRUE(history.record(sample_at(kStart)));
  EXPECT_TRUE(history.commit());
}

TEST_F(HistoryTest, DamageMetWhileRunningLosesNothingThatIsNotStoredYet) {
  Event event;
  event.type = "daemon";
  std::int64_t before = 0;
  {
    History history = open();
    ASSERT_TRUE(history.record(sample_at(kStart, {workload(1, "train", 1_GiB)})));
    ASSERT_TRUE(history.commit());
    before = *history.append(event);
  }
  sql("PRAGMA wal_checkpoint(TRUNCATE)");
  History history = open();
  ASSERT_TRUE(history.record(sample_at(kStart + 1000, {workload(1, "train", 1_GiB)})));
  {
    // Every page but the first, as a failing disk would.
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096);
    const std::string rubbish(std::filesystem::file_size(path_) - 4096, '\x5a');
    file.write(rubbish.data(), static_cast<std::streamsize>(rubbish.size()));
  }
  // The connection may still have good pages in memory: a reader has none.
  auto fresh = Reader::open(path_);
  ASSERT_TRUE(fresh);
  const auto answer = fresh->usage(whole_window());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().id, "E1919");
  EXPECT_FALSE(history.check());
  EXPECT_EQ(history.take_notices().size(), 1u);
  EXPECT_FALSE(set_aside(folder_).empty());
  ASSERT_TRUE(history.commit());
  ASSERT_TRUE(history.record(sample_at(kStart + 2000, {workload(1, "train", 1_GiB)})));
  ASSERT_TRUE(history.commit());
  const auto report = reader().usage(whole_window());
  ASSERT_TRUE(report);
  EXPECT_EQ(byte_seconds(find_row(*report, "nlp")->used), seconds(1_GiB, 2000));
  EXPECT_GT(*history.append(event), before) << "numbers of events are not used again";
  EXPECT_TRUE(history.check());
}

TEST_F(HistoryTest, DamageThatNobodyReadsIsFoundByTheNextCommit) {
  History history = open();
  ASSERT_TRUE(history.record(sample_at(kStart, {workload(1, "train", 1_GiB)})));
  ASSERT_TRUE(history.commit());
  ASSERT_TRUE(history.commit());
  EXPECT_TRUE(history.take_notices().empty()) << "what it wrote itself is no damage";
  sql("PRAGMA wal_checkpoint(TRUNCATE)");
  ASSERT_TRUE(history.commit());
  EXPECT_TRUE(history.take_notices().empty()) << "nor is what another program did to it in order";
  {
    sql("PRAGMA wal_checkpoint(TRUNCATE)");
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    const std::string garbage(4096, 'x');
    file.write(garbage.data(), static_cast<std::streamsize>(garbage.size()));
  }
  ASSERT_TRUE(history.commit());
  const auto told = history.take_notices();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_NE(told.front().find("was damaged"), std::string::npos);
  std::filesystem::remove(path_);
  ASSERT_TRUE(history.commit());
  EXPECT_NE(history.take_notices().at(0).find("was removed"), std::string::npos);
}

TEST_F(HistoryTest, WhereTheFileWasRemovedWatchingBeginsAnew) {
  for (const bool whole_folder : {false, true}) {
    History history = open();
    const auto look = [&](TimeMs at) {
      ASSERT_TRUE(history.record(sample_at(at, {workload(1, "train", 1_GiB)})));
      ASSERT_TRUE(history.commit());
    };
    for (TimeMs at = kStart; at < kStart + 5000; at += 1000) look(at);
    ASSERT_TRUE(history.record(sample_at(kStart + 5000, {workload(1, "train", 1_GiB)})));
    if (whole_folder)
      std::filesystem::remove_all(folder_);
    else
      std::filesystem::remove(path_);
    EXPECT_FALSE(history.in_place());
    Event event;
    event.type = "daemon";
    ASSERT_TRUE(history.append(event)) << "before anybody noticed";
    EXPECT_FALSE(history.in_place());
    look(kStart + 6000);
    EXPECT_TRUE(history.in_place());
    EXPECT_NE(history.take_notices().at(0).find("was removed"), std::string::npos);
    look(kStart + 7000);
    const auto report = reader().usage(whole_window());
    ASSERT_TRUE(report);
    EXPECT_TRUE(report->adds_up);
    EXPECT_EQ(report->recorded_from, kStart + 4000) << "what was not committed is in the new file";
    EXPECT_EQ(byte_seconds(find_row(*report, "nlp")->used), seconds(1_GiB, 3000));
    EXPECT_FALSE(History::open(path_)) << "it still holds the lock";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
}

TEST_F(HistoryTest, AFileThatWasExchangedIsNotTakenForItsOwn) {
  History history = open();
  ASSERT_TRUE(history.record(sample_at(kStart, {workload(1, "train", 1_GiB)})));
  ASSERT_TRUE(history.commit());
  std::filesystem::rename(path_, path_ + ".before");
  std::filesystem::copy_file(path_ + ".before", path_);
  ASSERT_TRUE(history.commit());
  EXPECT_NE(history.take_notices().at(0).find("exchanged"), std::string::npos);
  EXPECT_TRUE(history.in_place());
}

TEST_F(HistoryTest, WhereNoNewFileCanBeBegunEveryWriteFailsUntilOneCan) {
  History history = open();
  ASSERT_TRUE(history.record(sample_at(kStart, {workload(1, "train", 1_GiB)})));
  ASSERT_TRUE(history.commit());
  std::filesystem::remove_all(folder_);
  std::ofstream(folder_) << "in the way";
  for (int times = 0; times < 2; ++times) {
    const auto failed = history.commit();
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().id, "E1912");
  }
  EXPECT_TRUE(history.take_notices().empty());
  std::filesystem::remove(folder_);
  EXPECT_TRUE(history.commit());
}

TEST_F(HistoryTest, AFailedCommitKeepsWhatItHadForTheNextOne) {
  History history = open();
  ASSERT_TRUE(history.record(sample_at(kStart, {workload(1, "train", 1_GiB)})));
  ASSERT_TRUE(history.commit());
  ASSERT_TRUE(history.record(sample_at(kStart + 1000, {workload(1, "train", 1_GiB), workload(2, "new", 1_GiB)})));
  sql("CREATE TRIGGER broken BEFORE INSERT ON marks BEGIN SELECT RAISE(ABORT, 'no space'); END");
  const auto failed = history.commit();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().id, "E1912");
  EXPECT_EQ(history.committed_to(), kStart);
  sql("DROP TRIGGER broken");
  ASSERT_TRUE(history.commit());
  EXPECT_EQ(byte_seconds(find_row(*reader().usage(whole_window()), "nlp")->used), seconds(1_GiB, 1000));
}

TEST_F(HistoryTest, ARestartGoesOnWithTheLastValuesOrEntersAGap) {
  {
    History history = open();
    ASSERT_TRUE(history.record(sample_at(kStart, {workload(1, "train", 1_GiB)})));
    ASSERT_TRUE(history.commit());
  }
  {
    History history = open();
    EXPECT_EQ(*history.record(sample_at(kStart + 1400, {workload(1, "train", 2_GiB)})), Recorded::kHeld);
    ASSERT_TRUE(history.commit());
  }
  History history = open();
  EXPECT_EQ(*history.record(sample_at(kStart + 60'000, {})), Recorded::kGap);
  ASSERT_TRUE(history.commit());
  const auto report = reader().usage(whole_window());
  EXPECT_EQ(byte_seconds(find_row(*report, "nlp")->used), seconds(1_GiB, 1400));
  EXPECT_EQ(byte_seconds(find_row(*report, "(not recorded)")->charged), seconds(40_GiB, 58'600));
  EXPECT_TRUE(report->adds_up);
}

TEST_F(HistoryTest, ARunThatComesBackAfterAPauseIsTheSameRun) {
  History history = open();
  for (const TimeMs at : {0, 1000, 2000, 3000}) {
    const bool there = at != 1000;
    ASSERT_TRUE(history.record(
        sample_at(kStart + at, there ? std::vector{workload(1, "train", 1_GiB)} : std::vector<WorkloadSample>{})));
    ASSERT_TRUE(history.commit());
  }
  EXPECT_EQ(sql("SELECT count(*) FROM runs"), "1");
  EXPECT_EQ(byte_seconds(find_row(*reader().usage(whole_window()), "nlp")->used), seconds(1_GiB, 2000));
}

TEST_F(HistoryTest, HowLongARunLastedIsKnownAfterARestart) {
  const auto run = [](std::uint64_t number, std::uint64_t command) {
    WorkloadSample now = workload(number, "train-" + std::to_string(number), 1_GiB);
    now.command = command;
    return now;
  };
  {
    History history = open();
    ASSERT_TRUE(history.record(sample_at(kStart, {run(1, 0xfedcba9876543210U), run(2, 7), run(3, 7), run(4, 0)})));
    history.run_ended({1, kStart}, kStart + 9'000, 0);
    history.run_ended({2, kStart}, kStart + 4'000, 0);
    history.run_ended({4, kStart}, kStart + 4'000, 0);  // of which no command is known
    ASSERT_TRUE(history.commit());
  }
  {
    History history = open();
    ASSERT_TRUE(history.record(sample_at(kStart + 10'000, {run(3, 7), run(5, 7)})));
    history.run_ended({3, kStart}, kStart + 5'000, 1);  // it failed
    ASSERT_TRUE(history.commit());
  }
  auto past = reader().past_runs(100);
  ASSERT_TRUE(past);
  ASSERT_EQ(past->size(), 2U);
  EXPECT_EQ((*past)[0].number, 2U) << "in the order in which they ended";
  EXPECT_EQ((*past)[0].lasted, 4'000);
  EXPECT_EQ((*past)[1].workload, "train-1");
  EXPECT_EQ((*past)[1].tenant, "nlp");
  EXPECT_EQ((*past)[1].user, "alice");
  EXPECT_EQ((*past)[1].command, 0xfedcba9876543210U);
  EXPECT_EQ(reader().past_runs(4)->size(), 1U) << "of the newest four runs";
}

TEST_F(HistoryTest, AFileOfAnOlderRationGetsWhatIsNewAndKeepsWhatItHad) {
  {
    History history = open();
    ASSERT_TRUE(history.record(sample_at(kStart, {workload(1, "train", 1_GiB)})));
    Event event = plain_event("ended", say<"claim.returned">("claim"_is("c-1")));
    event.time = kStart;
    ASSERT_TRUE(history.append(event));
    ASSERT_TRUE(history.commit());
  }
  EXPECT_EQ(sql("ALTER TABLE runs DROP COLUMN command; DROP INDEX events_by_first; "
                "ALTER TABLE events DROP COLUMN message_json; PRAGMA user_version = 2"),
            "");
  EXPECT_EQ(Reader::open(path_).error().id, "E1911");
  History history = open();
  EXPECT_EQ(sql("SELECT workload || command FROM runs"), "train0");
  const auto event = reader().event(1);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->text, "claim c-1 was given back");
  EXPECT_EQ(event->message, "") << "an older ration recorded its text alone";
}

TEST_F(HistoryTest, UseIsKeptAsLongAsTheConfigurationSays) {
  History history = open({2 * kHourMs, false, 3 * kDayMs});
  for (int hour = 0; hour <= 10 * 24; ++hour)
    ASSERT_TRUE(history.record(sample_at(kStart + hour * kHourMs, {workload(1, "train", 1_GiB)})));
  ASSERT_TRUE(history.commit());
  EXPECT_EQ(sql("SELECT count(*) FROM usage"), std::to_string(3 * 24));
  history.set_usage_kept(0);  // a day at least
  ASSERT_TRUE(history.record(sample_at(kStart + 10 * kDayMs + kHourMs, {workload(1, "train", 1_GiB)})));
  ASSERT_TRUE(history.commit());
  EXPECT_EQ(sql("SELECT count(*) FROM usage"), std::to_string(24));
}

TEST_F(HistoryTest, OldHoursAreRemovedAndTheRestStillAddsUp) {
  History history = open({2 * kHourMs, false});
  for (int hour = 0; hour <= 405 * 24; ++hour)
    ASSERT_TRUE(history.record(sample_at(kStart + hour * kHourMs, {workload(hour < 24 ? 1 : 2, "train", 1_GiB)})));
  ASSERT_TRUE(history.commit());
  EXPECT_EQ(sql("SELECT count(*) FROM usage"), std::to_string(400 * 24));
  EXPECT_EQ(sql("SELECT count(*) FROM runs"), "1") << "a run without hours goes with them";
  auto question = whole_window();
  question.window.to += 10 * kDayMs;
  const auto report = reader().usage(question);
  EXPECT_EQ(byte_seconds(report->capacity), seconds(40_GiB, 400 * kDayMs));
  EXPECT_TRUE(report->adds_up);
  ASSERT_TRUE(history.record(sample_at(kStart + 405 * kDayMs + kMinuteMs, {})));
  ASSERT_TRUE(history.commit());
  EXPECT_TRUE(reader().usage(question)->adds_up);
}

}  // namespace
}  // namespace ration::history
