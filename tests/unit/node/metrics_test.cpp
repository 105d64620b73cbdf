#include "node/http/metrics.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "node/watch/forecast.hpp"

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
    forecast_limits(forecast, now, now.time_ns);
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

AccountView container(std::uint32_t owner, const char* labels) {
  AccountView account;
  account.workload = "main";
  account.tenant = "nlp";
  account.gpu = 0;
  account.owner = owner;
  account.labels = labels;
  return account;
}

TEST(Metrics, AContainerOfAPodIsNamedByItsNamespacePodAndName) {
  Snapshot now;
  now.accounts = {container(0, "engine=kubernetes,container=ml/train-0/main")};
  EXPECT_NE(metrics_text(now, {}, {})
                .find("\nration_workload_info{tenant=\"nlp\",workload=\"main\",namespace=\"ml\","
                      "pod=\"train-0\",container=\"main\"} 1\n"),
            std::string::npos);
}

TEST(Metrics, WhatIsNoContainerOfAPodHasNoneOfTheirLabels) {
  for (const auto& [owner, labels] : std::initializer_list<std::pair<std::uint32_t, const char*>>{
           {0, "engine=docker,container=ml/train-0/main"},
           {0, "engine=kubernetes,container=web"},
           {0, "engine=kubernetes"},
           {::getuid() + 1, "engine=kubernetes,container=ml/train-0/main"}}) {  // a user says so
    Snapshot now;
    now.accounts = {container(owner, labels)};
    EXPECT_NE(metrics_text(now, {}, {}).find("\nration_workload_info{tenant=\"nlp\",workload=\"main\"} 1\n"),
              std::string::npos)
        << labels;
  }
}

TEST(Metrics, WorkloadsOfOneNameAndTenantAreOneSample) {
  Snapshot now;
  now.accounts = {container(1, ""), container(2, "")};
  now.accounts[0].used = 1_GiB;
  now.accounts[0].idle_ns = 9 * kSecond;
  now.accounts[1].used = 2_GiB;
  now.accounts[1].idle_ns = 1500 * kMillisecond;
  now.accounts[1].waiting = true;
  const std::string text = metrics_text(now, {}, {});
  for (const char* line : {"memory_bytes{tenant=\"nlp\",workload=\"main\",gpu=\"0\"} 3221225472\n",
                           "idle_seconds{tenant=\"nlp\",workload=\"main\",gpu=\"0\"} 1.5\n",
                           "waiting{tenant=\"nlp\",workload=\"main\",gpu=\"0\"} 1\n"})
    EXPECT_NE(text.find(std::string("\nration_workload_") + line), std::string::npos) << line << text;
}

TEST(Metrics, WorkloadsBeyondTheMostAreCountedInstead) {
  Snapshot now;
  MetricsOptions options;
  options.most_workloads = 2;
  for (const char* name : {"one", "one", "two", "three"}) {
    now.accounts.push_back(container(0, ""));
    now.accounts.back().workload = name;
  }
  const std::string text = metrics_text(now, {}, options);
  EXPECT_EQ(text.find("workload=\"three\""), std::string::npos) << text;
  EXPECT_NE(text.find("\nration_workloads_truncated 1\n"), std::string::npos) << text;
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
