// The forms of a report: names that mean harm do none, sums stay exact.
#include "history/export/writers.hpp"

#include "history/export/cells.hpp"
#include "history/export/table.hpp"
#include "history_fixture.hpp"

namespace ration::history {
namespace {

constexpr const char* kEvil = "=cmd|'/c calc'!A1<script>alert(\"1\")</script>|**x**,\n";

Report report_of(Reader reader) {
  ReportQuestion question = whole_window();
  question.prices.general = 31'000'000;
  return *reader.usage(question);
}

ExportFacts facts_of(Basis basis, std::int64_t general, std::int64_t of_nlp) {
  ExportFacts facts;
  facts.host = "node7";
  facts.basis = basis;
  facts.prices.general = general;
  facts.prices.of_tenants["nlp"] = of_nlp;
  return facts;
}

class WritersTest : public HistoryTest {
 protected:
  void SetUp() override {
    History history = open({2 * kHourMs, false});
    for (int hour = 0; hour <= 30; ++hour) {
      auto sample = sample_at(kStart + hour * kHourMs, {workload(1, "train", 8_GiB), workload(2, "serve", 3_GiB)});
      sample.workloads[0].labels = "exp=42,team=x";
      sample.workloads[1].tenant = kEvil;
      ASSERT_TRUE(history.record(sample));
    }
    ASSERT_TRUE(history.commit());
  }
};

TEST(Cells, AreHarmlessInEveryForm) {
  EXPECT_EQ(CsvRow().text("=1+1").line(), "\"'=1+1\"\r\n");
  EXPECT_EQ(CsvRow().text("+1").text("-1").text("@x").line(), "\"'+1\",\"'-1\",\"'@x\"\r\n");
  EXPECT_EQ(CsvRow().text("a\"b,c\nd").number(-5).empty().line(), "\"a\"\"b,c\nd\",-5,\r\n");
  EXPECT_EQ(html_text("<a href='x'>&\"</a>"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;&lt;/a&gt;");
  EXPECT_EQ(markdown_cell("a|b*c<d\n"), "a\\|b\\*c&lt;d ");
  EXPECT_EQ(grouped(5120.44), "5\u00a0120.4");
  EXPECT_EQ(grouped(12.0), "12.0");
  EXPECT_EQ(grouped(29313600.06), "29\u00a0313\u00a0600.1");
  EXPECT_EQ(grouped(-5120.44), "-5\u00a0120.4");
  EXPECT_EQ(figures(5120.44), "5120.4");
  EXPECT_EQ(figures(0), "0.0");
  EXPECT_EQ(figures(0.04271), "0.0427") << "little is not nothing";
  EXPECT_EQ(figures(-0.01), "-0.01");
  EXPECT_EQ(figures(9.996), "10.0");
  EXPECT_EQ(figures(1.5e-12), "< 1e-9");
  EXPECT_EQ(cents(15873), "158.73");
  EXPECT_EQ(cents(-5), "-0.05");
  EXPECT_EQ(exact_gib_hours(ByteTime{(__int128{1} << 30) * kHourMs * 5 / 2}), "2.5");
  EXPECT_EQ(exact_cost(ByteTime{(__int128{1} << 30) * kHourMs}, 31'000'000), "0.031");
  EXPECT_EQ(exact_cost(ByteTime{-(__int128{1} << 30) * kHourMs}, 1'000'000'000), "-1");
}

TEST_F(WritersTest, CsvHasOneLineForEachRowAndNoFormula) {
  const std::string csv = to_csv(report_of(reader()));
  EXPECT_NE(csv.find("\"'=cmd|"), std::string::npos);
  EXPECT_NE(csv.find("nlp,governed,used,2026-01-05T00:00:00.000Z,"), std::string::npos) << csv;
  EXPECT_NE(csv.find(",240,"), std::string::npos) << "8 GiB for 30 h";
  EXPECT_NE(csv.find("(idle, not held)"), std::string::npos);
}

TEST_F(WritersTest, MarkdownHasTheSumAsItsLastRow) {
  const std::string text = to_markdown(report_of(reader()));
  EXPECT_NE(text.find("| nlp | 240.0 | 240.0 | 300.0 | 8.0 | 80% | 0 | 7.44 EUR |\n"), std::string::npos) << text;
  EXPECT_NE(text.find("| **sum = 40.0 GiB × 30 h** | **1\u00a0200.0** |"), std::string::npos) << text;
  EXPECT_EQ(text.find("<script"), std::string::npos);
  EXPECT_NE(text.find("Basis used: integral of bytes held over time."), std::string::npos);
  EXPECT_NE(text.find("add up to capacity × recorded time exactly"), std::string::npos);
}

TEST_F(WritersTest, WhatLiesBeforeTheFirstRecordIsSaidAndNotInTheArithmetic) {
  for (const char* part : {"", "-wal", "-shm"}) std::filesystem::remove(path_ + part);
  History history = open({2 * kHourMs, false});
  const TimeMs begun = kStart + 30 * kMinuteMs;
  ASSERT_TRUE(history.record(sample_at(begun, {workload(1, "train", 1_GiB)})));
  ASSERT_TRUE(history.record(sample_at(begun + 162 * kSecondMs, {workload(1, "train", 1_GiB)})));
  ASSERT_TRUE(history.commit());
  ReportQuestion question = whole_window();
  question.window = {kStart - 24 * kHourMs, kStart + kHourMs};
  const auto report = reader().usage(question);
  EXPECT_EQ(report->recorded_from, begun);
  EXPECT_EQ(sum_arithmetic(*report), "40.0 GiB × 0.045 h");
  const std::string text = to_markdown(*report);
  EXPECT_NE(text.find("| **sum = 40.0 GiB × 0.045 h** | **1.8** |"), std::string::npos) << text;
  EXPECT_NE(text.find("| nlp | 0.045 | 0.045 | 0.45 |"), std::string::npos) << text;
  EXPECT_NE(
      text.find(
          "Recorded from 2026-01-05T00:30:00.000Z on; before that the daemon was not running: 24h 30m of the window "
          "are not in the sum."),
      std::string::npos)
      << text;
  const auto document = to_json(*report);
  EXPECT_EQ(document["recorded_from"], "2026-01-05T00:30:00.000Z");
  EXPECT_EQ(document["notes"].size(), document["notes_messages"].size());
  EXPECT_EQ(document["notes_messages"][2]["message_id"], "report.recorded_from");
  EXPECT_EQ(document["sum_text"], "40.0 GiB × 0.045 h");
  question.window = {kStart - 24 * kHourMs, kStart - 23 * kHourMs};
  const auto before = reader().usage(question);
  EXPECT_FALSE(before->recorded_from);
  EXPECT_NE(to_markdown(*before).find("Nothing is recorded in this window"), std::string::npos);
  EXPECT_EQ(to_markdown(*before).find("exactly"), std::string::npos);
  EXPECT_TRUE(to_json(*before)["recorded_from"].is_null());
  question.problem = "the disk is full.";
  EXPECT_NE(to_markdown(*reader().usage(question)).find("in this window: the disk is full."), std::string::npos);
}

TEST_F(WritersTest, DevicesThatWereRecordedNotEquallyLongAreReckonedApart) {
  for (const char* part : {"", "-wal", "-shm"}) std::filesystem::remove(path_ + part);
  History history = open({2 * kHourMs, false});
  ASSERT_TRUE(history.record(sample_at(kStart)));
  const std::vector<DeviceSample> both{device(), device("GPU-1", 16_GiB)};
  for (int hour = 1; hour <= 3; ++hour) ASSERT_TRUE(history.record(sample_at(kStart + hour * kHourMs, {}, both)));
  ASSERT_TRUE(history.commit());
  const auto report = reader().usage(whole_window());
  EXPECT_EQ(sum_arithmetic(*report), "40.0 GiB × 3 h + 16.0 GiB × 2 h");
  EXPECT_EQ(byte_seconds(report->sum), seconds(Bytes{(40_GiB).count() * 3 + (16_GiB).count() * 2}, kHourMs));
}

TEST_F(WritersTest, WhatHasNoPriceCostsNotNothing) {
  ReportQuestion question = whole_window();
  question.prices = {0, {{"nlp", 1'000'000'000}}};
  const auto report = reader().usage(question);
  EXPECT_EQ(report->cost_cents, 240'00);
  EXPECT_EQ(report->unpriced_rows, 2U) << "the other tenant and what is idle";
  const std::string text = to_markdown(*report);
  EXPECT_NE(text.find("| nlp | 240.0 | 240.0 | 300.0 | 8.0 | 80% | 0 | 240.00 EUR |"), std::string::npos) << text;
  EXPECT_NE(text.find("| 90.0 | 90.0 | 300.0 | 3.0 | 30% | 0 | n/a (no price) |"), std::string::npos) << text;
  EXPECT_NE(text.find("**240.00 EUR + 2 rows without a price**"), std::string::npos) << text;
  EXPECT_NE(text.find("Rows without a price: 2. They are not in the cost"), std::string::npos) << text;
  const auto document = to_json(*report);
  EXPECT_EQ(document["cost"], 240);
  EXPECT_EQ(document["unpriced_rows"], 2);
  EXPECT_TRUE(document["rows"][1]["cost"].is_null());
  EXPECT_EQ(document["rows"][1]["cost_na"], "no price");
  EXPECT_NE(to_csv(*report).find(",0.3000,0,,,,,\r\n"), std::string::npos) << to_csv(*report);
  EXPECT_EQ(to_csv(*report).find(",0.00,"), std::string::npos);
}

TEST_F(WritersTest, ARowOfWhichOnlyAPartHasAPriceSaysSo) {
  ReportQuestion question = whole_window(Basis::kUsed, By::kGpu);
  question.prices = {0, {{"nlp", 1'000'000'000}}};
  const auto report = reader().usage(question);
  EXPECT_EQ(find_row(*report, "GPU-0")->cost_cents, 240'00);
  EXPECT_EQ(report->partly_priced_rows, 1U);
  EXPECT_EQ(to_json(*report)["rows"][0]["cost_partial"], true);
  EXPECT_NE(to_markdown(*report).find("Rows of which only a part has a price: 1."), std::string::npos);
  question.prices = {0, {{"nobody", 1'000'000'000}}};
  const auto none = reader().usage(question);
  EXPECT_FALSE(none->cost_known);
  EXPECT_FALSE(to_json(*none).contains("cost"));
  EXPECT_EQ(to_markdown(*none).find("0.00 EUR"), std::string::npos);
}

TEST_F(WritersTest, WhatIsChargedForIsAColumn) {
  EXPECT_EQ(to_markdown(report_of(reader())).find("guarantee"), std::string::npos) << "nobody has one";
  EXPECT_NE(to_markdown(report_of(reader())).find("| GiB·h charged (used) |"), std::string::npos);
  for (const Basis basis : {Basis::kGuarantee, Basis::kMaxUsedGuarantee}) {
    const auto report = reader().usage(whole_window(basis));
    EXPECT_NE(to_markdown(*report).find("| GiB·h guarantee |"), std::string::npos);
    EXPECT_NE(to_markdown(*report).find("| GiB·h charged (" + name_of(basis) + ") |"), std::string::npos);
  }
}

TEST_F(WritersTest, OneRunIsATableToo) {
  const auto run = reader().last_run("nlp/train");
  ASSERT_TRUE(run);
  EXPECT_EQ(to_markdown(*run),
            "## nlp/train · run 1\n\n"
            "user alice, tenant nlp, 2026-01-05 00:00 → 2026-01-06 06:00Z (30h 00m)  running\n\n"
            "labels exp=42,team=x\n\n"
            "| GPU | peak | mean | limit | peak of limit | denials | GiB·h used | GiB·h limit |\n"
            "|:--|--:|--:|--:|--:|--:|--:|--:|\n"
            "| NVIDIA A100-40 GPU-0 | 8.00 GiB | 8.00 GiB | 10.0 GiB | 80% | 0 | 240.0 | 300.0 |\n"
            "| pinned host memory | n/a (not counted) | | | | | | |\n\n"
            "- Peak 8.00 GiB of 10.0 GiB: next time  ration run --limit 8.5GiB -- …\n");
  const auto evil = reader().last_run("serve");
  EXPECT_EQ(to_markdown(*evil).find("<script"), std::string::npos);
}

TEST_F(WritersTest, JsonIsAsTheInterfaceSays) {
  const auto document = to_json(report_of(reader()));
  EXPECT_EQ(document["by"], "tenant");
  EXPECT_EQ(document["basis"], "used");
  EXPECT_EQ(document["adds_up"], true);
  EXPECT_EQ(document["sum_byte_seconds"], seconds(40_GiB, 30 * kHourMs));
  EXPECT_EQ(document["sum_byte_seconds"], document["capacity_byte_seconds"]);
  EXPECT_EQ(document["rows"][0]["name"], "nlp");
  EXPECT_EQ(document["rows"][0]["kind"], "governed");
  EXPECT_EQ(document["rows"][0]["cost"], 7.44);
  const auto& idle = document["rows"].back();
  EXPECT_EQ(idle["kind"], "idle");
  EXPECT_TRUE(idle["limit_byte_seconds"].is_null());
  EXPECT_EQ(idle["limit_byte_seconds_na"], "not governed");
  EXPECT_TRUE(document["seal"].is_null());
}

// Cells of a file of lines; quoted ones may hold anything.
std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows(1, std::vector<std::string>(1));
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (letter == '"') {
      if (quoted && at + 1 < text.size() && text[at + 1] == '"') {
        rows.back().back() += '"', ++at;
      } else {
        quoted = !quoted;
      }
    } else if (!quoted && letter == ',') {
      rows.back().emplace_back();
    } else if (!quoted && letter == '\r') {
      ++at;
      rows.emplace_back(1);
    } else {
      rows.back().back() += letter;
    }
  }
  rows.pop_back();
  return rows;
}

TEST_F(WritersTest, FocusHasItsColumnsAndItsCostsMatchQuantityTimesPrice) {
  const auto charges = reader().charges({kStart, kStart + 40 * kDayMs}, Slice::kDay, Basis::kLimit);
  ASSERT_TRUE(charges);
  const auto rows = parse_csv(to_focus(*charges, facts_of(Basis::kLimit, 31'000'000, 62'000'000)));
  std::map<std::string, std::size_t> column;
  for (std::size_t place = 0; place < rows[0].size(); ++place) column[rows[0][place]] = place;
  for (const char* mandatory : {"BilledCost",         "BillingAccountId",
                                "BillingAccountName", "BillingCurrency",
                                "BillingPeriodEnd",   "BillingPeriodStart",
                                "ChargeCategory",     "ChargeClass",
                                "ChargeDescription",  "ChargePeriodEnd",
                                "ChargePeriodStart",  "ContractedCost",
                                "EffectiveCost",      "InvoiceIssuerName",
                                "ListCost",           "PricingQuantity",
                                "PricingUnit",        "ProviderName",
                                "PublisherName",      "ServiceCategory",
                                "ServiceName",        "ConsumedQuantity",
                                "ConsumedUnit",       "ResourceId",
                                "SubAccountId",       "Tags"})
    EXPECT_TRUE(column.contains(mandatory)) << mandatory;
  double quantity = 0;
  for (std::size_t line = 1; line < rows.size(); ++line) {
    const auto cell = [&](const char* name) { return rows[line][column.at(name)]; };
    ASSERT_EQ(rows[line].size(), rows[0].size());
    EXPECT_EQ(cell("ResourceId"), "GPU-0");
    EXPECT_EQ(cell("PricingUnit"), "GiB-Hours");
    EXPECT_EQ(cell("BillingPeriodStart"), "2026-01-01T00:00:00Z");
    EXPECT_EQ(cell("ChargePeriodStart").substr(10), "T00:00:00Z");
    const bool own = cell("SubAccountId") == "nlp";
    EXPECT_EQ(cell("ListUnitPrice"), own ? "0.062" : "0.031");
    EXPECT_EQ(cell("SkuPriceId"), own ? "gpu-memory/limit/nlp" : "gpu-memory/limit") << "one name, one price";
    EXPECT_NEAR(std::stod(cell("BilledCost")), std::stod(cell("PricingQuantity")) * std::stod(cell("ListUnitPrice")),
                1e-8);
    quantity += std::stod(cell("PricingQuantity"));
    if (cell("x_Workload") == "train" && cell("ChargePeriodStart") == "2026-01-05T00:00:00Z") {
      EXPECT_EQ(cell("SubAccountId"), "nlp");
      EXPECT_EQ(cell("Tags"), R"({"exp":"42","team":"x"})");
      EXPECT_EQ(cell("PricingQuantity"), "240");
      EXPECT_EQ(cell("ConsumedQuantity"), "192");
      EXPECT_EQ(cell("ChargePeriodEnd"), "2026-01-06T00:00:00Z");
    }
  }
  EXPECT_NEAR(quantity, 40 * 30, 1e-6);
}

TEST_F(WritersTest, OpenCostCountsSharesOfGpus) {
  const auto charges = reader().charges({kStart, kStart + 40 * kDayMs}, Slice::kWhole, Basis::kUsed);
  const auto answer = to_opencost(*charges, facts_of(Basis::kUsed, 100'000'000, 200'000'000));
  ASSERT_EQ(answer["code"], 200);
  ASSERT_EQ(answer["data"].size(), 1u);
  const auto& train = answer["data"][0]["nlp/train"];
  EXPECT_DOUBLE_EQ(train["gpuHours"], 6) << "a fifth of the device for 30 h";
  EXPECT_DOUBLE_EQ(train["gpuCount"], 0.2);
  EXPECT_DOUBLE_EQ(train["totalCost"], 48) << "at the tenant's price";
  EXPECT_EQ(train["properties"]["namespace"], "nlp");
  EXPECT_EQ(train["properties"]["labels"]["exp"], "42");
  double hours = 0;
  for (const auto& entry : answer["data"][0]) hours += entry["gpuHours"].get<double>();
  EXPECT_DOUBLE_EQ(hours, 30);
  EXPECT_TRUE(answer["data"][0].contains("__idle__"));
}

}  // namespace
}  // namespace ration::history
