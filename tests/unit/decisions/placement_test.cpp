#include "node/queue/placement.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/gpu_models.hpp"

namespace ration::node {
namespace {

using namespace ration::literals;

std::vector<PlanDevice> devices(const std::string& text) { return parse_plan_devices(text).value(); }

std::vector<PlanTenant> tenants(const std::vector<std::string>& texts) {
  std::vector<PlanTenant> all;
  for (const auto& text : texts) all.push_back(parse_plan_tenant(text, {}).value());
  return all;
}

std::map<std::string, int> on(const Placement& placement, std::size_t device) {
  std::map<std::string, int> all;
  for (const auto& group : placement.devices[device].groups) all[group.tenant] += group.count;
  return all;
}

using Counts = std::map<std::string, int>;

TEST(Placement, PacksTightSoThatDevicesStayEmpty) {
  const auto placement = place(devices("A100-40:2"), tenants({"nlp=16GiB:30GiB", "vision=10GiB", "jup=4GiB*6"}), false);
  EXPECT_TRUE(placement.fits);
  EXPECT_EQ(placement.needed, 50_GiB);
  EXPECT_EQ(on(placement, 0), (Counts{{"nlp", 1}, {"vision", 1}, {"jup", 3}}));
  EXPECT_EQ(on(placement, 1), (Counts{{"jup", 3}}));
  ASSERT_EQ(placement.bursts.size(), 1U);
  EXPECT_EQ(placement.bursts[0].tenant, "nlp");
  EXPECT_EQ(placement.bursts[0].reachable, 16_GiB + placement.devices[0].spare);
}

TEST(Placement, SpreadLetsBurstsBeReached) {
  const auto placement = place(devices("A100-40:2"), tenants({"nlp=16GiB:30GiB", "vision=10GiB", "jup=4GiB*6"}), true);
  EXPECT_TRUE(placement.fits && placement.spread);
  EXPECT_EQ(on(placement, 0), (Counts{{"nlp", 1}}));
  EXPECT_EQ(on(placement, 1), (Counts{{"vision", 1}, {"jup", 6}}));
  EXPECT_TRUE(placement.bursts.empty());
}

TEST(Placement, SpreadGivesWayWhereOnlyATightPackingFits) {
  const auto placement = place(devices("T4:8GiB*2"), tenants({"a=2GiB:8GiB*2", "b=7GiB"}), true);
  EXPECT_TRUE(placement.fits);
  EXPECT_FALSE(placement.spread);
}

TEST(Placement, FindsWhatBestFitDoesNot) {
  // Best fit puts 6 with 6 (or 5 with 5 and 4 over); 6+4+4 and 5+5+4 fill both.
  const auto placement = place(devices("T4:14GiB*2"), tenants({"a=6GiB", "b=5GiB*2", "c=4GiB*3"}), false);
  EXPECT_TRUE(placement.fits);
  EXPECT_EQ(placement.devices[0].spare + placement.devices[1].spare, 0_GiB);
}

TEST(Placement, NamesTheSmallestChangeThatFits) {
  const auto gpus = devices("T4:16GiB*2");
  const auto all = tenants({"a=10GiB*2", "b=7GiB"});
  const auto placement = place(gpus, all, false);
  EXPECT_FALSE(placement.fits);
  ASSERT_EQ(placement.left_over.size(), 1U);
  EXPECT_EQ(placement.left_over[0].tenant, "b");
  ASSERT_TRUE(placement.change);
  EXPECT_EQ(placement.change->tenant, "b");
  EXPECT_EQ(placement.change->guarantee, 6_GiB);
  EXPECT_EQ(placement.change->less, 1_GiB);
  EXPECT_EQ(placement.more_devices, 1);
}

TEST(Placement, ATenantLargerThanAnyDeviceNeedsNoMoreOfThem) {
  const auto placement = place(devices("T4:16GiB"), tenants({"a=20GiB"}), false);
  EXPECT_FALSE(placement.fits);
  EXPECT_EQ(placement.more_devices, 0);
  EXPECT_EQ(placement.change->guarantee, 16_GiB);
}

TEST(Placement, TextsAreReadAndWritten) {
  EXPECT_EQ(devices("A100-40:2,T4:15GiB*3,H100").size(), 6U);
  EXPECT_EQ(devices("A100-40:2,T4:15GiB*3,H100")[4].usable, 15_GiB);
  EXPECT_EQ(devices("A100-40*2").size(), 2U);
  for (const char* bad :
       {"", "A100", "A100-40:0", "A100-40:", "T4*x", "T4:15GiB*0", "T4,,T4", "T4:2*2", "T4:unlimited"})
    EXPECT_FALSE(parse_plan_devices(bad)) << bad;
  EXPECT_EQ(parse_plan_devices("Q9").error().id, "E1308");
  for (const char* text : {"nlp=16GiB:30GiB", "jup=4GiB*6", "a=1.5GiB:unlimited*2"})
    EXPECT_EQ(plan_tenant_text(parse_plan_tenant(text, {}).value()), text);
  for (const char* bad :
       {"nlp", "=4GiB", "a=4", "a=", "a=4GiB*0", "a=4GiB*1001", "a=4GiB*", "a=4GiB:2GiB", "a=unlimited", "a=4GiB:"})
    EXPECT_FALSE(parse_plan_tenant(bad, {})) << bad;
  EXPECT_EQ(parse_plan_tenant("a=50%", devices("T4:16GiB*2"))->guarantee, 8_GiB);
  EXPECT_EQ(parse_plan_tenant("a=50%", devices("T4,A30")).error().id, "E1307");
  for (const GpuModel& model : gpu_models()) EXPECT_EQ(devices(model.key)[0].usable, model.total);
}

/// Whether any way at all fits, by trying all of them.
bool possible(std::vector<Bytes> room, const std::vector<Bytes>& items, std::size_t from) {
  if (from == items.size()) return true;
  for (Bytes& each : room) {
    if (each < items[from]) continue;
    each -= items[from];
    if (possible(room, items, from + 1)) return true;
    each += items[from];
  }
  return false;
}

TEST(PlacementRandom, NeverTooMuchOnADeviceAndNoIsCertain) {
  std::mt19937_64 random(1);
  int fitting = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<PlanDevice> gpus;
    std::vector<Bytes> room, items;
    for (int i = 0; i < 1 + static_cast<int>(random() % 3); ++i) {
      gpus.push_back({i, "X", 1_GiB * (8 + random() % 9)});
      room.push_back(gpus.back().usable);
    }
    std::vector<PlanTenant> all;
    for (int i = 0; i < 1 + static_cast<int>(random() % 5); ++i) {
      const Bytes guarantee = 1_GiB * (1 + random() % 9);
      all.push_back(
          {"t" + std::to_string(i), guarantee, guarantee + 1_GiB * (random() % 4), 1 + static_cast<int>(random() % 2)});
      items.insert(items.end(), static_cast<std::size_t>(all.back().count), guarantee);
    }
    const bool expected = possible(room, items, 0);
    fitting += expected ? 1 : 0;
    for (const bool spread : {false, true}) {
      const auto placement = place(gpus, all, spread);
      ASSERT_EQ(placement.fits, expected) << "round " << round;
      Counts counts;
      for (const auto& placed : placement.devices) {
        Bytes sum;
        for (const auto& group : placed.groups) {
          sum += group.guarantee * static_cast<std::uint64_t>(group.count);
          counts[group.tenant] += group.count;
        }
        ASSERT_EQ(sum, placed.guaranteed);
        ASSERT_EQ(sum + placed.spare, placed.device.usable);
      }
      for (const auto& group : placement.left_over) counts[group.tenant] += group.count;
      for (const auto& tenant : all) ASSERT_EQ(counts[tenant.name], tenant.count);
      if (!placement.change) continue;
      auto changed = all;
      for (auto& tenant : changed) {
        if (tenant.name == placement.change->tenant)
          tenant.guarantee = placement.change->guarantee, tenant.count = placement.change->count;
      }
      ASSERT_TRUE(place(gpus, changed, false).fits);
    }
  }
  EXPECT_GT(fitting, 80);
  EXPECT_LT(fitting, 320);
}

}  // namespace
}  // namespace ration::node
