#include "node/queue/capacity.hpp"

#include <gtest/gtest.h>

namespace ration::node {
namespace {

using namespace ration::literals;

Capacity one_gpu() {
  Capacity capacity;
  capacity.set_device(0, 16_GiB, 2_GiB);
  return capacity;
}

TEST(Capacity, ALeaseTakesItsRoomUntilItIsGivenBack) {
  Capacity capacity = one_gpu();
  EXPECT_EQ(capacity.free_on(0), 14_GiB);
  capacity.take({0, 7}, "nlp", 10_GiB, 10_GiB);  // 7 is not here
  EXPECT_EQ(capacity.free_on(0), 4_GiB);
  EXPECT_TRUE(capacity.has_room({0}, 4_GiB, "nlp"));
  EXPECT_FALSE(capacity.has_room({0}, 5_GiB, "nlp"));
  EXPECT_EQ(capacity.missing_on(0, 5_GiB, "nlp"), static_cast<std::int64_t>((1_GiB).count()));
  capacity.release({0, 7}, "nlp", 10_GiB, 10_GiB);
  EXPECT_EQ(capacity.free_on(0), 14_GiB);
}

TEST(Capacity, WhatIsPromisedBeyondTheDeviceLeavesNothing) {
  Capacity capacity = one_gpu();
  capacity.take({0}, "nlp", 10_GiB, 10_GiB);
  capacity.set_device(0, 16_GiB, 8_GiB);
  EXPECT_EQ(capacity.free_on(0), 0_GiB);
  EXPECT_EQ(capacity.missing_on(0, 0_GiB, "nlp"), static_cast<std::int64_t>((2_GiB).count()));
}

TEST(Capacity, ADeviceThatIsNotThereHasNothing) {
  const Capacity capacity = one_gpu();
  EXPECT_EQ(capacity.gpus(), std::vector<int>{0});
  EXPECT_FALSE(capacity.whole(1));
  EXPECT_EQ(capacity.free_on(1), 0_GiB);
  EXPECT_FALSE(capacity.has_room({0, 1}, 1_GiB, "nlp"));
  EXPECT_FALSE(capacity.could_hold(1, 1_GiB, "nlp", false));
}

TEST(Capacity, ATenantsGuaranteeIsKeptFromOthersUntilItHasIt) {
  Capacity capacity = one_gpu();
  capacity.set_tenant("nlp", 0, kUnlimited, 8_GiB, 1_GiB);
  EXPECT_EQ(capacity.kept_for_others(0, "vision"), 7_GiB);
  EXPECT_EQ(capacity.kept_for_others(0, "nlp"), 0_GiB) << "it is its own";
  EXPECT_EQ(capacity.kept_for_others(1, "vision"), 0_GiB);
  EXPECT_EQ(capacity.others_kept_for(0, "vision"), std::vector<std::string>{"nlp"});
  EXPECT_FALSE(capacity.has_room({0}, 8_GiB, "vision"));
  EXPECT_TRUE(capacity.has_room({0}, 14_GiB, "nlp"));
  capacity.take({0}, "nlp", 7_GiB, 7_GiB);
  EXPECT_EQ(capacity.kept_for_others(0, "vision"), 0_GiB) << "it has all of it";
  EXPECT_TRUE(capacity.others_kept_for(0, "vision").empty());
  EXPECT_EQ(capacity.free_on(0), 7_GiB);
}

TEST(Capacity, WhatATenantMayHoldIsWhatItsLimitLeaves) {
  Capacity capacity = one_gpu();
  capacity.set_device(1, 16_GiB, 0_GiB);
  EXPECT_EQ(capacity.tenant_room("nlp", {0, 1}), kUnlimited);
  EXPECT_FALSE(capacity.tenant_limit("nlp", 0));
  capacity.set_tenant("nlp", 0, 6_GiB, 0_GiB, 1_GiB);
  EXPECT_EQ(capacity.tenant_limit("nlp", 0), 6_GiB);
  EXPECT_EQ(capacity.tenant_room("nlp", {0, 1}), 5_GiB) << "of the least";
  capacity.take({0, 1}, "nlp", 4_GiB, 2_GiB);
  EXPECT_EQ(capacity.tenant_room("nlp", {0, 1}), 3_GiB) << "what counts for it, not what is kept";
  EXPECT_EQ(capacity.tenant_room("vision", {0}), kUnlimited);
}

TEST(Capacity, WhatItCouldHoldIsAskedWithoutLeases) {
  Capacity capacity = one_gpu();
  capacity.set_tenant("nlp", 0, kUnlimited, 4_GiB, 0_GiB);
  capacity.take({0}, "vision", 10_GiB, 10_GiB);
  EXPECT_TRUE(capacity.could_hold(0, 16_GiB, "vision", false));
  EXPECT_TRUE(capacity.could_hold(0, 10_GiB, "vision", true));
  EXPECT_FALSE(capacity.could_hold(0, 11_GiB, "vision", true));
  EXPECT_TRUE(capacity.could_hold(0, 14_GiB, "nlp", true));
}

}  // namespace
}  // namespace ration::node
