// Instants as text and back.
#include "base/time.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <string>

namespace ration {
namespace {

TEST(Time, AnInstantComesBackAsItWasWritten) {
  EXPECT_EQ(rfc3339(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(rfc3339(1'768'392'238'214), "2026-01-14T12:03:58.214Z");
  EXPECT_EQ(rfc3339(-1), "1969-12-31T23:59:59.999Z");
  EXPECT_EQ(utc(1'768'392'238'214'999'999), "2026-01-14T12:03:58.214Z");
  for (std::int64_t time = 0; time < 4'000'000'000'000; time += 86'400'000'007)
    EXPECT_EQ(parse_time(rfc3339(time)), time);
}

TEST(Time, IsReadWithoutWhatItNeedNotHave) {
  EXPECT_EQ(parse_time("2026-01-14T12:03:58Z"), 1'768'392'238'000);
  EXPECT_EQ(parse_time("2026-01-14T12:03:58"), 1'768'392'238'000);
  EXPECT_EQ(parse_time("2026-01-14T12:03:58.2Z"), 1'768'392'238'200);
  EXPECT_EQ(parse_time("2026-01-14T12:03:58.214999999Z"), 1'768'392'238'214);
  EXPECT_EQ(parse_time("2026-01-14"), 1'768'348'800'000);
  EXPECT_EQ(parse_time("2024-02-29"), 1'709'164'800'000);
}

TEST(Time, LocalTimeIsThatOfTheTimeZone) {
  const char* before = std::getenv("TZ");
  const std::string old = before == nullptr ? "" : before;
  const auto in_zone = [](const char* zone, std::int64_t time) {
    ::setenv("TZ", zone, 1);
    ::tzset();
    return local_time(time);
  };
  EXPECT_EQ(in_zone("UTC0", 1'768'392'238'999), "2026-01-14 12:03:58");
  EXPECT_EQ(in_zone("CST-8", 1'768'392'238'214), "2026-01-14 20:03:58");
  EXPECT_EQ(in_zone("UTC0", -1), "1969-12-31 23:59:59");
  ::setenv("TZ", old.c_str(), 1);
  if (before == nullptr) ::unsetenv("TZ");
  ::tzset();
}

TEST(Time, WhatIsNoInstantIsNone) {
  for (const char* text :
       {"", "yesterday", "2026", "2026-13-01", "2026-02-30", "2025-02-29", "2026-01-14T", "2026-01-14T25:00:00Z",
        "2026-01-14T12:03:58+01:00", "2026-01-14Zulu", "2026-01-14T12:03:58.Zx"})
    EXPECT_EQ(parse_time(text), std::nullopt) << text;
  EXPECT_EQ(parse_time(std::string("2026-01-14\0x", 12)), std::nullopt);
}

}  // namespace
}  // namespace ration
