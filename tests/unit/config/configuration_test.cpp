// The configuration file: what it may say, what is refused and where, how files are laid over each other.
#include "config/configuration.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "config/keys.hpp"
#include "config/printer.hpp"
#include "config/settings.hpp"

using namespace ration;
using namespace ration::config;
using namespace std::chrono_literals;

namespace {

Reading read(const std::string& text) { return parse_configuration({{"r.toml", text}}); }

/// Every problem as `line:column: what`.
std::vector<std::string> problems(const std::string& text) {
  std::vector<std::string> all;
  for (const FileProblem& problem : read(text).problems) {
    EXPECT_FALSE(problem.fix.empty()) << problem.what;
    EXPECT_FALSE(problem.file.empty()) << problem.what;
    all.push_back(place_text(problem).substr(problem.file.size() + 1) + ": " + problem.what);
  }
  return all;
}

std::string only_problem(const std::string& text) {
  const auto all = problems(text);
  EXPECT_EQ(all.size(), 1U) << text;
  return all.empty() ? "" : all.front();
}

constexpr const char* kWhole = R"toml(schema = 1
[daemon]
listen = "[::1]:7077"
sample = "250ms"
metrics_processes = true

[defaults]
limit = "50%"
ungoverned = "terminate"
grace = "1m"

[[device]]
match = "GPU-5fd4*"
keep_free = "256MiB"
slices = ["6GiB", "6GiB",
          "rest"]

[[tenant]]
name = "nlp"
match = { users = ["alice", "b*"], cgroup = "*/nlp/*", label = { team = "nlp", "app.io/kind" = "x" } }
guarantee = "8GiB"
limit = "16GiB"
soft = "90%"
priority = 10
price = "0.031 EUR/GiB·h"

[[tenant]]
name = "vision"

[[policy]]
match = { service = "jupyterhub" }
per = "user"
limit = "8GiB"
idle = { after = "30m", below = "1% activity", action = "trim" }

[[schedule]]
when = "22:00-07:00"
days = "mon-fri"
set = { nlp = "90%", vision = "10%" }

[alerts]
rules = ["tenant.used > 90% for 5m", "guard.lost"]
webhook = "https://hooks.example.org/x"
[report]
basis = "max(used,guarantee)"
retention = "400d"
[compat]
hami = true
)toml";

}  // namespace

TEST(Configuration, TheWholeDeviceIsASize) {
  for (const char* text :
       {"[[tenant]]\nname = \"a\"\nguarantee = \"100%\"\n", "[[device]]\nmatch = \"*\"\nkeep_free = \"100%\"\n",
        "[[tenant]]\nname = \"a\"\nlimit = \"100%free\"\n"})
    EXPECT_TRUE(read(text).problems.empty()) << text;
}

TEST(Configuration, EveryPartIsReadWithItsPlace) {
  const Reading reading = read(kWhole);
  for (const FileProblem& problem : reading.problems) ADD_FAILURE() << place_text(problem) << ": " << problem.what;
  const Configuration& all = reading.configuration;
  EXPECT_EQ(all.daemon.listen.value, "[::1]:7077");
  EXPECT_EQ(all.daemon.listen.origin.text(), "r.toml:3");
  EXPECT_EQ(all.daemon.sample.value, 250ms);
  EXPECT_EQ(all.daemon.sample_idle.value, 5s);
  EXPECT_EQ(all.daemon.sample_idle.origin.text(), "default");
  EXPECT_TRUE(all.daemon.metrics_processes.value);
  EXPECT_EQ(all.defaults.limit.value.text, "50%");
  EXPECT_EQ(all.defaults.ungoverned.value, Ungoverned::kTerminate);
  EXPECT_EQ(all.defaults.grace.value, 60s);
  ASSERT_EQ(all.devices.size(), 1U);
  EXPECT_EQ(all.devices[0].slices.value, (std::vector<std::string>{"6GiB", "6GiB", "rest"}));
  ASSERT_EQ(all.tenants.size(), 2U);
  const Tenant& nlp = all.tenants[0];
  EXPECT_EQ(nlp.name.value, "nlp");
  EXPECT_EQ(nlp.match.users.value, (std::vector<std::string>{"alice", "b*"}));
  EXPECT_EQ(nlp.match.users.origin.text(), "r.toml:20");
  EXPECT_EQ(nlp.match.users.origin.place.column, 11U);
  EXPECT_EQ(nlp.match.cgroup.value, (std::vector<std::string>{"*/nlp/*"}));
  EXPECT_EQ(nlp.match.labels.at("app.io/kind").value, (std::vector<std::string>{"x"}));
  EXPECT_EQ(nlp.guarantee.value.on(Bytes{1}, Bytes{1}).value(), Bytes{8ULL << 30});
  EXPECT_EQ(nlp.soft.value, 90);
  EXPECT_EQ(nlp.priority.value, 10);
  EXPECT_EQ(nlp.price.value->billionths, 31'000'000);
  EXPECT_EQ(nlp.price.value->currency, "EUR");
  EXPECT_EQ(all.tenants[1].limit.value.on(Bytes{1}, Bytes{1}).value(), kUnlimited);
  ASSERT_EQ(all.policies.size(), 1U);
  EXPECT_EQ(all.policies[0].per.value, Per::kUser);
  EXPECT_EQ(all.policies[0].idle.after.value, 30min);
  EXPECT_EQ(all.policies[0].idle.below.value, 1);
  EXPECT_EQ(all.policies[0].idle.action.value, IdleAction::kTrim);
  ASSERT_EQ(all.schedules.size(), 1U);
  EXPECT_EQ(all.schedules[0].when.value.from, 22 * 60);
  EXPECT_EQ(all.schedules[0].days.value.to_string(), "0111110");
  EXPECT_EQ(all.schedules[0].set.at("vision").value.text, "10%");
  EXPECT_EQ(all.alerts.rules.value.size(), 2U);
  EXPECT_EQ(all.report.basis.value, Basis::kUsedOrGuarantee);
  EXPECT_EQ(all.report.retention.value, std::chrono::hours(24 * 400));
  EXPECT_TRUE(all.compat_hami.value);
}

TEST(Configuration, NothingWrittenIsAllDefaults) {
  for (const char* text : {"", "\n", "# only a comment\n", "\xef\xbb\xbfschema = 1\n", "[daemon]\n"}) {
    const Reading reading = read(text);
    EXPECT_TRUE(reading.problems.empty()) << text;
    EXPECT_EQ(reading.configuration.defaults.limit.value.text, "unlimited");
    EXPECT_EQ(reading.configuration.daemon.listen.value, "127.0.0.1:7077");
    EXPECT_TRUE(reading.configuration.defaults.framework_hints.value);
    for (const Row& row : reading.configuration.rows) EXPECT_EQ(row.origin.text(), "default") << row.key;
  }
}

TEST(Configuration, WhatIsWrongIsToldWithItsPlaceAndTheNearestName) {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"[defaults]\nguarentee = \"1GiB\"\n", "2:1: unknown key 'guarentee' - did you mean 'guarantee'?"},
      {"[defaults]\nlimit = 4096\n", "2:1: 'limit' must be a text in quotes"},
      {"[defaults]\n  limit = \"4096\"\n", "2:3: '4096' has no unit."},
      {"[defaults]\ngrowth = \"yes\"\n", "2:1: 'growth' must be true or false"},
      {"[defaults]\non_deny = \"wait:soon\"\n", "2:1: 'wait:soon' is not fail, wait or wait:DURATION"},
      {"[defaults]\nungoverned = \"warm\"\n", "2:1: 'warm' is not a value of ungoverned - did you mean 'warn'?"},
      {"[defaults]\nguarantee = \"8GiB\"\nlimit = \"4GiB\"\n",
       "2:1: guarantee 8GiB is more than limit 4GiB (r.toml:3)"},
      {"[default]\n", "1:1: unknown key 'default' - did you mean 'defaults'?"},
      {"defaults = 1\n", "1:1: 'defaults' must be one table"},
      {"[[defaults]]\n", "1:1: 'defaults' must be one table"},
      {"[tenant]\nname = \"a\"\n", "1:1: 'tenant' must be a list of tables"},
      {"schema = 2\n", "1:10: schema must be 1"},
      {"schema = 7.7e20\n", "1:10: schema must be 1"},
      {"[daemon]\nlisten = \"0.0.0.0:7077\"\n", "2:1: other machines can reach 0.0.0.0:7077, so it needs a token_file"},
      {"[daemon]\nlisten = \"example.org:80\"\n", "2:1: 'example.org:80' is not an address and port"},
      {"[daemon]\nlisten = \"127.0.0.1:65536\"\n", "2:1: '127.0.0.1:65536' is not an address and port"},
      {"[daemon]\nsample = \"0s\"\n", "2:1: sample must be at least 10ms"},
      {"[daemon]\nsample = \"10s\"\n", "2:1: sample_idle is shorter than sample"},
      {"[[device]]\nkeep_free = \"1GiB\"\n", "1:1: a device needs a match"},
      {"[[device]]\nmatch = \"*\"\nslices = [\"rest\", \"1 gig\",\n \"rest\"]\n", "3:19: '1 gig' is not a size."},
      {"[[device]]\nmatch = \"*\"\nslices = [\"rest\",\n \"rest\"]\n", "4:2: 'rest' may be given only once"},
      {"[[tenant]]\nname = \"a\"\n[[tenant]]\nname = \"b\"\n[[tenant]]\nname = \"a\"\n",
       "6:1: tenant 'a' is written twice: also on line 2"},
      {"[[tenant]]\nlimit = \"1GiB\"\n", "1:1: a tenant needs a name"},
      {"[[tenant]]\nname = \"a/b\"\n", "2:1: 'a/b' cannot be a name"},
      {"[[tenant]]\nname = \"a\"\nlimit = \"4GiB\"\nguarantee = \"5GiB\"\n",
       "4:1: tenant a: guarantee 5GiB is more than limit 4GiB (r.toml:3)"},
      {"[[tenant]]\nname = \"a\"\nlimit = \"40%\"\nguarantee = \"50%\"\n",
       "4:1: tenant a: guarantee 50% is more than limit 40% (r.toml:3)"},
      {"[[tenant]]\nname = \"a\"\nguarantee = \"unlimited\"\n", "3:1: 'guarantee' must be a size"},
      {"[[tenant]]\nname = \"a\"\nsoft = \"110%\"\n", "3:1: '110%' is not a percentage"},
      {"[[tenant]]\nname = \"a\"\npriority = \"1\"\n", "3:1: 'priority' must be an integer"},
      {"[[tenant]]\nname = \"a\"\nprice = \"3 EUR\"\n", "3:1: '3 EUR' is not a price"},
      {"[report]\ncurrency = \"\"\n", "2:1: '' is not a currency"},
      {"[report]\ncurrency = \"<b>\"\n", "2:1: '<b>' is not a currency"},
      {"[[tenant]]\nname = \"a\"\nprice = \"1,5/GiBh\"\n", "3:1: '1,5/GiBh' is not a price"},
      {"[[tenant]]\nname = \"a\"\nprice = \"10001 EUR/GiBh\"\n", "3:1: '10001 EUR/GiBh' is not a price"},
      {"[[tenant]]\nname = \"a\"\nprice = \"3 USD/GiBh\"\n", "3:1: the price is in USD, the report in EUR (default)"},
      {"[[tenant]]\nname = \"a\"\nmatch = { user = [\"x\"] }\n", "3:11: unknown key 'user' - did you mean 'users'?"},
      {"[[tenant]]\nname = \"a\"\nmatch = \"x\"\n", "3:1: 'match' must be a table"},
      {"[[tenant]]\nname = \"a\"\n[tenant.match]\nusers = [\"x\", 3]\n", "4:15: this must be a text in quotes"},
      {"[[policy]]\nidle = { action = \"trim\" }\n", "2:10: idle needs the key 'after'"},
      {"[[policy]]\nidle = { after = \"2h\", suspend_after = \"1h\" }\n",
       "2:24: suspend_after is a second step: it must be longer than 'after', and action must not be suspend"},
      {"[[policy]]\nidle = { after = \"1h\", action = \"suspend\", suspend_after = \"2h\" }\n",
       "2:44: suspend_after is a second step: it must be longer than 'after', and action must not be suspend"},
      {"[[policy]]\nidle = { suspend_after = \"2h\" }\n",
       "2:10: suspend_after is a second step: it must be longer than 'after', and action must not be suspend"},
      {"[[policy]]\nidle = { after = \"soon\" }\n", "2:10: 'soon' is not a duration"},
      {"[[schedule]]\nwhen = \"22:00-07:00\"\n", "1:1: a schedule needs the key 'set'"},
      {"[[schedule]]\nwhen = \"22:00-25:00\"\nset = { a = \"1GiB\" }\n[[tenant]]\nname = \"a\"\n",
       "2:1: '22:00-25:00' is not a range of hours"},
      {"[[tenant]]\nname = \"train\"\n[[schedule]]\nwhen = \"22:00-07:00\"\nset = { trian = \"90%\" }\n",
       "5:9: there is no tenant 'trian' - did you mean 'train'?"},
      {"[[tenant]]\nname = \"a\"\nguarantee = \"8GiB\"\n[[schedule]]\nwhen = \"1:00-2:00\"\nset.a = \"4GiB\"\n",
       "6:5: tenant a: limit 4GiB is less than its guarantee 8GiB (r.toml:3)"},
      {"[alerts]\nrules = [\"guard.lost\", \"tenant.usde > 90%\"]\n",
       "2:24: there is no measure 'tenant.usde' - did you mean 'tenant.used'?"},
      {"[alerts]\nrules = [\"guard.lost\", \"guard.lost\"]\n", "2:24: the rule 'guard.lost' is given twice"},
      {"[alerts]\nwebhook = \"hooks\"\n", "2:1: 'hooks' is not a URL"},
  };
  for (const auto& [text, wanted] : cases) {
    const auto all = problems(text);
    ASSERT_FALSE(all.empty()) << text;
    EXPECT_EQ(all.front(), wanted) << text;
  }
}

TEST(Configuration, WhatIsNotTomlIsRefusedAtItsPlace) {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"x = [", "1:5: '[' is never closed"},
      {"[defaults]\nlimit = \"4GiB\n", "2:9: this text has no end on its line"},
      {"[[tenant]]\nname = \"a\"\nmatch = { users = [\"x\"],\n", "3:9: this table in braces has no end on its line"},
      {"a = ]\n", "1:5: ']' closes nothing"},
      {"a = \"\"\"\nx\"\"\"\n", "1:5: a text is written on one line"},
      {"[defaults]\nlimit = \"\xff\"\n", "2:10: this is not UTF-8 text"},
      {"[defaults]\nlimit = \"\xed\xa0\x80\"\n", "2:10: this is not UTF-8 text"},
      {"[defaults]\nlimit = 4GiB\n", "2:10: "},
      {"[defaults]\nlimit = four\n", "2:9: this is not a value"},
      {"[defaults]\nlimit \"4GiB\"\n", "2:6: "},
      {"[defaults]\nlimit = \"1GiB\"\nlimit = \"2GiB\"\n", "3:9: "},
      {"[defaults]\n[defaults]\n", "2:1: "},
  };
  for (const auto& [text, wanted] : cases)
    EXPECT_EQ(only_problem(text).substr(0, std::string(wanted).size()), wanted) << text;
  EXPECT_EQ(only_problem(std::string("a = 1\0", 6)), "1:6: this is not UTF-8 text");
}

TEST(Configuration, NestingAndSizeHaveAnEnd) {
  EXPECT_EQ(only_problem("a = " + std::string(100000, '[')), "1:21: brackets are nested too deep");
  std::string braces = "a = ", dots = "a";
  for (int i = 0; i < 5000; ++i) braces += "{a=", dots += ".a";
  EXPECT_EQ(only_problem(braces), "1:53: brackets are nested too deep");
  EXPECT_EQ(only_problem(dots + " = 1"), "1:34: too many dots on one line");
  EXPECT_EQ(only_problem(std::string(300 << 10, '#')), "1:1: the file is larger than 256 KiB");
}

TEST(Configuration, AllProblemsOfAllFilesAreToldInOrder) {
  const Reading reading = parse_configuration({{"one", "[defaults]\nlimit = 1\nfoo = 2\n"}, {"two", "bar = 1\n"}});
  ASSERT_EQ(reading.problems.size(), 3U);
  EXPECT_EQ(place_text(reading.problems[0]), "one:2:1");
  EXPECT_EQ(place_text(reading.problems[1]), "one:3:1");
  EXPECT_EQ(place_text(reading.problems[2]), "two:1:1");
  const Error error = rejected(reading.problems);
  EXPECT_EQ(error.id, "E1601");
  EXPECT_EQ(error.exit_code, 2);
  EXPECT_EQ(error.what, "one:2:1: 'limit' must be a text in quotes");
  EXPECT_NE(error.fix.find("(2 more: ration config validate)"), std::string::npos);
}

TEST(Configuration, ALaterFileWinsKeyByKey) {
  const Reading reading = parse_configuration(
      {{"system",
        "[defaults]\nlimit = \"4GiB\"\ngpu = \"0\"\n[[tenant]]\nname = \"a\"\nlimit = \"9GiB\"\npriority = 3\n"
        "[[tenant]]\nname = \"b\"\n[[device]]\nmatch = \"*\"\nkeep_free = \"1GiB\"\n[[policy]]\nlimit = \"1GiB\"\n"
        "[alerts]\nrules = [\"guard.lost\", \"idle > 2h\"]\n"},
       {"user",
        "[defaults]\nlimit = \"2GiB\"\n[[tenant]]\nname = \"c\"\n[[tenant]]\nname = \"b\"\nlimit = \"7GiB\"\n"
        "[[device]]\nmatch = \"*\"\nslices = [\"rest\"]\n[[policy]]\nlimit = \"2GiB\"\n[alerts]\nrules = []\n"}});
  ASSERT_TRUE(reading.problems.empty()) << reading.problems.front().what;
  const Configuration& all = reading.configuration;
  EXPECT_EQ(all.defaults.limit.value.text, "2GiB");
  EXPECT_EQ(all.defaults.limit.origin.text(), "user:2");
  EXPECT_EQ(all.defaults.gpu.origin.text(), "system:3");
  ASSERT_EQ(all.tenants.size(), 3U);
  EXPECT_EQ(all.tenants[0].name.value, "c") << "what is new stands in front";
  EXPECT_EQ(all.tenants[1].name.value, "a");
  EXPECT_EQ(all.tenants[1].priority.value, 3);
  EXPECT_EQ(all.tenants[2].limit.origin.text(), "user:7");
  ASSERT_EQ(all.devices.size(), 1U);
  EXPECT_EQ(all.devices[0].keep_free.value.text, "1GiB");
  EXPECT_EQ(all.devices[0].slices.value.size(), 1U);
  ASSERT_EQ(all.policies.size(), 2U);
  EXPECT_EQ(all.policies[0].limit.value.text, "2GiB");
  EXPECT_TRUE(all.alerts.rules.value.empty());
}

TEST(Configuration, AGuaranteeAgainstAShareIsLeftToTheDevice) {
  EXPECT_TRUE(problems("[[tenant]]\nname = \"a\"\nlimit = \"50%\"\nguarantee = \"8GiB\"\n").empty());
  EXPECT_TRUE(problems("[[tenant]]\nname = \"a\"\nlimit = \"max-1GiB\"\nguarantee = \"8GiB\"\n").empty());
}

TEST(Configuration, TheInitialFileSetsNothingAndEveryExampleInItIsGood) {
  const std::string text = initial_configuration();
  const Reading empty = read(text);
  EXPECT_TRUE(empty.problems.empty());
  for (const Row& row : empty.configuration.rows) EXPECT_TRUE(row.origin.is_default()) << row.key;
  // The same with every key and header switched on.
  std::string all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    std::string line = text.substr(at, end - at);
    at = end + 1;
    const bool header = line.rfind("# [[", 0) == 0, key = line.find(" = ") != std::string::npos;
    if (header || (key && line[0] == '#')) line.erase(0, 2);
    all += line + "\n";
  }
  const Reading full = read(all);
  for (const FileProblem& problem : full.problems)
    ADD_FAILURE() << place_text(problem) << ": " << problem.what << "\n" << all;
  std::size_t written = 0;
  for (const Row& row : full.configuration.rows) written += row.origin.is_default() ? 0 : 1;
  std::size_t known = 0;
  for (const Section& section : sections()) known += section.keys.size();
  EXPECT_EQ(written, known);
}

TEST(Configuration, WhatIsPrintedIsTheSameConfiguration) {
  const Configuration first = read(kWhole).configuration;
  const Reading again = read(printed(first));
  for (const FileProblem& problem : again.problems) ADD_FAILURE() << place_text(problem) << ": " << problem.what;
  EXPECT_EQ(difference(first, again.configuration), std::vector<std::string>{});
  EXPECT_NE(printed(first).find("limit = \"16GiB\"                              # r.toml:22\n"), std::string::npos)
      << printed(first);
  EXPECT_NE(printed(first).find("match.label.\"app.io/kind\" = \"x\""), std::string::npos);
}

TEST(Configuration, ADifferenceNamesTheTenantTheValuesAndThePlace) {
  const auto changed = [](const std::string& before, const std::string& after) {
    return difference(read(before).configuration, read(after).configuration);
  };
  const std::string nlp = "[[tenant]]\nname = \"nlp\"\n", vision = "[[tenant]]\nname = \"vision\"\n";
  using Lines = std::vector<std::string>;
  EXPECT_EQ(changed(nlp, nlp), Lines{});
  EXPECT_EQ(changed(nlp + "limit = \"16GiB\"\n", nlp + "limit = \"20GiB\"\n"),
            Lines{"tenant nlp: limit 16GiB → 20GiB (r.toml:3)"});
  EXPECT_EQ(changed(nlp, nlp + "guarantee = \"1GiB\"\n"), Lines{"tenant nlp: guarantee none → 1GiB (r.toml:3)"});
  EXPECT_EQ(changed(nlp + "guarantee = \"1GiB\"\n", nlp), Lines{"tenant nlp: guarantee 1GiB → none"});
  EXPECT_EQ(changed(nlp, nlp + "limit = \"unlimited\"\n"), Lines{}) << "the default, written down";
  EXPECT_EQ(changed("[defaults]\nlimit = \"1GiB\"\n", ""), Lines{"defaults: limit 1GiB → unlimited (default)"});
  EXPECT_EQ(changed(nlp, nlp + vision), Lines{"tenant vision: new (r.toml:4)"});
  EXPECT_EQ(changed(nlp + vision, vision), Lines{"tenant nlp: removed"});
  EXPECT_EQ(changed(nlp + vision, vision + nlp),
            Lines{"order: tenant vision, tenant nlp (was: tenant nlp, tenant vision)"});
}

TEST(Configuration, HamisVariableIsALimitWhereTheFileSaysSo) {
  const auto file = std::filesystem::temp_directory_path() / ("ration-hami-" + std::to_string(::getpid()) + ".toml");
  ::setenv("RATION_CONFIG", file.c_str(), 1);
  ::setenv("CUDA_DEVICE_MEMORY_LIMIT_0", "3000m", 1);
  for (const bool reads : {false, true}) {
    std::ofstream(file) << "[defaults]\nlimit = \"1GiB\"\n[compat]\nhami = " << (reads ? "true" : "false") << "\n";
    const auto settings = read_settings();
    ASSERT_TRUE(settings) << settings.error().what;
    EXPECT_EQ(settings->values.at("limit").value, reads ? "3000m" : "1GiB");
  }
  ::unsetenv("CUDA_DEVICE_MEMORY_LIMIT_0");
  ::unsetenv("RATION_CONFIG");
  std::filesystem::remove(file);
}
