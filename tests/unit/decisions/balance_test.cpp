#include "node/limits/balance.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace ration::node {
namespace {

using namespace ration::literals;

BalanceAccount account(const std::string& id, Bytes limit, Bytes guarantee, Bytes used) {
  BalanceAccount result;
  result.id = id;
  result.tenant = id;
  result.limit = limit;
  result.guarantee = guarantee;
  result.used = used;
  return result;
}

std::map<std::string, Balanced> by_name(const BalanceInput& input) {
  std::map<std::string, Balanced> all;
  for (const Balanced& entry : balance(input)) all[entry.id] = entry;
  return all;
}

TEST(Balance, WithoutGuaranteesEverybodyHasWhatWasConfigured) {
  const auto all =
      by_name({40_GiB, {account("a", 30_GiB, 0_GiB, 20_GiB), account("b", kUnlimited, 0_GiB, 20_GiB)}, {}});
  EXPECT_EQ(all.at("a").in_force, 30_GiB);
  EXPECT_EQ(all.at("b").in_force, kUnlimited);
  EXPECT_EQ(to_text(all.at("b")), "as configured");
}

TEST(Balance, WhereEverythingFitsNobodyIsBelowTheConfigured) {
  const auto all = by_name({40_GiB, {account("a", 16_GiB, 8_GiB, 0_GiB), account("b", 24_GiB, 0_GiB, 0_GiB)}, {}});
  EXPECT_EQ(all.at("a").in_force, 16_GiB);
  EXPECT_EQ(all.at("b").in_force, 24_GiB);
}

TEST(Balance, AnUnusedGuaranteeIsKeptFromAnUnlimitedNeighbour) {
  const auto all = by_name({40_GiB, {account("nlp", 8_GiB, 8_GiB, 1_GiB), account("b", kUnlimited, 0_GiB, 5_GiB)}, {}});
  EXPECT_EQ(all.at("nlp").in_force, 8_GiB);
  EXPECT_EQ(all.at("b").in_force, 32_GiB);
  EXPECT_EQ(all.at("b").reason, LimitReason::kGuarantees);
  EXPECT_EQ(to_text(all.at("b")), "the rest is kept for nlp");
  EXPECT_FALSE(all.at("b").shrinking);
}

TEST(Balance, AGuaranteeIsNamedByItsOwner) {
  BalanceInput input{40_GiB, {account("b", kUnlimited, 0_GiB, 5_GiB), account("nlp/train", 30_GiB, 0_GiB, 1_GiB)}, {}};
  input.accounts.back().tenant = "nlp";
  input.tenants = {{"nlp", kUnlimited, 12_GiB}};
  EXPECT_EQ(to_text(by_name(input).at("b")), "the rest is kept for nlp") << "its tenant's guarantee";
  input.accounts.back().guarantee = 12_GiB;
  EXPECT_EQ(to_text(by_name(input).at("b")), "the rest is kept for nlp/train") << "its own";
}

TEST(Balance, WhereOthersHoldMoreThanIsKeptTheHoldersAreNamed) {
  BalanceInput input{
      16_GiB,
      {account("b", 8_GiB, 0_GiB, 0_GiB), account("big", kUnlimited, 0_GiB, 9_GiB), account("g1", 5_GiB, 5_GiB, 4_GiB)},
      {}};
  EXPECT_EQ(to_text(by_name(input).at("b")),
            "others hold 13.0 GiB (the most: big, 9.00 GiB), and 1.00 GiB are kept for g1");
  input.accounts.back().used = 5_GiB;
  EXPECT_EQ(to_text(by_name(input).at("b")), "others hold 14.0 GiB (the most: big, 9.00 GiB)");
  input.outside = 10_GiB;
  EXPECT_EQ(to_text(by_name(input).at("b")), "others hold 24.0 GiB (the most: ungoverned processes, 10.0 GiB)");
}

TEST(Balance, TheGuaranteeOfATenantThatRunsNothingIsNamed) {
  BalanceInput input{40_GiB, {account("b", kUnlimited, 0_GiB, 5_GiB)}, {{"nlp", kUnlimited, 8_GiB}}};
  EXPECT_EQ(by_name(input).at("b").in_force, 32_GiB);
  EXPECT_EQ(to_text(by_name(input).at("b")), "the rest is kept for nlp");
  input.tenants.push_back({"b", kUnlimited, 2_GiB});
  input.accounts.push_back(account("serve", 4_GiB, 4_GiB, 0_GiB));
  EXPECT_EQ(to_text(by_name(input).at("b")), "the rest is kept for nlp") << "the largest unused guarantee";
  input.tenants[0].guarantee = 1_GiB;
  EXPECT_EQ(to_text(by_name(input).at("b")), "the rest is kept for serve");
}

TEST(Balance, RoomGoesToWhoWantsItByPriorityThenEvenly) {
  BalanceInput input{40_GiB,
                     {account("holder", 10_GiB, 10_GiB, 10_GiB), account("low", 40_GiB, 0_GiB, 5_GiB),
                      account("high", 40_GiB, 0_GiB, 5_GiB), account("heavy", 40_GiB, 0_GiB, 5_GiB)},
                     {}};
  input.accounts[1].demand = 12_GiB;
  input.accounts[2].demand = 12_GiB;
  input.accounts[2].priority = 10;
  auto all = by_name(input);
  EXPECT_EQ(all.at("high").in_force, 17_GiB);
  EXPECT_EQ(all.at("low").in_force, 8_GiB) << "what is left of 15";
  EXPECT_EQ(all.at("heavy").in_force, 5_GiB) << "does not ask";
  input.accounts[2].priority = 0;
  input.accounts[3].demand = 12_GiB;
  all = by_name(input);
  for (const char* each : {"high", "low", "heavy"}) EXPECT_EQ(all.at(each).in_force, 10_GiB);
}

TEST(Balance, BurstsGiveBackWhatAGuaranteeAsksForAndNotMore) {
  BalanceInput input{40_GiB,
                     {account("nlp", 16_GiB, 16_GiB, 4_GiB), account("big", 30_GiB, 4_GiB, 20_GiB),
                      account("small", 30_GiB, 4_GiB, 12_GiB)},
                     {}};
  auto all = by_name(input);
  EXPECT_EQ(all.at("big").in_force, 20_GiB) << "nobody asks yet: frozen, not cut";
  EXPECT_EQ(all.at("small").in_force, 12_GiB);
  input.accounts[0].demand = 6_GiB;
  all = by_name(input);
  EXPECT_EQ(all.at("nlp").in_force, 16_GiB);
  EXPECT_EQ(all.at("big").in_force, 18_GiB) << "4 free, 2 more are needed, the larger burst gives them";
  EXPECT_EQ(all.at("small").in_force, 12_GiB);
  EXPECT_TRUE(all.at("big").shrinking);
  EXPECT_EQ(to_text(all.at("big")), "it must give back memory that is guaranteed to nlp");
  input.accounts[2].idle = true;
  EXPECT_EQ(by_name(input).at("small").in_force, 10_GiB) << "the idle first";
  input.accounts[1].priority = -1;
  EXPECT_EQ(by_name(input).at("big").in_force, 18_GiB) << "the lowest priority before that";
  input.accounts[0].demand = 30_GiB;
  all = by_name(input);
  EXPECT_EQ(all.at("big").in_force, 12_GiB) << "8 for what is unused of the guarantee, however much is asked for";
}

TEST(Balance, WhatMakesRoomForSlicesSaysSo) {
  Balanced balanced;
  balanced.reason = LimitReason::kMustShrink;
  EXPECT_EQ(to_text(balanced), "it must give back memory that slices or keep_free need");
}

TEST(Balance, ATenantsWorkloadsTogetherStayWithinItsLimit) {
  BalanceInput input{
      40_GiB, {account("a", 20_GiB, 0_GiB, 2_GiB), account("b", 20_GiB, 0_GiB, 2_GiB)}, {{"t", 24_GiB, 0_GiB}}};
  for (auto& entry : input.accounts) entry.tenant = "t";
  auto all = by_name(input);
  EXPECT_EQ(all.at("a").in_force, 12_GiB);
  EXPECT_EQ(all.at("b").in_force, 12_GiB);
  EXPECT_EQ(all.at("a").reason, LimitReason::kTenantLimit);
  input.accounts[0].demand = 15_GiB;
  EXPECT_EQ(by_name(input).at("a").in_force, 17_GiB + 2_GiB + 512_MiB) << "what it asks for, then half of the rest";
  input.tenants[0].limit = 3_GiB;
  all = by_name(input);
  EXPECT_EQ(all.at("a").in_force + all.at("b").in_force, 3_GiB);
  EXPECT_TRUE(all.at("a").shrinking);
}

TEST(Balance, ATenantsGuaranteeServesWhicheverWorkloadNeedsIt) {
  BalanceInput input{
      40_GiB,
      {account("a", 20_GiB, 0_GiB, 6_GiB), account("b", 3_GiB, 0_GiB, 0_GiB), account("x", kUnlimited, 0_GiB, 0_GiB)},
      {{"t", kUnlimited, 10_GiB}}};
  input.accounts[0].tenant = input.accounts[1].tenant = "t";
  auto all = by_name(input);
  EXPECT_EQ(all.at("a").guarantee + all.at("b").guarantee, 10_GiB);
  EXPECT_GE(all.at("a").guarantee, 6_GiB);
  input.accounts.erase(input.accounts.begin(), input.accounts.begin() + 2);
  EXPECT_EQ(by_name(input).at("x").in_force, 30_GiB) << "kept for the tenant's next workload";
}

TEST(Balance, LimitsThatHoldGoodAreLeftAlone) {
  BalanceInput input{
      32_GiB,
      {account("g", 8_GiB, 8_GiB, 0_GiB), account("a", 32_GiB, 0_GiB, 4_GiB), account("b", 32_GiB, 0_GiB, 4_GiB)},
      {}};
  const auto apply = [&] {
    for (const Balanced& entry : balance(input)) {
      for (auto& each : input.accounts) {
        if (each.id == entry.id) each.in_force = entry.in_force;
      }
    }
  };
  apply();
  EXPECT_EQ(input.accounts[1].in_force, 12_GiB);
  input.accounts[1].used = 3_GiB;
  apply();
  EXPECT_EQ(input.accounts[1].in_force, 12_GiB) << "half a GiB more for b is not worth it";
  input.accounts[2].demand = 9_GiB;
  apply();
  EXPECT_EQ(input.accounts[2].in_force, 4_GiB + 9_GiB + 4_GiB);
  input.accounts[2].demand = 0_GiB;
  apply();
  EXPECT_EQ(input.accounts[2].in_force, 17_GiB) << "no way back without need";
  input.accounts[0].limit = 9_GiB;
  apply();
  EXPECT_EQ(input.accounts[0].in_force, 8_GiB) << "nothing is left to hand out";
  input.accounts[2].limit = 16_GiB;
  apply();
  EXPECT_EQ(input.accounts[0].in_force, 9_GiB);
}

/// Programs on one device: they take up to their limit while the device has it, and free what they like.
struct World {
  std::mt19937_64 random;
  BalanceInput input;
  bool cooperate = true;

  Bytes size(std::uint64_t largest) { return kGranule * (random() % (largest + 1)); }

  [[nodiscard]] Bytes used() const {
    Bytes sum;
    for (const auto& each : input.accounts) sum += each.used;
    return sum;
  }

  /// What is spoken for: guarantees, or what is held above them; a tenant's guarantee where that is more.
  [[nodiscard]] Bytes spoken_for() const {
    std::map<std::string, Bytes> tenants;
    for (const auto& each : input.accounts) tenants[each.tenant] += std::max(each.guarantee, each.used);
    for (const auto& tenant : input.tenants) tenants[tenant.name] = std::max(tenants[tenant.name], tenant.guarantee);
    Bytes sum;
    for (const auto& [name, bytes] : tenants) sum += bytes;
    return sum;
  }

  void act() {
    auto& each = input.accounts[random() % input.accounts.size()];
    if (random() % 3 == 0) {
      each.used -= std::min(each.used, size(2000));
      return;
    }
    const Bytes more = size(random() % 4 == 0 ? 6000 : 500);
    if (each.used + more > *each.in_force || used() + more > input.capacity)
      each.demand = std::max(each.demand, more);
    else
      each.used += more;
  }

  std::vector<Balanced> tick() {
    const auto result = balance(input);
    for (std::size_t i = 0; i < result.size(); ++i) {
      input.accounts[i].in_force = result[i].in_force;
      input.accounts[i].demand = Bytes{0};
      if (cooperate && result[i].shrinking) {  // pools trim
        const Bytes over = input.accounts[i].used - result[i].in_force;
        input.accounts[i].used -= std::min(over, size(500));
      }
    }
    return result;
  }

  void check(const std::vector<Balanced>& result, bool promised) const {
    Bytes sum;
    bool guarantees = false;
    std::map<std::string, Bytes> tenants;
    for (std::size_t i = 0; i < result.size(); ++i) {
      const auto& each = input.accounts[i];
      ASSERT_GE(result[i].in_force, each.guarantee);
      ASSERT_LE(result[i].in_force, each.limit);
      ASSERT_EQ(result[i].in_force.count() % kGranule.count(), 0U);
      ASSERT_EQ(result[i].reason == LimitReason::kConfigured, result[i].in_force == each.limit);
      sum += std::max(result[i].in_force, each.used);
      tenants[each.tenant] += result[i].in_force;
      guarantees = guarantees || each.guarantee > Bytes{0};
    }
    for (const auto& tenant : input.tenants) {
      ASSERT_TRUE(tenant.limit >= kUnlimited || tenants[tenant.name] <= tenant.limit);
      guarantees = guarantees || tenant.guarantee > Bytes{0};
    }
    ASSERT_TRUE(!guarantees || !promised || sum <= input.capacity);
  }
};

World world(unsigned seed, bool guarantees) {
  World result{std::mt19937_64(seed), {kGranule * 20'000, {}, {}}};
  Bytes left = result.input.capacity;
  result.input.tenants = {{"t0", kGranule * (4'000 + result.random() % 16'000), {}}, {"t1", kUnlimited, {}}};
  Bytes room = result.input.tenants[0].limit;
  const auto promise = [&](Bytes most) {
    const Bytes bytes = guarantees && result.random() % 2 == 0 ? std::min({result.size(6'000), left, most}) : Bytes{0};
    left -= bytes;
    return bytes;
  };
  for (int i = 0; i < 2 + static_cast<int>(result.random() % 6); ++i) {
    auto each = account("w" + std::to_string(i), kGranule * (6'000 + result.random() % 16'000), {}, {});
    if (result.random() % 5 == 0) each.limit = kUnlimited;
    each.tenant = "t" + std::to_string(result.random() % 3);
    each.guarantee = promise(each.tenant == "t0" ? room : kUnlimited);
    if (each.tenant == "t0") room -= each.guarantee;
    each.priority = static_cast<int>(result.random() % 3);
    result.input.accounts.push_back(each);
  }
  if (guarantees) {
    Bytes own;
    for (const auto& each : result.input.accounts) own += each.tenant == "t1" ? each.guarantee : Bytes{0};
    result.input.tenants[1].guarantee = own + promise(kUnlimited);
  }
  return result;
}

TEST(BalanceRandom, AGuaranteedByteIsThereAtEveryMoment) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    World node = world(seed, true);
    for (int tick = 0; tick < 60; ++tick) {
      const auto result = node.tick();
      node.check(result, true);
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed << " tick " << tick;
      for (int step = 0; step < 20; ++step) {
        node.act();
        ASSERT_LE(node.spoken_for(), node.input.capacity) << "somebody holds what was guaranteed; seed " << seed;
      }
    }
  }
}

TEST(BalanceRandom, WithoutGuaranteesLimitsAreTheConfiguredWithinTheTenants) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    World node = world(seed, false);
    for (int tick = 0; tick < 40; ++tick) {
      const auto result = node.tick();
      node.check(result, true);
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed << " tick " << tick;
      for (std::size_t i = 0; i < result.size(); ++i) {
        const auto& each = node.input.accounts[i];
        ASSERT_TRUE(each.tenant == "t0" || result[i].in_force == each.limit) << "seed " << seed;
      }
      for (int step = 0; step < 20; ++step) node.act();
    }
  }
}

TEST(BalanceRandom, ANewGuaranteeIsFilledByWhatCooperatingProgramsGiveBack) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    World node = world(seed, false);
    for (int tick = 0; tick < 30; ++tick) {
      node.tick();
      for (int step = 0; step < 20; ++step) node.act();
    }
    auto fresh = account("fresh", kUnlimited, kGranule * 8'000, {});
    fresh.tenant = "fresh";
    fresh.in_force = fresh.guarantee;
    node.input.accounts.push_back(fresh);
    int ticks = 0;
    for (; node.input.accounts.back().used < fresh.guarantee; ++ticks) {
      ASSERT_LT(ticks, 500) << "seed " << seed;
      auto& holder = node.input.accounts.back();
      const Bytes free = node.input.capacity - node.used();
      const Bytes more = std::min(fresh.guarantee - holder.used, kGranule * 100);
      if (more <= free)
        holder.used += more;
      else
        holder.demand = more;
      const auto result = node.tick();
      node.check(result, node.spoken_for() <= node.input.capacity);
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
    }
  }
}

TEST(BalanceRandom, TheSameLookTwiceChangesNothing) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    World node = world(seed, seed % 4 != 0);
    node.cooperate = false;
    for (int tick = 0; tick < 20; ++tick) {
      const BalanceInput before = node.input;
      const auto first = node.tick();
      BalanceInput again = before;
      for (std::size_t i = 0; i < first.size(); ++i) again.accounts[i].in_force = first[i].in_force;
      const auto second = balance(again);
      for (std::size_t i = 0; i < first.size(); ++i) ASSERT_EQ(first[i].in_force, second[i].in_force) << seed;
      for (int step = 0; step < 20; ++step) node.act();
    }
  }
}

TEST(BalanceRandom, TheReachOfAnAccountIsItsLimitWhenItAloneAsksForEverything) {
  std::size_t above = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    World node = world(seed, seed % 4 != 0);
    for (int tick = 0; tick < 20; ++tick) {
      node.tick();
      for (int step = 0; step < 20; ++step) node.act();
      BalanceInput quiet = node.input;
      for (auto& each : quiet.accounts) each.demand = Bytes{0};
      const auto result = balance(quiet);
      for (std::size_t i = 0; i < result.size(); ++i) {
        BalanceInput asking = quiet;
        asking.accounts[i].demand = kUnlimited;
        ASSERT_EQ(result[i].reach.count() >> 21, balance(asking)[i].in_force.count() >> 21)
            << "seed " << seed << " tick " << tick << " of " << i;
        above += result[i].reach > result[i].in_force ? 1 : 0;
      }
    }
  }
  EXPECT_GT(above, 1000U) << "the worlds have accounts whose limit can be raised";
}

TEST(Balance, TheReachOfPartOfASharedLimitIsAllThatTheOthersLeaveOfIt) {
  BalanceInput input{40_GiB, {account("a", 5_GiB, 0_GiB, 2_GiB), account("b", 30_GiB, 30_GiB, 1_GiB)}, {}};
  input.accounts[0].limit_alone = 8_GiB;
  auto all = by_name(input);
  EXPECT_EQ(all.at("a").in_force, 5_GiB);
  EXPECT_EQ(all.at("a").reach, 8_GiB);
  input.accounts[0].limit_alone = 12_GiB;
  EXPECT_EQ(by_name(input).at("a").reach, 10_GiB) << "the guarantee leaves no more";
}

TEST(BalanceRandom, OfMoreCapacityNobodyGetsLess) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    World node = world(seed, true);
    node.tick();
    for (int step = 0; step < 200; ++step) node.act();
    for (auto& each : node.input.accounts) each.in_force.reset();
    auto smaller = balance(node.input);
    for (int step = 0; step < 50; ++step) {
      node.input.capacity += kGranule * (1 + node.random() % 50);
      const auto larger = balance(node.input);
      for (std::size_t i = 0; i < larger.size(); ++i) ASSERT_GE(larger[i].in_force, smaller[i].in_force) << seed;
      smaller = larger;
    }
  }
}

}  // namespace
}  // namespace ration::node
