#include "top/frame.hpp"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <random>

#include "drawn.hpp"
#include "node.hpp"
#include "top/controls.hpp"
#include "top/frame_parts.hpp"

namespace ration::top::testing {
namespace {

using Frame = Top;

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(Frame, ShowsDevicesTenantsWorkloadsAndWhatHappened) {
  View view = view_of(snapshot(usual_rows()));
  take_event(view, read_event({{"id", 1},
                               {"time", "2026-01-14T12:03:58.214Z"},
                               {"type", "denied"},
                               {"denial", "d-17-17"},
                               {"text", "vision/serve was denied 512 MiB"}}));
  const std::string text = draw(view, 80, 24, true).text(false);
  const auto lines = lines_of(text);
  EXPECT_TRUE(holds(lines[0], "ration top  node7  1 GPU · 3 tenants · 4 processes")) << lines[0];
  EXPECT_TRUE(holds(lines[0], "daemon"));
  EXPECT_TRUE(holds(lines[1], "GPU 0 NVIDIA A100-40  40.0G")) << lines[1];
  EXPECT_TRUE(lines[1].ends_with("used 32.0G  free 8.00G")) << lines[1];
  EXPECT_TRUE(holds(lines[2], "80%")) << lines[2];
  EXPECT_TRUE(holds(text, "nlp 12.0G"));
  EXPECT_TRUE(holds(text, "vision 10.0G"));
  EXPECT_TRUE(holds(text, "ungoverned 4.00G"));
  EXPECT_TRUE(holds(text, "nlp/train"));
  EXPECT_TRUE(holds(text, "4411"));
  EXPECT_TRUE(holds(text, "?/python"));
  EXPECT_TRUE(holds(text, "no guard"));
  EXPECT_TRUE(holds(text, "12:03:58 d-17-17 DENIED vision/serve was denied 512 MiB"));
  EXPECT_TRUE(holds(lines.back(), "[q quit]"));
}

TEST_F(Frame, ATenantHasItsOwnLimitAndNeverTheSumOfItsWorkloadsLimits) {
  auto data = snapshot({row("nlp", "train", 6, 16), row("nlp", "serve", 6, 16), row("vision", "serve", 10, 10)});
  const auto tenant = [](const char* name, const nlohmann::json& limit) {
    return nlohmann::json{{"tenant", name},
                          {"accounts", nlohmann::json::array({{{"gpu", 0}, {"limit_bytes", limit}}})}};
  };
  data["tenants"] = nlohmann::json::array({tenant("nlp", 12 * kGiB), tenant("vision", nullptr)});
  View view = view_of(data);
  const std::string legend = lines_of(draw(view, 80, 24, true).text(false))[3];
  EXPECT_TRUE(holds(legend, "nlp 12.0/12.0G FULL")) << legend;
  EXPECT_TRUE(holds(legend, "vision 10.0G  ")) << legend;
}

/// Sets the time zone while a test runs.
class TimeZone {
 public:
  explicit TimeZone(const char* name) {
    if (const char* old = std::getenv("TZ"); old != nullptr) old_ = old;
    set(name);
  }
  ~TimeZone() { set(old_ ? old_->c_str() : nullptr); }
  TimeZone(const TimeZone&) = delete;
  TimeZone& operator=(const TimeZone&) = delete;

 private:
  static void set(const char* name) {
    if (name != nullptr)
      ::setenv("TZ", name, 1);
    else
      ::unsetenv("TZ");
    ::tzset();
  }
  std::optional<std::string> old_;
};

TEST_F(Frame, TimesAreLocalAndTheNewestEventIsTheFirst) {
  const TimeZone china("CST-8");
  View view = view_of(snapshot(usual_rows()));
  int id = 0;
  for (const char* time : {"2026-01-14T17:03:58.214Z", "2026-01-14T12:03:58.214Z"})  // the daemon was told late
    take_event(view, read_event({{"id", ++id}, {"time", time}, {"type", "ended"}, {"text", "of it"}}));
  const std::string text = draw(view, 80, 24, true).text(false);
  EXPECT_TRUE(holds(lines_of(text)[0], "  09:46:40  daemon")) << text;
  ASSERT_TRUE(holds(text, "20:03:58 ended of it") && holds(text, "01:03:58 ended of it")) << text;
  EXPECT_LT(text.find("01:03:58"), text.find("20:03:58")) << text;
  (void)press(view, {Key::Kind::kLetter, U'e'});
  const auto page = lines_of(draw(view, 80, 24, true).text(false));
  EXPECT_EQ(page[1], "events, newest first");
  EXPECT_EQ(page[2], "01:03:58 ended of it");
  EXPECT_EQ(page[3], "20:03:58 ended of it");
}

TEST_F(Frame, LessImportantColumnsMakeRoomForNames) {
  const std::string name = "research-group/a-training";
  auto data = snapshot({row("research-group", "a-training", 12, 16), row("nlp", "x", 10, 10)});
  View view = view_of(data);
  EXPECT_TRUE(holds(draw(view, 80, 24, true).text(false), "research-group/a-traini… 4411"))
      << "24 columns are readable";
  data["workloads"][0]["guarantee_bytes"] = kGiB;
  data["workloads"][0]["host_used_bytes"] = kGiB;
  data["devices"].push_back(data["devices"][0]);
  data["devices"][1]["gpu"] = 1;
  View full = view_of(data);
  const std::string text = draw(full, 80, 24, true).text(false);
  EXPECT_TRUE(holds(text, name)) << text;
  for (const char* column : {"USED", "LIMIT", "PEAK", "DENY", "10 MIN", "STATE"})
    EXPECT_TRUE(holds(text, column)) << text;
  EXPECT_FALSE(holds(text, "USER")) << text;
  EXPECT_TRUE(holds(draw(full, 140, 24, true).text(false), "GUAR")) << "a guarantee has a column";
  View none = view_of(snapshot(usual_rows()));
  EXPECT_FALSE(holds(draw(none, 140, 24, true).text(false), "GUAR")) << "where none is promised, no column is";
}

TEST_F(Frame, AProcessOfAnotherUserOfWhichNothingIsKnownIsNotCalledUnguarded) {
  auto data = snapshot(usual_rows());
  for (auto& each : data["workloads"])
    if (each["governed"] == false) each["governed"] = nullptr;
  View view = view_of(data);
  const std::string text = draw(view, 80, 24, true).text(false);
  EXPECT_TRUE(holds(text, "unknown"));
  EXPECT_FALSE(holds(text, "no guard"));
}

TEST_F(Frame, AnAlteredBookIsSeen) {
  auto data = snapshot(nlohmann::json::array({row("nlp", "train", 1, 2)}));
  data["workloads"][0]["book_altered"] = "its devices were changed";
  View view = view_of(data);
  EXPECT_TRUE(holds(draw(view, 80, 24, true).text(false), "ALTERED"));
}

TEST_F(Frame, WithoutADaemonItSaysWhatIsMissing) {
  auto rows = nlohmann::json::array({row("nlp", "train", 12, 16), row("vision", "serve", 10, 10, 17)});
  for (int i = 0; i < 10; ++i) rows.push_back(row("nlp", "w" + std::to_string(i), 0, 1));
  View view = view_of(snapshot(rows));
  view.notes = {"3 more on simulated GPUs: ration top", "a daemon also shows events"};
  EXPECT_FALSE(holds(draw(view, 80, 24, true).text(false), "a daemon also shows"));
  view.has_daemon = false;
  const std::string text = draw(view, 80, 24, true).text(false);
  for (const char* part : {"was denied 17 times", "3 more on simulated GPUs", "a daemon also shows events", "████"})
    EXPECT_TRUE(holds(text, part)) << part << "\n" << text;
  const std::string low = draw(view, 80, 10, true).text(false);  // one line: the denial is more important
  EXPECT_TRUE(holds(low, "was denied 17 times") && !holds(low, "3 more")) << low;
}

TEST_F(Frame, ADeviceWhoseUseIsNotKnownIsNotCalledFree) {
  auto data = snapshot(nlohmann::json::array());
  data["devices"][0]["used_bytes"] = nullptr;
  data["devices"][0]["ungoverned_bytes"] = nullptr;
  View view = view_of(data);
  EXPECT_TRUE(holds(draw(view, 80, 24, true).text(false), "not known who holds memory"));
  data["devices"][0]["used_bytes"] = 0;
  View free = view_of(data);
  EXPECT_TRUE(holds(draw(free, 80, 24, true).text(false), "nothing holds memory"));
}

TEST_F(Frame, UnknownIsNeverZero) {
  auto data = snapshot(nlohmann::json::array({row("nlp", "train", 1, 2)}));
  data["devices"][0]["used_bytes"] = nullptr;
  data["devices"][0].erase("utilisation_percent");
  data["workloads"][0]["peak_bytes"] = nullptr;
  data["workloads"][0]["gpu"] = nullptr;
  View view = view_of(data);
  const std::string text = draw(view, 120, 24, true).text(false);
  EXPECT_TRUE(holds(text, "used n/a"));
  EXPECT_TRUE(holds(text, "util n/a"));
  EXPECT_TRUE(holds(text, " n/a    0")) << text;  // the peak, then the denials
}

TEST_F(Frame, PinnedHostMemoryHasAColumnWhereAWorkloadHasSomeAndRoomIsLeft) {
  auto data = snapshot(nlohmann::json::array({row("nlp", "train", 1, 2), row("nlp", "old", 1, 2)}));
  data["workloads"][0]["host_used_bytes"] = 0;
  View none = view_of(data);
  EXPECT_FALSE(holds(draw(none, 120, 24, true).text(false), "PINNED"));
  data["workloads"][0]["host_used_bytes"] = 3 * kGiB;
  View view = view_of(data);
  const std::string text = draw(view, 120, 24, true).text(false);
  EXPECT_TRUE(holds(text, "PEAK PINNED DENY")) << text;
  EXPECT_TRUE(holds(text, "1.00G  3.00G    0")) << text;
  EXPECT_TRUE(holds(text, "1.00G    n/a    0")) << text;  // its book counts none
  EXPECT_FALSE(holds(draw(view, 70, 24, true).text(false), "PINNED")) << "the first to make room";
}

TEST_F(Frame, ABarIsDividedAsTheMemoryIs) {
  auto rows = nlohmann::json::array({row("a", "one", 10, 20), row("b", "two", 5, 20)});
  rows[1]["guarantee_bytes"] = 15 * kGiB;
  auto data = snapshot(rows);
  data["devices"][0]["ungoverned_bytes"] = 5 * kGiB;
  data["devices"][0]["free_bytes"] = 20 * kGiB;
  data["devices"][0]["available_bytes"] = 10 * kGiB;
  View view = view_of(data);
  const std::string bar = lines_of(draw(view, 71, 24, true).text(false))[2];
  const auto count = [&](const std::string& glyph) {
    int found = 0;
    for (std::size_t at = bar.find(glyph); at != std::string::npos; at = bar.find(glyph, at + 1)) ++found;
    return found;
  };
  // 42 cells of 40 GiB.
  EXPECT_EQ(count("█"), 11) << bar;
  EXPECT_EQ(count("▓"), 5) << bar;
  EXPECT_EQ(count("░"), 5) << bar;
  EXPECT_EQ(count("╌"), 11) << bar;  // 10 GiB of it are kept
  EXPECT_EQ(count("┊"), 1) << bar;
  EXPECT_EQ(count("·"), 9) << bar;
}

TEST_F(Frame, WhoeverHoldsAnythingHasACellAndTheBarNeverGrows) {
  auto rows = nlohmann::json::array();
  for (int i = 0; i < 40; ++i) rows.push_back(row("t" + std::to_string(i), "w", 0.01, 1));
  View view = view_of(snapshot(rows));
  for (const int columns : {40, 80, 200}) expect_harmless(draw(view, columns, 24, true), true);
  EXPECT_TRUE(holds(draw(view, 200, 24, true).text(false), "34 others"));
}

TEST_F(Frame, AnySizeCanBeDrawn) {
  auto rows = usual_rows();
  for (int i = 0; i < 30; ++i) rows.push_back(row("tenant-with-a-name", "workload-" + std::to_string(i), i, 40, i));
  View view = view_of(snapshot(rows));
  for (int i = 0; i < 5; ++i)
    take_event(view, read_event({{"id", i + 1}, {"time", "x"}, {"type", "denied"}, {"text", std::string(300, 'e')}}));
  for (int columns = 0; columns <= 130; columns += columns < 45 ? 1 : 7)
    for (int height = 0; height <= 40; height += height < 14 ? 1 : 5)
      for (const bool utf8 : {true, false}) expect_harmless(draw(view, columns, height, utf8), utf8);
  view.detail = Detail::kFull;
  for (int height = 0; height < 14; ++height) expect_harmless(draw(view, 40, height, true), true);
  for (const Page::Kind kind : {Page::Kind::kHelp, Page::Kind::kEvents, Page::Kind::kText}) {
    view.page = {kind, "page", {"a line", std::string(500, 'x'), ""}, 0};
    for (int columns = 0; columns < 90; columns += 3)
      for (int height = 0; height < 12; ++height) expect_harmless(draw(view, columns, height, true), true);
  }
}

TEST_F(Frame, FortyByTenStillShowsWhoUsesWhat) {
  View view = view_of(snapshot(usual_rows()));
  const std::string text = draw(view, 40, 10, true).text(false);
  for (const char* part : {"nlp/train", "12.0G", "16.0G", "vision/serve", "80%", "GPU 0"})
    EXPECT_TRUE(holds(text, part)) << part << "\n" << text;
}

TEST_F(Frame, TextsOfTenantsCannotSteerTheTerminal) {
  const std::vector<std::string> bad{"\x1b[2J\x1b]0;owned\x07",
                                     "\r\n\b\x7f\t",
                                     "\xc2\x9b"
                                     "31m",
                                     "\xe2\x80\xae"
                                     "evil",
                                     "\xff\xfe\xc0\x80",
                                     "\xed\xa0\x80",
                                     std::string(1, '\0') + "x",
                                     "\xf4\x90\x80\x80\xf8\x88\x80",
                                     "\xe2\x80\x8b\xef\xbb\xbf",
                                     "\xf0\x9f\x98"};
  for (const std::string& text : bad) {
    auto rows = nlohmann::json::array({row(text, text, 1, 2, 3), ungoverned(text, 1)});
    for (const char* field : {"user", "command", "labels", "state", "held_back_by", "slice", "last_denial"})
      rows[0][field] = text;
    auto data = snapshot(rows);
    data["devices"][0]["name"] = text;
    data["queue"] =
        nlohmann::json::array({{{"lease", text}, {"tenant", text}, {"gpu", text}, {"reason", text}, {"bytes", 1}}});
    View view = view_of(data);
    view.host = text;
    view.filter_text = text;
    take_event(view,
               read_event({{"id", 1}, {"time", text + "2026-01-14T12:03:58.214Z"}, {"type", text}, {"text", text}}));
    for (const bool utf8 : {true, false}) {
      expect_harmless(draw(view, 100, 24, utf8), utf8);
      view.message = text;
      expect_harmless(draw(view, 100, 24, utf8), utf8);
      view.prompt = Prompt{Prompt::Kind::kFilter, text, text, {}};
      expect_harmless(draw(view, 100, 24, utf8), utf8);
      view.prompt.reset();
      view.page = {Page::Kind::kText, text, {text, text}, 0};
      expect_harmless(draw(view, 100, 24, utf8), utf8);
      view.page.reset();
    }
  }
}

TEST_F(Frame, RandomBytesInEveryTextStayHarmless) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    const auto noise = [&] {
      std::string text;
      for (auto size = random() % 30; size > 0; --size) text += static_cast<char>(random() % 256);
      return text;
    };
    auto rows = nlohmann::json::array({row(noise(), noise(), 1, 2, 3), ungoverned(noise(), 1)});
    View view = view_of(snapshot(rows));
    expect_harmless(draw(view, static_cast<int>(random() % 100), static_cast<int>(random() % 30), true), true);
  }
}

TEST_F(Frame, AnyJsonIsASnapshot) {
  const std::vector<nlohmann::json> values{nullptr,
                                           -1,
                                           1.5,
                                           "x",
                                           nlohmann::json::array(),
                                           nlohmann::json::object(),
                                           ~std::uint64_t{0},
                                           true,
                                           nlohmann::json::array({nullptr, 1, "x"})};
  const auto whole = snapshot(usual_rows());
  for (const auto& value : values) {
    View whole_view = view_of(value);
    expect_harmless(draw(whole_view, 80, 24, true), true);
    for (const char* part : {"devices", "workloads", "tenants", "queue", "warnings", "devices_na"}) {
      auto data = whole;
      data[part] = value;
      View view = view_of(data);
      expect_harmless(draw(view, 80, 24, true), true);
    }
    for (const char* part : {"devices", "workloads"}) {
      for (const auto& [field, was] : whole[part][0].items()) {
        auto data = whole;
        data[part][0][field] = value;
        View view = view_of(data);
        expect_harmless(draw(view, 80, 24, true), true);
      }
    }
  }
}

TEST_F(Frame, WideLettersTakeTwoColumnsAndAreNeverCutInHalf) {
  Grid grid(6, 1, true);
  EXPECT_EQ(grid.put(0, 0, "机器学习"), 6);
  EXPECT_EQ(grid.text(false), "机器…\n");
  Grid exact(8, 1, true);
  EXPECT_EQ(exact.put(0, 0, "机器学习"), 8);
  EXPECT_EQ(exact.text(false), "机器学习\n");
  exact.put(0, 1, "x");  // over the right half of the first
  EXPECT_EQ(exact.text(false), " x器学习\n");
  for (int width = 1; width < 9; ++width) {
    Grid narrow(width, 1, true);
    narrow.put(0, 0, "a机器b学习");
    expect_harmless(narrow, true);
  }
  EXPECT_EQ(width_of("机a"), 3);
}

TEST_F(Frame, WithoutUtf8EverythingIsAscii) {
  View view = view_of(snapshot(usual_rows()));
  const std::string text = draw(view, 80, 24, false).text(false);
  EXPECT_TRUE(holds(text, "####")) << text;
  EXPECT_TRUE(holds(text, "...."));
  EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char letter) { return (letter & 0x80) == 0; }));
}

TEST_F(Frame, ColoursAreOnlyWhereAskedFor) {
  View view = view_of(snapshot(usual_rows()));
  EXPECT_FALSE(holds(draw(view, 80, 24, true).text(false), "\033"));
  EXPECT_TRUE(holds(draw(view, 80, 24, true).text(true), "\033["));
}

TEST_F(Frame, WhatIsOutOfDateSaysSoAndIsGrey) {
  View view = view_of(snapshot(usual_rows()));
  view.now += 12;
  const Grid grid = draw(view, 100, 24, true);
  EXPECT_TRUE(holds(grid.text(false), "12 s old"));
  EXPECT_TRUE(grid.at(1, 0).style.dim);
  take_snapshot(view, read_snapshot(snapshot(usual_rows())), view.now);
  EXPECT_FALSE(holds(draw(view, 100, 24, true).text(false), " old"));
}

TEST_F(Frame, TheSelectedRowIsInSightWhereverItIs) {
  auto rows = nlohmann::json::array();
  for (int i = 0; i < 100; ++i) rows.push_back(row("t", "w" + std::to_string(100 + i), i, 200));
  View view = view_of(snapshot(rows));
  for (const int height : {10, 24}) {
    for (const auto kind :
         {Key::Kind::kEnd, Key::Kind::kPageUp, Key::Kind::kHome, Key::Kind::kPageDown, Key::Kind::kDown}) {
      (void)press(view, {kind, 0});
      const Grid grid = draw(view, 80, height, true);
      int reversed = 0;
      for (int line = 0; line < grid.rows(); ++line) reversed += grid.at(line, 20).style.reverse ? 1 : 0;
      EXPECT_EQ(reversed, 2) << height;  // the head of the table and the row
    }
  }
}

/// Returns a node of two GPUs, each with a workload of its tenant, that has run for five minutes.
View two_devices() {
  auto data = snapshot({row("nlp", "train", 20, 30), row("vision", "serve", 10, 10)});
  data["devices"].push_back(data["devices"][0]);
  data["devices"][1]["gpu"] = 1;
  data["devices"][1]["used_bytes"] = 10 * kGiB;
  data["workloads"][1]["gpu"] = 1;
  View view = view_of(data);
  for (int second = 10; second <= 300; second += 10) take_snapshot(view, read_snapshot(data), 1'000'000'000 + second);
  return view;
}

int count_of(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST_F(Frame, RowsThatAreLeftOverShowTheLastTenMinutesOfEachDevice) {
  View view = two_devices();
  EXPECT_FALSE(holds(draw(view, 100, 10, true).text(false), "LAST 10 MINUTES"));
  const Grid grid = draw(view, 100, 45, true);
  const auto lines = lines_of(grid.text(false));
  const auto title = std::ranges::find_if(lines, [](const auto& line) { return line.starts_with("LAST 10 MINUTES"); });
  ASSERT_NE(title, lines.end());
  // Two charts one below the other fill the screen between the table and the keys, which nothing else needs.
  EXPECT_TRUE(holds(lines[lines.size() - 2], "──────")) << grid.text(false);
  const std::string charts = grid.text(false).substr(grid.text(false).find("LAST 10 MINUTES"));
  EXPECT_EQ(count_of(charts, " 40.0G\n"), 2) << charts;
  for (const char* label : {"GPU 0", "GPU 1"}) EXPECT_TRUE(holds(charts, label)) << charts;
  // Five of ten minutes are known. Of 14 rows of 40 GiB each chart fills what was used: 7 by nlp and below it in part
  // 5 by what is outside of workloads; 3.5 by vision.
  const int cells = 93 / 2 + 1;
  EXPECT_NEAR(count_of(charts, "█"), 7 * cells, 2 * cells) << charts;
  EXPECT_NEAR(count_of(charts, "░"), 5 * cells, cells) << charts;
  EXPECT_NEAR(count_of(charts, "▓"), 3 * cells, cells) << charts;
}

TEST_F(Frame, ChartsStandSideBySideWhereThereIsRoom) {
  View view = two_devices();
  const auto lines = lines_of(draw(view, 160, 30, true).text(false));
  EXPECT_TRUE(std::ranges::any_of(
      lines, [](const auto& line) { return line.starts_with(" 40.0G ") && line.ends_with(" 40.0G"); }));
  view.detail = Detail::kCompact;
  EXPECT_FALSE(holds(draw(view, 160, 60, true).text(false), "LAST 10 MINUTES"));
  view.detail = Detail::kAuto;
  view.once = true;
  EXPECT_FALSE(holds(draw(view, 160, 60, true).text(false), "LAST 10 MINUTES")) << "a frame as text has no charts";
}

TEST_F(Frame, TenantsThatTakeTurnsAreNoFullDevice) {
  auto data = snapshot({row("nlp", "train", 30, 30), row("vision", "serve", 0, 30)});
  data["devices"][0]["used_bytes"] = 30 * kGiB;
  View view = view_of(data);
  for (int second = 10; second <= 300; ++second) {  // each holds 30 of 40 GiB in its half of every step
    const bool first = second % 10 < 5;
    data["workloads"][0]["used_bytes"] = first ? 30 * kGiB : 0;
    data["workloads"][1]["used_bytes"] = first ? 0 : 30 * kGiB;
    take_snapshot(view, read_snapshot(data), 1'000'000'000 + second);
  }
  const std::string text = draw(view, 100, 30, true).text(false);
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with(" 40.0G")) {
      EXPECT_EQ(line, " 40.0G") << text;
    }
  }
}

TEST_F(Frame, ADenialIsMarkedWhenAndWhereItWas) {
  View view = two_devices();
  const auto happened = [&](const char* type, const nlohmann::json& gpu, const char* time) {
    static int id = 0;
    take_event(view, read_event({{"id", ++id}, {"time", time}, {"type", type}, {"gpu", gpu}, {"text", "of it"}}));
  };
  happened("denied", 0, "2001-09-09T01:50:00Z");        // 100 of the 300 seconds since the start
  happened("queued", nullptr, "2001-09-09T01:48:20Z");  // for any GPU
  happened("denied", 1, "2001-09-09T01:20:00Z");        // more than ten minutes ago
  happened("denied", 1, "yesterday");
  const std::string text = draw(view, 100, 45, true).text(false);
  std::vector<std::string> strips;
  for (const std::string& line : lines_of(text))
    if (holds(line, "────")) strips.push_back(line);
  ASSERT_EQ(strips.size(), 2U) << text;
  EXPECT_EQ(count_of(strips[0], "!"), 1) << text;
  EXPECT_EQ(count_of(strips[1], "!"), 0) << text;
  for (const auto& strip : strips) EXPECT_EQ(count_of(strip, "w"), 1) << text;
  EXPECT_LT(strips[0].find('w'), strips[0].find('!'));
}

TEST_F(Frame, NoEventIsLostToTheCharts) {
  View view = view_of(snapshot(usual_rows()));
  for (int i = 0; i < 40; ++i)
    take_event(view,
               read_event({{"id", i + 1}, {"time", "x"}, {"type", "ended"}, {"text", "number " + std::to_string(i)}}));
  // One GPU has one chart, which is not higher than 17 rows: the rest of a high screen has events.
  EXPECT_GT(count_of(draw(view, 100, 60, true).text(false), "number "), 20);
}

TEST_F(Frame, TheSecondLineOfALongNoteStandsUnderTheNote) {
  EXPECT_EQ(wrapped("a label    12 GiB  a note of several words", 28),
            (std::vector<std::string>{"a label    12 GiB  a note of", "              several words"}));
  EXPECT_EQ(wrapped("plain words that go on", 11), (std::vector<std::string>{"plain words", "that go on"}));
  for (int width = 2; width < 40; ++width)
    for (const std::string& line : wrapped("x        " + std::string(60, 'y') + "  z z z", width))
      EXPECT_LE(width_of(line), width);
}

TEST_F(Frame, TheFullWordIsThereWithoutColour) {
  View view = view_of(snapshot(nlohmann::json::array({row("vision", "serve", 10, 10)})));
  view.read_only = true;
  EXPECT_TRUE(holds(draw(view, 100, 24, true).text(false), "r/o"));
  EXPECT_TRUE(holds(draw(view, 80, 24, true).text(false), "FULL"));
}

}  // namespace
}  // namespace ration::top::testing
