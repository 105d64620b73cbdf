// A suggested limit admits what was denied, and is one that would be granted.
#include "admission/advised_limit.hpp"

#include <gtest/gtest.h>

using namespace ration;
using namespace ration::literals;
using admission::advised_limit;
using admission::limit_fix;

TEST(AdvisedLimit, HasHeadroomAndIsRound) {
  EXPECT_EQ(advised_limit(2_GiB, 16_GiB), 2_GiB + 256_MiB);
  EXPECT_EQ(advised_limit(7_GiB, 16_GiB), 8_GiB);
  EXPECT_EQ(advised_limit(20_GiB, 40_GiB), 23_GiB);
}

TEST(AdvisedLimit, GivesUpHeadroomThenRoundnessBeforeWhatWasDenied) {
  EXPECT_EQ(advised_limit(7_GiB, 7_GiB + 600_MiB), 7_GiB + 512_MiB);
  EXPECT_EQ(advised_limit(7_GiB + 2_MiB, 7_GiB + 5_MiB), 7_GiB + 4_MiB);
  EXPECT_EQ(advised_limit(7_GiB, 7_GiB - 2_MiB), std::nullopt);
}

TEST(AdvisedLimit, IsNeverMoreThanWouldBeGrantedNorLessThanNeeded) {
  for (std::uint64_t needed = 1; needed < 40'000; needed += 377)
    for (std::uint64_t grantable = 0; grantable < 45'000; grantable += 401) {
      const auto limit = advised_limit(1_MiB * needed, 1_MiB * grantable);
      if (!limit) {
        EXPECT_GT(1_MiB * needed, round_down(1_MiB * grantable, kGranule));
        continue;
      }
      EXPECT_GE(*limit, 1_MiB * needed);
      EXPECT_LE(*limit, 1_MiB * grantable);
    }
}

TEST(LimitFix, NamesTheDeviceOnlyWhereTheWorkloadHasSeveral) {
  EXPECT_EQ(limit_fix("nlp", 7_GiB, {16_GiB, {}, 1, false}).text, "ration set nlp --limit 8GiB");
  EXPECT_EQ(limit_fix("nlp", 7_GiB, {16_GiB, {}, 1, true}).text, "ration set nlp --gpu 1 --limit 8GiB");
}

TEST(LimitFix, WhereItsTenantsLimitStandsInTheWayThatIsRaised) {
  admission::LimitRoom room{6_GiB, {}, 0, false, {"vision", 10_GiB}};
  const std::string fix = limit_fix("serve", 7_GiB, room).text;
  EXPECT_EQ(fix.rfind("ration set vision --limit 11GiB ", 0), 0U) << fix;
  EXPECT_NE(fix.find("tenant vision has a limit of 10.0 GiB"), std::string::npos) << fix;
}

TEST(LimitFix, WhereAPolicySetsTheLimitItIsNamedAndNobodyElse) {
  admission::LimitRoom room{6_GiB, {"nlp", 8_GiB, 2_GiB}, 0, false, {}, "the policy at ration.toml:3:9 sets 6.00 GiB"};
  const std::string fix = limit_fix("serve", 7_GiB, room).text;
  EXPECT_EQ(fix.rfind("ration config reload ", 0), 0U) << fix;
  EXPECT_NE(fix.find("the policy at ration.toml:3:9 sets 6.00 GiB"), std::string::npos) << fix;
  EXPECT_EQ(fix.find("nlp"), std::string::npos) << fix;
}

TEST(LimitFix, WhereNoLimitWouldDoThePromiseIsNamed) {
  const std::string fix = limit_fix("serve", 7_GiB, {6_GiB, {"nlp", 8_GiB, 2_GiB}, 0, false}).text;
  EXPECT_EQ(fix.rfind("ration set nlp --guarantee 7GiB ", 0), 0U) << fix;
  EXPECT_NE(fix.find("nlp is promised 8.00 GiB and uses 2.00 GiB"), std::string::npos) << fix;
  const std::string in_use = limit_fix("serve", 7_GiB, {6_GiB, {"nlp", 8_GiB, 8_GiB}, 0, false}).text;
  EXPECT_EQ(in_use.rfind("ration explain --gpu 0 ", 0), 0U) << in_use;
  EXPECT_EQ(limit_fix("serve", 7_GiB, {6_GiB, {}, 0, false}).text.rfind("ration explain --gpu 0 ", 0), 0U);
}
