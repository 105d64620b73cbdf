// Sizes and durations: what is written can be read again, and no text at all is read as something that it does not say.
#include "base/units.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/command.hpp"
#include "base/size_step.hpp"

namespace ration {
namespace {

using namespace literals;

Bytes read(std::string_view text) { return parse_size(text, 16_GiB, 10_GiB).value_or(kUnlimited + 1_B); }
std::string refused(std::string_view text) {
  const auto size = parse_size(text, 16_GiB, 10_GiB);
  return size ? "read as " + std::to_string(size->count()) : size.error().id;
}

/// Sizes of all magnitudes, round ones among them.
Bytes random_size(std::mt19937_64& random) {
  const std::uint64_t bits = random() >> (random() % 64);
  const auto zeros = random() % 3 == 0 ? 0 : random() % 40;
  return Bytes{(bits >> zeros << zeros) % kUnlimited.count()};
}

TEST(Units, EveryWayOfWritingASizeIsRead) {
  for (const char* text : {"4GiB", "4G", "4g", "4gib", "4096MiB", "4096M", "4194304k", "25%", "max-12GiB", "40%free"})
    EXPECT_EQ(read(text), 4_GiB) << text;
  EXPECT_EQ(read("8GB"), Bytes{8'000'000'000});
  EXPECT_EQ(read("0.5T"), 512_GiB);
  EXPECT_EQ(read("1kb"), Bytes{1000});
  EXPECT_EQ(read("12bytes"), 12_B);
  EXPECT_EQ(read("max"), 16_GiB);
  EXPECT_EQ(read("unlimited"), kUnlimited);
}

TEST(Units, ANumberWithoutAUnitIsNotASizeWhateverItMayMean) {
  for (const char* text : {"4", "0", "4096", "8.5", "1.01"}) EXPECT_EQ(refused(text), "E1101") << text;
  for (const char* text : {"0.5", ".25", "1.0"}) EXPECT_EQ(refused(text), "E1103") << text;
}

TEST(Units, WhatIsNotASizeIsRefused) {
  for (const char* text : {"", "GiB", "-4GiB", "4GiBs", "4 GiB", " 4GiB", "4GiB ", "4,5GiB", "1e3GiB", "0x10MiB",
                           "nanGiB", "infGiB", "max-", "+1GiB"})
    EXPECT_EQ(refused(text), "E1102") << text;
}

TEST(Units, ASizeThatIsOnlyTooLargeIsNotSaidToBeNone) {
  for (const char* text :
       {"max-17GiB", "max-unlimited", "4294967296TiB", "101%", "120%free", "99999999999999999999999999GiB"})
    EXPECT_EQ(refused(text), "E1104") << text;
  for (const char* text : {"max-16GiB", "max-max"}) EXPECT_EQ(refused(text), "E1105") << text;
  EXPECT_EQ(parse_size("max-99GiB", 16_GiB, 10_GiB).error().what, "99GiB is more than the GPU has (16.0 GiB).");
  EXPECT_EQ(parse_size("max-99GiB", 16_GiB, 10_GiB, "machine").error().what,
            "99GiB is more than the machine has (16.0 GiB).");
  EXPECT_EQ(parse_size("99999999TiB", 16_GiB, 10_GiB, "machine").error().what,
            "99999999TiB is more than any machine has.");
  EXPECT_EQ(parse_size("0.5", 16_GiB, 10_GiB, "machine").error().fix, "Write 50% (of the machine's memory) or 512MiB.");
}

TEST(Units, TheFixForANumberWithoutAUnitIsASizeAndKeepsWhatStandsBeforeIt) {
  const auto fix = [](std::string_view text) {
    return (is_step(text) ? parse_step : parse_size)(text, 16_GiB, 10_GiB, "GPU").error().fix;
  };
  EXPECT_EQ(fix("4096"), "Write 4096MiB (TensorFlow's unit), 4GiB, or 50%.");
  EXPECT_EQ(fix("5000000000"), "Write 5000000000B, 4GiB, or 50%.");
  EXPECT_EQ(fix("99999999999999999999999"), "Write a size, such as 4GiB, or 50%.");
  EXPECT_EQ(fix("-5"), "Write -5GiB, -5MiB (TensorFlow's unit), or -50%.");
  EXPECT_EQ(fix("+5"), "Write +5GiB, +5MiB (TensorFlow's unit), or +50%.");
  EXPECT_EQ(fix("max-5"), "Write max-5GiB, max-5MiB (TensorFlow's unit), or max-50%.");
  EXPECT_EQ(fix("-0.5"), "Write -50% (of the GPU's memory) or -512MiB.");
  EXPECT_EQ(parse_step("-5XiB", 16_GiB, 10_GiB).error().what, "'-5XiB' is not a size.");
}

TEST(Units, AnExactSizeIsReadAsThatSize) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 100'000; ++round) {
    const Bytes size = random_size(random);
    if (size.count() >> 53 != 0 && size.count() % (1U << 20) != 0) continue;  // more digits than a double has
    EXPECT_EQ(read(exact_size(size)), size) << exact_size(size);
  }
  EXPECT_EQ(read(exact_size(kUnlimited)), kUnlimited);
}

TEST(Units, AShownSizeIsWithinAHalfPercentOfTheSizeAndNeverLonger) {
  std::mt19937_64 random(2);
  for (const Units units : {Units::kIec, Units::kSi})
    for (int round = 0; round < 50'000; ++round) {
      const Bytes size{random_size(random).count() % (std::uint64_t{900} << 40)};
      std::string shown = format_size(size, units);
      EXPECT_LE(shown.size(), 8U) << shown;
      shown.erase(shown.find(' '), 1);
      const auto exact = static_cast<double>(size.count());
      EXPECT_NEAR(static_cast<double>(read(shown).count()), exact, exact * 0.006) << size.count() << " as " << shown;
      std::string limit = format_size_up(size, units);
      limit.erase(limit.find(' '), 1);
      EXPECT_GE(read(limit), size) << limit;
      EXPECT_LE(static_cast<double>(read(limit).count()), exact * 1.011 + 1) << size.count() << " as " << limit;
    }
  EXPECT_EQ(format_size(3_GiB + 624_MiB), "3.61 GiB");
  EXPECT_EQ(format_size(Bytes{3'880'000'000}, Units::kSi), "3.88 GB");
  EXPECT_EQ(format_size(Bytes{1234567}, Units::kBytes), "1234567");
  EXPECT_EQ(format_size(kUnlimited, Units::kBytes), "unlimited");
}

TEST(Units, AnyTextIsASizeOrAnError) {
  constexpr std::string_view kLetters = "0123456789.-+%kKmMgGtTiIbBeEfr maxunl\xc2\xb7";
  std::mt19937_64 random(3);
  for (int round = 0; round < 200'000; ++round) {
    std::string text;
    for (auto length = random() % 12; length > 0; --length) text += kLetters[random() % kLetters.size()];
    if (const auto size = parse_size(text, 16_GiB, 10_GiB)) {
      EXPECT_LE(*size, kUnlimited) << text;
    } else {
      EXPECT_EQ(size.error().id.substr(0, 4), "E110") << text;
      EXPECT_FALSE(size.error().fix.empty()) << text;
    }
    if (const auto span = parse_duration(text)) {
      EXPECT_LT(*span, 1'000'000'000'000'000'000U) << text;
    }
  }
}

TEST(Units, DurationsAreReadAndTheTwoLargestPartsAreShown) {
  EXPECT_EQ(parse_duration("500ms").value_or(0), 500'000'000U);
  EXPECT_EQ(parse_duration("1.5m").value_or(0), 90'000'000'000U);
  EXPECT_EQ(parse_duration("2h").value_or(0), 7'200'000'000'000U);
  for (const char* text : {"", "5", "s", "-1s", "5 s", "5S", "5d", "1e3s", "999999999h", "nans"}) {
    const auto span = parse_duration(text);
    ASSERT_FALSE(span) << text;
    EXPECT_EQ(span.error().id, "E1106");
  }
  constexpr std::uint64_t kSecondNs = 1'000'000'000;
  EXPECT_EQ(format_duration(8 * kSecondNs + 999'999'999), "8s");
  EXPECT_EQ(format_duration(761 * kSecondNs), "12m 41s");
  EXPECT_EQ(format_duration(3725 * kSecondNs), "1h 02m");
}

TEST(Units, OneIsNotMany) {
  EXPECT_EQ(counted(1, "GPU"), "1 GPU");
  EXPECT_EQ(counted(0, "GPU"), "0 GPUs");
  EXPECT_EQ(counted(2, "GPU"), "2 GPUs");
}

}  // namespace
}  // namespace ration
