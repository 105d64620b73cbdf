#include "node/leases.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace ration::node {
namespace {

using namespace literals;

LeaseWish wish(Bytes bytes) {
  LeaseWish wanted;
  wanted.tenant = wanted.user = "nlp";
  wanted.bytes = bytes;
  wanted.waiter = *identity_of(::getpid());
  return wanted;
}

TEST(Leases, WaitsAreCountedFromAskingToTheGrant) {
  Snapshot now;
  now.devices.emplace_back();
  now.devices.front().device.total = now.devices.front().device.free = 16_GiB;
  Leases leases;
  leases.step(now, 1 * kSecond);
  const std::string first = *leases.submit(wish(10_GiB), 2 * kSecond);
  leases.step(now, 2 * kSecond);
  const std::string second = *leases.submit(wish(8_GiB), 5 * kSecond);
  leases.step(now, 6 * kSecond);
  EXPECT_EQ(leases.waits().count, 1U);
  EXPECT_EQ(leases.waits().seconds, 0);
  ASSERT_TRUE(leases.cancel(first, std::nullopt));
  leases.step(now, 35 * kSecond);
  EXPECT_EQ(leases.waits().count, 2U);
  EXPECT_EQ(leases.waits().seconds, 30);
  EXPECT_EQ(leases.waits().within[0], 1U);
  EXPECT_EQ(leases.waits().within[2], 2U);
}

TEST(Leases, AWaitThatWasGivenUpIsNotCounted) {
  Snapshot now;
  now.devices.emplace_back();
  now.devices.front().device.total = now.devices.front().device.free = 16_GiB;
  Leases leases;
  leases.step(now, 1 * kSecond);
  (void)*leases.submit(wish(10_GiB), 2 * kSecond);
  const std::string second = *leases.submit(wish(8_GiB), 2 * kSecond);
  leases.step(now, 3 * kSecond);
  ASSERT_TRUE(leases.cancel(second, std::nullopt));
  leases.step(now, 60 * kSecond);
  EXPECT_EQ(leases.waits().count, 1U);
}

}  // namespace
}  // namespace ration::node
