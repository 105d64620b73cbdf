// The forms of a report: names that mean harm do none, sums stay exact.
#include "node/history/export/writers.hpp"

#include "history_fixture.hpp"
#include "node/history/export/cells.hpp"

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
  EXPECT_EQ(grouped(-0.01), "0.0");
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
  EXPECT_NE(text.find("add up to capacity × time exactly"), std::string::npos);
}

TEST_F(WritersTest, ThePageAsksNobodyForAnythingAndRunsNothing) {
  const std::string page = to_html(report_of(reader()));
  for (const char* bad : {"<script", "http://", "https://", "src=", "<link", "@import", "url("})
    EXPECT_EQ(page.find(bad), std::string::npos) << bad;
  EXPECT_NE(page.find("&lt;script&gt;"), std::string::npos);
  EXPECT_NE(page.find("prefers-color-scheme:dark"), std::string::npos);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(page.find("sum = 40.0 GiB × 30 h"), std::string::npos);
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
