// What follows from a configuration: whose a workload is, what the clock says, which alerts are raised.
#include <gtest/gtest.h>

#include <random>

#include "config/match.hpp"
#include "config/schedule.hpp"

using namespace ration;
using namespace ration::config;
using namespace std::chrono_literals;

namespace {

Configuration configuration(const std::string& text) {
  Reading reading = parse_configuration({{"r.toml", text}});
  for (const FileProblem& problem : reading.problems) ADD_FAILURE() << place_text(problem) << ": " << problem.what;
  return std::move(reading.configuration);
}

Subject user(const std::string& name, std::uint32_t uid = 1000) {
  Subject subject;
  subject.user = name;
  subject.uid = uid;
  return subject;
}

constexpr const char* kTenants = R"(
[[tenant]]
name = "nlp"
match = { users = ["alice", "al*"], label = { team = "nlp" } }
[[tenant]]
name = "vision"
match = { groups = "ml-*", cgroup = "*/vision/*", any = true }
[[tenant]]
name = "open"
[[tenant]]
name = "bob"
match.users = "robert"
)";

}  // namespace

TEST(Tenants, TheFirstThatFitsIsCharged) {
  const Configuration all = configuration(kTenants);
  Subject alice = user("alice");
  EXPECT_EQ(tenant_for(all, alice)->tenant, "alice") << "of several kinds all have to fit";
  EXPECT_EQ(tenant_for(all, alice)->entry, nullptr);
  alice.labels["team"] = "nlp";
  EXPECT_EQ(tenant_for(all, alice)->tenant, "nlp");
  EXPECT_EQ(tenant_for(all, alice)->entry, &all.tenants[0]);
  Subject carol = user("carol");
  carol.groups = {"users", "ml-interns"};
  EXPECT_EQ(tenant_for(all, carol)->tenant, "vision") << "with any, one kind is enough";
  carol.groups.clear();
  EXPECT_EQ(tenant_for(all, carol)->tenant, "carol");
  carol.cgroup = "/kube/vision/pod1";
  EXPECT_EQ(tenant_for(all, carol)->tenant, "vision");
}

TEST(Tenants, NobodyIsChargedForSomebodyWhoOnlyHasTheSameName) {
  const Configuration all = configuration(kTenants);
  EXPECT_EQ(tenant_for(all, user("bob"))->tenant, "user:bob");
  EXPECT_EQ(tenant_for(all, user("robert"))->tenant, "bob");
  EXPECT_EQ(tenant_for(all, user("", 1234))->tenant, "uid-1234");
}

TEST(Tenants, WhoAsksForATenantHasToFitIt) {
  const Configuration all = configuration(kTenants);
  Subject carol = user("carol");
  carol.asked_tenant = "vision";
  const auto refused = tenant_for(all, carol);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().id, "E1502");
  EXPECT_EQ(refused.error().exit_code, 5);
  EXPECT_EQ(refused.error().what, "carol may not run as tenant vision (r.toml:6).");
  EXPECT_EQ(refused.error().fix, "Leave --tenant out, or: --tenant open");
  carol.uid = 0;
  EXPECT_TRUE(tenant_for(all, carol)) << "root may";
  carol.uid = 1000;
  carol.asked_tenant = "open";
  EXPECT_EQ(tenant_for(all, carol)->entry, &all.tenants[2]);
  carol.asked_tenant = "carol";
  EXPECT_EQ(tenant_for(all, carol)->tenant, "carol");
  carol.asked_tenant = "vison";
  EXPECT_EQ(tenant_for(all, carol).error().id, "E1801");
  EXPECT_EQ(tenant_for(all, carol).error().what, "there is no tenant 'vison'. Did you mean 'vision'?");
  EXPECT_EQ(tenant_for(configuration(""), carol)->tenant, "vison") << "without tenants any name will do";
}

TEST(Tenants, WhatIsNoNameIsNoTenant) {
  for (const std::string& text : {std::string("\x1b[31mred"), std::string(60, 'x'), std::string("two words")}) {
    Subject carol = user("carol");
    carol.asked_tenant = text;
    const auto refused = tenant_for(configuration(""), carol);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().id, "E1409");
  }
}

TEST(Tenants, WithoutTenantsNobodyIsChargedInTheNameOfAnotherUser) {
  const Configuration none = configuration("");
  Subject carol = user("carol");
  carol.asked_tenant = "alice";
  carol.asks_for_another = true;
  const auto refused = tenant_for(none, carol);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().id, "E1502");
  EXPECT_EQ(refused.error().exit_code, 5);
  EXPECT_EQ(refused.error().what,
            "carol may not run as tenant alice: that is the name of another user of this machine.");
  carol.is_operator = true;
  EXPECT_EQ(tenant_for(none, carol)->tenant, "alice") << "operators may";
  carol.is_operator = false;
  const Configuration named = configuration("[[tenant]]\nname = \"alice\"\n");
  EXPECT_EQ(tenant_for(named, carol)->entry, &named.tenants[0]) << "the configuration says who may";
}

TEST(Tenants, TheDefaultTenantIsForThoseWhoFitNone) {
  const Configuration all = configuration(std::string(kTenants) + "[defaults]\ntenant = \"open\"\n");
  EXPECT_EQ(tenant_for(all, user("dora"))->entry, &all.tenants[2]);
  EXPECT_EQ(tenant_for(all, user("robert"))->tenant, "bob");
}

TEST(Policies, AServiceIsAFolderOfTheControlGroup) {
  const Configuration all =
      configuration("[[policy]]\nmatch.service = \"jupyterhub\"\nlimit = \"8GiB\"\n[[policy]]\nlimit = \"4GiB\"\n");
  Subject subject = user("eve");
  subject.cgroup = "/system.slice/jupyterhub.service/eve";
  EXPECT_EQ(policy_for(all, subject), &all.policies[0]);
  subject.cgroup = "/system.slice/myjupyterhub.service";
  EXPECT_EQ(policy_for(all, subject), &all.policies[1]) << "without match it fits everybody";
  EXPECT_EQ(policy_for(configuration(""), subject), nullptr);
}

TEST(Devices, AreFoundByIndexUuidAndName) {
  const Configuration all =
      configuration("[[device]]\nmatch = \"GPU-5f*\"\n[[device]]\nmatch = \"1\"\n[[device]]\nmatch = \"*T4\"\n");
  EXPECT_EQ(device_for(all, 0, "GPU-5fd4", "A100"), &all.devices[0]);
  EXPECT_EQ(device_for(all, 1, "GPU-0", "NVIDIA T4"), &all.devices[1]);
  EXPECT_EQ(device_for(all, 11, "GPU-0", "NVIDIA T4"), &all.devices[2]);
  EXPECT_EQ(device_for(all, 2, "GPU-0", "A100"), nullptr);
}

namespace {
constexpr const char* kNight =
    "[[tenant]]\nname = \"a\"\n[[tenant]]\nname = \"b\"\n"
    "[[schedule]]\nwhen = \"22:00-07:00\"\ndays = \"mon-fri\"\nset = { a = \"90%\" }\n"
    "[[schedule]]\nwhen = \"06:00-08:00\"\nset = { a = \"50%\", b = \"5%\" }\n";

/// `a=90% b=5%`
std::string at(const Configuration& all, int weekday, int hour, int minute) {
  std::string text;
  for (const auto& [name, limit] : limits_at(all, {weekday, hour, minute}))
    text += (text.empty() ? "" : " ") + name + "=" + limit.value.text;
  return text;
}
}  // namespace

TEST(Schedules, HoldPastMidnightAndTheFirstWins) {
  const Configuration all = configuration(kNight);
  EXPECT_EQ(at(all, 1, 21, 59), "");  // Monday
  EXPECT_EQ(at(all, 1, 22, 0), "a=90%");
  EXPECT_EQ(at(all, 2, 5, 59), "a=90%");
  EXPECT_EQ(at(all, 2, 6, 0), "a=90% b=5%") << "two at once: the first says what a has";
  EXPECT_EQ(at(all, 2, 7, 0), "a=50% b=5%");
  EXPECT_EQ(at(all, 2, 8, 0), "");
  EXPECT_EQ(at(all, 6, 3, 0), "a=90%") << "Friday night is Saturday morning";
  EXPECT_EQ(at(all, 6, 22, 30), "") << "Saturday evening begins nothing";
  EXPECT_EQ(at(all, 0, 23, 0), "") << "nor does Sunday";
  EXPECT_EQ(at(all, 1, 6, 0), "a=50% b=5%") << "across the end of the week";
}

TEST(Schedules, TheWholeDayAndNoSchedule) {
  EXPECT_EQ(at(configuration(""), 3, 12, 0), "");
  const std::string a = "[[tenant]]\nname = \"a\"\n[[schedule]]\nset.a = \"1GiB\"\n";
  EXPECT_EQ(at(configuration(a + "when = \"00:00-24:00\"\n"), 3, 12, 0), "a=1GiB");
  EXPECT_EQ(at(configuration(a + "when = \"00:00-24:00\"\ndays = \"sat,sun\"\n"), 6, 0, 0), "a=1GiB");
  EXPECT_EQ(at(configuration(a + "when = \"00:00-24:00\"\ndays = \"sat,sun\"\n"), 1, 0, 0), "");
  EXPECT_EQ(at(configuration(a + "when = \"12:00-11:00\"\ndays = \"wed\"\n"), 3, 12, 30), "a=1GiB");
  EXPECT_EQ(at(configuration(a + "when = \"12:00-11:00\"\ndays = \"wed\"\n"), 4, 11, 0), "");
}

/// Against a model that writes down every minute of the week.
TEST(Schedules, AreWhatAWeekWrittenDownMinuteByMinuteSays) {
  std::mt19937 random(7);
  const auto below = [&](int end) { return static_cast<int>(random() % static_cast<unsigned>(end)); };
  constexpr int kWeek = 7 * 1440;
  constexpr const char* kDays[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};
  for (int round = 0; round < 30; ++round) {
    std::string text = "[[tenant]]\nname = \"a\"\n[[tenant]]\nname = \"b\"\n";
    std::vector<std::map<std::string, std::string>> week(kWeek);
    for (int i = 0; i < 3; ++i) {
      const int from = below(1440), length = 1 + below(1439), first = below(7), last = below(7);
      const int to = (from + length) % 1440;
      const std::string tenant = below(2) != 0 ? "a" : "b", size = below(2) != 0 ? "1GiB" : "2GiB";
      char when[128];
      std::snprintf(when, sizeof when, "[[schedule]]\nwhen = \"%02d:%02d-%02d:%02d\"\n", from / 60, from % 60, to / 60,
                    to % 60);
      text += std::string(when) + "days = \"" + kDays[first] + "-" + kDays[last] + "\"\nset." + tenant + " = \"" +
              size + "\"\n";
      for (int day = first;; day = (day + 1) % 7) {
        for (int k = 0; k < length; ++k)
          week[static_cast<std::size_t>((day * 1440 + from + k) % kWeek)].emplace(tenant, size);
        if (day == last) break;
      }
    }
    const Configuration all = configuration(text);
    for (int sample = 0; sample < 20; ++sample) {
      const int now = below(kWeek);
      std::map<std::string, std::string> limits;
      for (const auto& [name, limit] : limits_at(all, {now / 1440, now / 60 % 24, now % 60}))
        limits[name] = limit.value.text;
      EXPECT_EQ(limits, week[static_cast<std::size_t>(now)]) << text << now;
    }
  }
}

namespace {
std::vector<AlertRule> rules(const std::vector<std::string>& texts) {
  std::vector<AlertRule> all;
  for (const std::string& text : texts) all.push_back(parse_rule(text).value());
  return all;
}

/// `+rule: about` raised, `-rule: about` cleared.
std::vector<std::string> changes(Alerts& alerts, const std::vector<Fact>& facts, std::chrono::nanoseconds now) {
  std::vector<std::string> all;
  for (const AlertChange& change : alerts.evaluate(facts, now))
    all.push_back((change.raised ? "+" : "-") + change.rule + ": " + change.about);
  return all;
}
using Lines = std::vector<std::string>;
Fact used(double value, const char* about = "nlp") { return {"tenant.used", about, value, 100.0}; }
}  // namespace

TEST(Alerts, RulesAreReadOrRefused) {
  const AlertRule rule = parse_rule("  tenant.used>=90% for 5m ").value();
  EXPECT_STREQ(rule.measure->name, "tenant.used");
  EXPECT_EQ(rule.comparison, AlertRule::Comparison::kAtLeast);
  EXPECT_TRUE(rule.share);
  EXPECT_EQ(rule.threshold, 90);
  EXPECT_EQ(rule.lasting, 5min);
  EXPECT_EQ(parse_rule("device.time_to_full < 10m")->threshold, 600e9);
  EXPECT_EQ(parse_rule("device.used > 20GiB")->threshold, 20.0 * 1073741824);
  EXPECT_EQ(parse_rule("guard.lost for 10s")->lasting, 10s);
  EXPECT_EQ(parse_rule("idle > 2d")->threshold, 2 * 86400e9);
  for (const char* text : {"",
                           "tenant",
                           "tenant.used",
                           "tenant.used = 90%",
                           "tenant.used > ",
                           "tenant.used > 90",
                           "tenant.used > 101%",
                           "tenant.used > 50%free",
                           "tenant.used > max",
                           "tenant.used > unlimited",
                           "tenant.used > 90% for",
                           "tenant.used > 90% for ever",
                           "guard.lost > 0",
                           "denials > 1.5",
                           "denials > -1",
                           "denials > 1GiB",
                           "idle > 3",
                           "tenant.used > 1GiB 2GiB",
                           "> 3",
                           "for 5m"}) {
    const auto refused = parse_rule(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().id, "E1601");
    EXPECT_FALSE(refused.error().fix.empty()) << text;
  }
}

TEST(Alerts, AreRaisedOnceWhenTheyHeldLongEnoughAndClearedOnce) {
  Alerts alerts(rules({"tenant.used > 90% for 5m"}));
  EXPECT_EQ(changes(alerts, {used(95)}, 0s), Lines{});
  EXPECT_EQ(changes(alerts, {used(95)}, 299s), Lines{});
  EXPECT_EQ(changes(alerts, {used(95)}, 300s), Lines{"+tenant.used > 90% for 5m: nlp"});
  EXPECT_EQ(changes(alerts, {used(99)}, 301s), Lines{});
  EXPECT_EQ(changes(alerts, {used(90)}, 302s), Lines{"-tenant.used > 90% for 5m: nlp"});
  EXPECT_EQ(changes(alerts, {used(90)}, 303s), Lines{});
  EXPECT_EQ(changes(alerts, {used(95)}, 304s), Lines{});
  EXPECT_EQ(changes(alerts, {used(80)}, 500s), Lines{}) << "it did not hold all the time";
  EXPECT_EQ(changes(alerts, {used(95)}, 604s), Lines{});
  EXPECT_EQ(changes(alerts, {used(95)}, 904s), Lines{"+tenant.used > 90% for 5m: nlp"});
}

TEST(Alerts, WhatIsGoneIsCleared) {
  Alerts alerts(rules({"guard.lost", "tenant.used > 50%"}));
  EXPECT_EQ(changes(alerts, {{"guard.lost", "train", 1, {}}, used(60), used(40, "vision")}, 1s),
            (Lines{"+guard.lost: train", "+tenant.used > 50%: nlp"}));
  EXPECT_EQ(changes(alerts, {used(60)}, 2s), Lines{"-guard.lost: train"});
  EXPECT_EQ(changes(alerts, {}, 3s), Lines{"-tenant.used > 50%: nlp"});
}

TEST(Alerts, AShareOfNothingIsNotKnown) {
  Alerts alerts(rules({"tenant.used > 90%", "tenant.used > 50B"}));
  EXPECT_EQ(changes(alerts, {{"tenant.used", "nlp", 95, {}}}, 1s), Lines{"+tenant.used > 50B: nlp"});
}

TEST(Alerts, NewRulesDoNotForgetWhatIsRaised) {
  Alerts alerts(rules({"guard.lost", "tenant.used > 50%"}));
  const std::vector<Fact> facts{{"guard.lost", "train", 1, {}}, used(60)};
  EXPECT_EQ(changes(alerts, facts, 1s).size(), 2U);
  alerts.configure(rules({"tenant.used > 50%", "idle > 1h"}));
  EXPECT_EQ(changes(alerts, facts, 2s), Lines{"-guard.lost: train"});
}

TEST(Alerts, AClockThatGoesBackBeginsAnew) {
  Alerts alerts(rules({"tenant.used > 90% for 5m"}));
  EXPECT_EQ(changes(alerts, {used(95)}, 1000s), Lines{});
  EXPECT_EQ(changes(alerts, {used(95)}, 10s), Lines{});
  EXPECT_EQ(changes(alerts, {used(95)}, 309s), Lines{});
  EXPECT_EQ(changes(alerts, {used(95)}, 310s), Lines{"+tenant.used > 90% for 5m: nlp"});
}
