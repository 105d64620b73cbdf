// Pinned host memory in the accounts: counted by run and on no device, never zero where nothing counted it.
#include "history/export/table.hpp"
#include "history/export/writers.hpp"
#include "history_fixture.hpp"

namespace ration::history {
namespace {

/// Records two hours: train pins 2 GiB on two devices, vision's book counts none.
void two_hours(History& history, TimeMs from = kStart) {
  for (int hour = 0; hour <= 2; ++hour) {
    Sample sample = sample_at(from + hour * kHourMs,
                              {workload(1, "train", 8_GiB), workload(1, "train", 1_GiB), workload(2, "serve", 1_GiB)},
                              {device("GPU-0"), device("GPU-1")});
    sample.workloads[1].device = 1;
    sample.workloads[2].tenant = "vision";
    sample.pinned = {pinned(1, 2_GiB, hour == 1 ? 3_GiB : 0_B, hour)};
    ASSERT_TRUE(history.record(sample));
  }
  ASSERT_TRUE(history.commit());
}

class PinnedTest : public HistoryTest {
 protected:
  Report report(By by = By::kTenant) {
    auto made = reader().usage(whole_window(Basis::kUsed, by));
    EXPECT_TRUE(made) << (made ? "" : made.error().what);
    return std::move(*made);
  }
  const ReportRow& row(const Report& report, const std::string& name) {
    const ReportRow* found = find_row(report, name);
    EXPECT_NE(found, nullptr) << name;
    static const ReportRow kNone;
    return found == nullptr ? kNone : *found;
  }
};

TEST_F(PinnedTest, IsCountedOnceARunAndInNoSumOfADevice) {
  History history = open({2 * kHourMs, true});
  two_hours(history);
  const Report made = report();
  const ReportRow& nlp = row(made, "nlp");
  ASSERT_TRUE(nlp.pinned);
  EXPECT_EQ(byte_seconds(nlp.pinned->used), seconds(2_GiB, 2 * kHourMs)) << "once, though the run is on two devices";
  EXPECT_EQ(nlp.pinned->peak, static_cast<std::int64_t>((3_GiB).count()));
  EXPECT_EQ(nlp.pinned->denials, 2);
  EXPECT_FALSE(nlp.pinned_lacks);
  EXPECT_EQ(byte_seconds(nlp.used), seconds(9_GiB, 2 * kHourMs)) << "of devices alone";
  EXPECT_EQ(nlp.denials, 0) << "of devices alone";
  EXPECT_TRUE(made.adds_up);
  EXPECT_EQ(byte_seconds(made.sum), seconds(80_GiB, 2 * kHourMs));
  EXPECT_EQ(row(report(By::kDay), "2026-01-05").pinned->denials, 2);
  EXPECT_EQ(byte_seconds(row(report(By::kWorkload), "nlp/train").pinned->used), seconds(2_GiB, 2 * kHourMs));
  EXPECT_EQ(sql("SELECT count(*) FROM device_hours WHERE device = 0"), "0");
  EXPECT_EQ(sql("SELECT count(*) FROM levels WHERE device = 0"), "0") << "a recommendation is about devices";
  EXPECT_EQ(sql("SELECT count(*) FROM points WHERE line = 0"), "0");
}

TEST_F(PinnedTest, WhereNothingCountedItIsUnknownAndNotZero) {
  History history = open({2 * kHourMs, false});
  two_hours(history);
  const Report made = report();
  EXPECT_FALSE(row(made, "vision").pinned);
  const auto json = to_json(made);
  for (const auto& each : json["rows"]) {
    if (each["name"] == "nlp") {
      EXPECT_EQ(each["host_used_byte_seconds"], seconds(2_GiB, 2 * kHourMs));
      EXPECT_EQ(each["host_peak_bytes"], (3_GiB).count());
      EXPECT_EQ(each["host_denials"], 2);
      continue;
    }
    for (const char* field : {"host_used_byte_seconds", "host_peak_bytes", "host_denials"}) {
      EXPECT_TRUE(each.at(field).is_null()) << each;
      EXPECT_EQ(each.at(std::string(field) + "_na"), each["name"] == "vision" ? "not counted" : "not governed");
    }
  }
  const auto by_gpu = to_json(report(By::kGpu));
  EXPECT_EQ(by_gpu["rows"][0]["host_peak_bytes_na"], "on no GPU") << by_gpu["rows"][0];
  EXPECT_NE(to_csv(made).find(",15461882265600,3221225472,2\r\n"), std::string::npos) << to_csv(made);
  EXPECT_NE(to_csv(made).find("vision,governed,"), std::string::npos);
  EXPECT_NE(to_csv(made).find(",,,\r\n"), std::string::npos);
  const std::string table = to_markdown(made);
  EXPECT_NE(table.find("| denials | GiB·h pinned | pinned peak GiB |"), std::string::npos) << table;
  EXPECT_NE(table.find("| 0 | 4.0 | 3.0 |"), std::string::npos) << table;
  EXPECT_NE(table.find("| n/a (not counted) | n/a (not counted) |"), std::string::npos) << table;
  EXPECT_NE(table.find("Pinned host memory is on no GPU"), std::string::npos) << table;
}

TEST_F(PinnedTest, HoursOfAnOlderHistoryAreUnknownAndARowOfBothSaysSo) {
  {
    History history = open({2 * kHourMs, false});
    two_hours(history);
  }
  EXPECT_EQ(sql("DELETE FROM usage WHERE device = 0; DELETE FROM run_devices WHERE device = 0;"
                "DELETE FROM last_holdings WHERE device = 0; PRAGMA user_version = 5"),
            "");
  History history = open({2 * kHourMs, false});
  EXPECT_FALSE(row(report(), "nlp").pinned);
  EXPECT_EQ(to_json(report())["rows"][0]["host_peak_bytes_na"], "not counted");
  two_hours(history, kStart + 2 * kHourMs);
  const Report made = report();
  ASSERT_TRUE(row(made, "nlp").pinned);
  EXPECT_EQ(byte_seconds(row(made, "nlp").pinned->used), seconds(2_GiB, 2 * kHourMs));
  EXPECT_TRUE(row(made, "nlp").pinned_lacks);
  EXPECT_EQ(to_json(made)["rows"][0]["host_partial"], true);
  EXPECT_NE(to_markdown(made).find("was counted for a part of the time: 1."), std::string::npos);
  EXPECT_TRUE(made.adds_up);
}

TEST_F(PinnedTest, ARestartGoesOnAndARunThatEndedKeepsItsPeak) {
  {
    History history = open({2 * kHourMs, false});
    Sample sample = sample_at(kStart, {workload(1, "train", 1_GiB)});
    sample.pinned = {pinned(1, 1_GiB, 1_GiB, 4)};
    ASSERT_TRUE(history.record(sample));
    ASSERT_TRUE(history.commit());
  }
  History history = open({2 * kHourMs, false});
  Sample sample = sample_at(kStart + kHourMs, {workload(1, "train", 0_B)});
  sample.workloads[0].ended = kStart + kHourMs / 2;
  sample.pinned = {pinned(1, 0_B, 5_GiB, 4)};
  sample.pinned[0].ended = kStart + kHourMs / 2;
  ASSERT_TRUE(history.record(sample));
  ASSERT_TRUE(history.commit());
  const Report made = report();
  EXPECT_EQ(byte_seconds(row(made, "nlp").pinned->used), seconds(1_GiB, kHourMs / 2)) << "until it ended";
  EXPECT_EQ(row(made, "nlp").pinned->peak, static_cast<std::int64_t>((5_GiB).count()));
  EXPECT_EQ(row(made, "nlp").pinned->denials, 4) << "the same four after the restart";
  const auto last = reader().last_run("");
  ASSERT_TRUE(last);
  EXPECT_NE(to_text(*last).find(" pinned host memory, peak 5.00 GiB · denials 4 · GiB·h used 0.5\n"), std::string::npos)
      << to_text(*last);
  EXPECT_NE(to_markdown(*last).find("| pinned host memory | 5.00 GiB | | | | 4 | 0.5 | |\n"), std::string::npos);
}

TEST_F(PinnedTest, ARunWhosePinnedMemoryNobodyCountedSaysSo) {
  History history = open({2 * kHourMs, false});
  past_run(history, 1, kStart, 8_GiB, 12_GiB);
  ASSERT_TRUE(history.commit());
  EXPECT_NE(to_text(*reader().last_run("")).find(" pinned host memory n/a (not counted)\n"), std::string::npos);
  EXPECT_NE(to_markdown(*reader().last_run("")).find("| pinned host memory | n/a (not counted) |"), std::string::npos);
}

TEST_F(PinnedTest, FocusHasItInRowsOfItsOwnThatCostNothing) {
  History history = open({2 * kHourMs, false});
  two_hours(history);
  ExportFacts facts;
  facts.host = "node7";
  facts.prices.general = 31'000'000;
  facts.prices.of_tenants["nlp"] = 62'000'000;
  const std::string text = to_focus(*reader().charges(whole_window().window, Slice::kDay, Basis::kUsed), facts);
  std::size_t rows = 0;
  for (std::size_t at = 0; (at = text.find(",pinned-host-memory,", at)) != std::string::npos; ++at) ++rows;
  EXPECT_EQ(rows, 1U) << text;
  const std::size_t begin = text.rfind('\n', text.find(",pinned-host-memory,")) + 1;
  const std::string row = text.substr(begin, text.find("\r\n", begin) - begin);
  EXPECT_EQ(row.substr(0, 8), "0,node7,") << row;
  EXPECT_NE(row.find("\"Pinned host memory of nlp/train, run 1, basis used\""), std::string::npos) << row;
  EXPECT_NE(row.find(",node7,node7,Node,Compute,Pinned host memory,Other (Compute),pinned-host-memory,"
                     "pinned-host-memory/used,nlp,nlp,Tenant,"),
            std::string::npos)
      << row;
  EXPECT_NE(row.find(",pinned,train,alice,1,15461882265600,,,0,3221225472,2"), std::string::npos) << row;
}

TEST_F(PinnedTest, ASealedMonthHasItsLines) {
  History history = open({40 * kDayMs, false});
  Sample sample = sample_at(kStart, {workload(1, "train", 1_GiB)});
  sample.pinned = {pinned(1, 1_GiB)};
  ASSERT_TRUE(history.record(sample));
  sample.time_ns = month_start(2026, 2) * 1'000'000;
  ASSERT_TRUE(history.record(sample));
  ASSERT_TRUE(history.close_period("2026-01", month_start(2026, 2)));
  EXPECT_NE(sql("SELECT lines FROM periods").find(R"(["2026-01","pinned","nlp","alice","train","",1,)"),
            std::string::npos)
      << sql("SELECT lines FROM periods");
}

TEST_F(PinnedTest, WhatCannotBeIsRefused) {
  History history = open();
  Sample sample = sample_at(kStart, {workload(1, "train", 1_GiB)});
  sample.pinned = {pinned(1, Bytes{static_cast<std::uint64_t>(kMaxDevice) + 1})};
  const auto refused = history.record(sample);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().id, "E1918");
}

}  // namespace
}  // namespace ration::history
