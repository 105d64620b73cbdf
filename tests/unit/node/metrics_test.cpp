#include "node/api/metrics.hpp"

#include <gtest/gtest.h>

#include "node/state/forecast.hpp"

namespace ration::node {
namespace {

using namespace literals;

Snapshot growing(std::uint64_t second) {
  Snapshot now;
  now.time_ns = second * 1'000'000'000;
  AccountView account;
  account.tenant = "nlp";
  account.gpu = 1;
  account.limit = 4_GiB;
  account.used = 1_GiB + Bytes{second << 20};
  now.accounts = {account};
  account.tenant = "still";
  account.used = 1_GiB;
  now.accounts.push_back(account);
  return now;
}

TEST(Metrics, ATenantThatGrowsHasATimeToItsLimitAndOneThatDoesNotHasNone) {
  Forecast forecast;
  Snapshot now;
  for (std::uint64_t second = 0; second <= 120; second += 5) {
    now = growing(second);
    forecast_limits(forecast, now);
  }
  EXPECT_EQ(now.seconds_to_limit.size(), 1U);
  EXPECT_EQ(now.seconds_to_limit.at({"nlp", 1}), 3 * 1024U - 120);  // a MiB a second
  const std::string text = metrics_text(now, {}, {});
  EXPECT_NE(text.find("ration_time_to_limit_seconds{tenant=\"nlp\",gpu=\"1\"} 2952\n"), std::string::npos) << text;
}

TEST(Metrics, WaitsAreCountedInEveryBucketThatHoldsThem) {
  Counters counted;
  counted.denied_after.note(0.5);
  counted.denied_after.note(59);
  MetricsOptions options;
  options.queue_waits.note(10'000);
  const std::string text = metrics_text({}, counted, options);
  for (const char* line :
       {"_bucket{kind=\"denied\",le=\"1\"} 1\n", "_bucket{kind=\"denied\",le=\"60\"} 2\n",
        "_bucket{kind=\"denied\",le=\"+Inf\"} 2\n", "_sum{kind=\"denied\"} 59.5\n", "_count{kind=\"denied\"} 2\n",
        "_bucket{kind=\"queue\",le=\"7200\"} 0\n", "_bucket{kind=\"queue\",le=\"+Inf\"} 1\n"})
    EXPECT_NE(text.find(std::string("ration_wait_seconds") + line), std::string::npos) << line << text;
}

TEST(Metrics, FunctionsThatNoTableListsAreCountedOnceAWorkloadOnHoweverManyDevices) {
  Snapshot now;
  AccountView account;
  account.tenant = "nlp";
  for (const char* path : {"one", "one", "other"}) {
    account.path = path;
    account.unlisted_count = 3;
    now.accounts.push_back(account);
  }
  const std::string text = metrics_text(now, {}, {});
  EXPECT_NE(text.find("\nration_unlisted_functions{tenant=\"nlp\"} 6\n"), std::string::npos) << text;
}

TEST(Metrics, WhatIsNotKnownHasNoSample) {
  Snapshot now;
  now.devices.emplace_back();
  const std::string text = metrics_text(now, {}, {});
  for (const char* name : {"ration_device_temperature_celsius{", "ration_device_utilisation_ratio{",
                           "ration_device_time_to_full_seconds{", "ration_ungoverned_memory_bytes{"})
    EXPECT_EQ(text.find(std::string("\n") + name), std::string::npos) << name;
}

}  // namespace
}  // namespace ration::node
