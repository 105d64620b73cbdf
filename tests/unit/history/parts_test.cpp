// What the history is made of, one by one: its file, its names, its events and its upkeep.
#include <fstream>

#include "history/schema.hpp"
#include "history_fixture.hpp"

namespace ration::history {
namespace {

class HistoryParts : public HistoryTest {
 protected:
  static std::int64_t ask(Database& database, const char* text) {
    Statement asked(database, text);
    return asked.row() ? asked.integer(0) : -1;
  }
};

TEST_F(HistoryParts, AFileKnowsItsOwnWritesFromThoseOfOthersAndItsPlaceFromAnother) {
  auto file = HistoryFile::open(path_);
  ASSERT_TRUE(file);
  EXPECT_EQ(HistoryFile::open(path_).error().id, "E1913");
  const auto write = [&] { file->database().run("INSERT INTO marks VALUES('a', 1)"); };
  ASSERT_TRUE(file->transaction(write));
  EXPECT_FALSE(file->was_changed());
  EXPECT_FALSE(file->transaction(write)) << "there is one already";
  EXPECT_TRUE(file->in_place());
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) + 1);
  EXPECT_TRUE(file->was_changed());
  file->accept_changes();
  EXPECT_FALSE(file->was_changed());
  std::filesystem::rename(path_, path_ + ".away");
  EXPECT_FALSE(file->in_place());
  std::filesystem::copy_file(path_ + ".away", path_);
  EXPECT_FALSE(file->in_place()) << "that is another";
  EXPECT_FALSE(file->is_sound());
  file->set_unusable({"E1912", "no room", "", 1});
  EXPECT_EQ(file->transaction(write).error().what, "no room");
  ASSERT_TRUE(file->begin_anew());
  EXPECT_TRUE(file->is_sound());
  EXPECT_EQ(file->take_notices().size(), 1U);
  EXPECT_TRUE(file->transaction(write)) << "in the new one";
  EXPECT_TRUE(std::filesystem::exists(path_ + ".away"));
}

TEST_F(HistoryParts, ANumberIsGivenOnceAndStoredOnceInEachFile) {
  const auto database_at = [](const std::string& path) {
    auto database = Database::open(path, Database::Access::kWrite);
    EXPECT_TRUE(database && migrate(*database, path));
    return std::move(*database);
  };
  Database database = database_at(path_);
  Names names;
  const std::int64_t device = names.device(ration::history::device());
  EXPECT_EQ(names.device(ration::history::device()), device);
  EXPECT_NE(names.device(ration::history::device("GPU-1")), device);
  const std::int64_t line = names.line(1, "nlp", device);
  EXPECT_EQ(names.line(1, "nlp", device), line);
  EXPECT_NE(names.line(2, "nlp", device), line);
  const std::int64_t run = names.run(database, workload(1, "train", 1_GiB)).id;
  EXPECT_EQ(names.run(database, workload(1, "other", 1_GiB)).facts.workload, "train") << "as it was at first";
  names.store(database);
  names.run_ended({1, kStart}, kStart + 5, 3);
  names.store(database);
  EXPECT_FALSE(database.outcome()) << "it was not told that they are stored";
  names.note_stored({});
  names.store(database);
  EXPECT_TRUE(database.outcome());
  EXPECT_EQ(names.run(database, workload(1, "other", 1_GiB)).id, run) << "forgotten, and found again";
  EXPECT_EQ(names.run(database, workload(1, "other", 1_GiB)).facts.workload, "train");
  EXPECT_NE(names.run(database, workload(2, "train", 1_GiB)).id, run);

  names.note_nothing_stored();
  Database fresh = database_at(path_ + ".new");
  names.store(fresh);
  EXPECT_TRUE(fresh.outcome());
  EXPECT_EQ(ask(fresh, "SELECT count(*) FROM devices"), 2);
  EXPECT_EQ(ask(fresh, "SELECT count(*) FROM lines"), 2);
  EXPECT_EQ(ask(fresh, "SELECT count(*) FROM runs"), 2);
  Names later;
  later.load(fresh);
  EXPECT_EQ(later.device(ration::history::device()), device);
  EXPECT_EQ(later.line(1, "nlp", device), line);
  EXPECT_GT(later.line(1, "new", device), line);
}

TEST(EventLog, WhatWaitsIsStoredBeforeWhatIsNew) {
  EventLog log;
  bool is_full = true;
  std::vector<std::string> stored;
  const EventLog::Store store = [&](std::vector<Event>& events) -> Result<void> {
    if (is_full) return fail("E1912", "the disk is full.");
    for (Event& event : events) stored.push_back(event.text), event.id = static_cast<std::int64_t>(stored.size());
    return {};
  };
  for (const char* text : {"one", "two"}) {
    std::vector<Event> events{plain_event("daemon", text)};
    EXPECT_FALSE(log.append(events, store));
  }
  EXPECT_FALSE(log.store_kept(store));
  EXPECT_TRUE(log.take_late().empty());
  is_full = false;
  std::vector<Event> events{plain_event("daemon", "three")};
  EXPECT_TRUE(log.append(events, store));
  EXPECT_EQ(stored, (std::vector<std::string>{"one", "two", "three"}));
  const auto late = log.take_late();
  ASSERT_EQ(late.size(), 2U);
  EXPECT_EQ(late[1].id, 2);
  EXPECT_TRUE(log.take_late().empty());
}

TEST_F(HistoryParts, WhatIsOldIsRemovedOnceAnHourAndNotWhileTheClockMayBeWrong) {
  auto file = HistoryFile::open(path_);
  ASSERT_TRUE(file);
  Database& database = file->database();
  Upkeep upkeep;
  const auto is_pruned = [&](TimeMs now) {
    database.run("INSERT INTO gaps VALUES(1, 2)");
    upkeep.step(database, now);
    upkeep.note_done(now);
    const bool pruned = ask(database, "SELECT count(*) FROM gaps") == 0;
    database.run("DELETE FROM gaps");
    EXPECT_TRUE(database.outcome());
    return pruned;
  };
  EXPECT_TRUE(is_pruned(kStart));
  EXPECT_FALSE(is_pruned(kStart + kHourMs - 1));
  EXPECT_TRUE(is_pruned(kStart + kHourMs));
  upkeep.note_gap(kStart, kStart + 2 * kDayMs);
  EXPECT_TRUE(is_pruned(kStart + 2 * kDayMs)) << "the daemon may have been away for a weekend";
  upkeep.note_gap(kStart, kStart + 9 * kDayMs);
  EXPECT_FALSE(is_pruned(kStart + 9 * kDayMs));
  Upkeep later;
  later.load(database);
  upkeep = later;
  EXPECT_FALSE(is_pruned(kStart + 10 * kDayMs)) << "over a restart, too";
  EXPECT_TRUE(is_pruned(kStart + 16 * kDayMs));
}

}  // namespace
}  // namespace ration::history
