// What is promised adds up once, and what an error proposes instead would be promised.
#include "admission/promises.hpp"

#include <gtest/gtest.h>

#include <random>

#include "base/units.hpp"

namespace ration::admission {
namespace {

using namespace literals;

machine::Device device() {
  machine::Device made;
  made.total = 16_GiB;
  return made;
}

TEST(Promises, OfATenantAreItsOwnOrThoseOfItsWorkloadsWhereTheyAreMore) {
  Promises promises{2_GiB};
  promises.set_tenant("nlp", 6_GiB);
  promises.add_workload("nlp", 4_GiB, 1_GiB);
  EXPECT_EQ(promises.to("nlp"), 6_GiB);
  EXPECT_EQ(promises.total(), 8_GiB);
  EXPECT_EQ(promises.unspent(), 7_GiB) << "5 GiB of its own are not held";
  EXPECT_EQ(promises.kept_from("vision"), 7_GiB);
  EXPECT_EQ(promises.kept_from("nlp"), 5_GiB) << "3 GiB of its first workload's guarantee are not for a second one";
  promises.add_workload("nlp", 4_GiB, 8_GiB);
  EXPECT_EQ(promises.to("nlp"), 8_GiB);
  EXPECT_EQ(promises.total(), 10_GiB);
  EXPECT_EQ(promises.unspent(), 5_GiB) << "3 GiB of the first workload's; what the second holds beyond is nobody's";
  EXPECT_EQ(promises.to("vision"), 0_GiB);
}

TEST(Promises, ADeviceIsTakenByWhatIsHeldOrPromisedWhereThatIsMore) {
  Promises promises{2_GiB};
  promises.set_tenant("nlp", 6_GiB);
  promises.add_workload("nlp", 4_GiB, 1_GiB);
  promises.add_workload("nlp", 4_GiB, 8_GiB);
  promises.add_workload("vision", 0_GiB, 1_GiB);
  EXPECT_EQ(promises.taken_by("nlp"), 12_GiB) << "its own guarantee is in nobody's hands yet";
  EXPECT_EQ(promises.taken_by("cv"), 0_GiB);
  EXPECT_EQ(promises.taken(), 13_GiB);
}

TEST(Promises, WhatCannotBeKeptIsToldWithWhoHasItAndWhatWouldFit) {
  Promises promises{1_GiB};
  promises.add_workload("vision", 9_GiB);
  promises.add_workload("nlp", 2_GiB);
  EXPECT_TRUE(promises.can_add(device(), "nlp", 4_GiB));
  const auto refused = promises.can_add(device(), "nlp", 5_GiB);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().id, "E1304");
  EXPECT_EQ(refused.error().what,
            "5.00 GiB cannot be promised to nlp: GPU 0 has 16.0 GiB; promised already: 2.00 GiB to other "
            "workloads of nlp, 9.00 GiB to vision, 1.00 GiB to slices and keep_free.");
  EXPECT_EQ(refused.error().fix, "--guarantee 4GiB, at most");
}

TEST(Promises, LessIsNotProposedWhereItWouldNotFitEither) {
  Promises promises{12_GiB};
  promises.set_tenant("nlp", 4_GiB);
  promises.add_workload("vision", 1_GiB);
  const auto refused = promises.can_add(device(), "nlp", 5_GiB);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().fix.find("lower another guarantee first"), std::string::npos) << refused.error().fix;
}

TEST(Promises, WhatIsProposedFitsAndNothingMoreDoes) {
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; ++round) {
    const auto gib = [&](unsigned most) { return 1_GiB * (random() % most); };
    Promises promises{gib(6)};
    for (unsigned many = random() % 4; many > 0; --many)
      promises.add_workload(random() % 2 ? "a" : "b", gib(5), gib(5));
    if (random() % 2 == 0) promises.set_tenant("a", gib(9));
    const bool for_tenant = random() % 2 == 0;
    const auto can = [&](Bytes bytes) {
      return for_tenant ? promises.can_set(device(), "a", bytes) : promises.can_add(device(), "a", bytes);
    };
    EXPECT_LE(promises.unspent(), promises.total());
    const auto refused = can(1_GiB + gib(16));
    if (refused || refused.error().fix.rfind("--guarantee ", 0) != 0) continue;
    const std::string fix = refused.error().fix.substr(12);
    const Bytes fits = parse_size(fix.substr(0, fix.find(',')), 16_GiB, 16_GiB).value_or(0_GiB);
    EXPECT_TRUE(can(fits)) << fix;
    EXPECT_FALSE(can(fits + kGranule)) << fix;
  }
}

}  // namespace
}  // namespace ration::admission
