// Scenarios of `ration demo`: those that come with ration are sound, and a file with anything wrong is rejected whole.
#include "cli/session/scenario.hpp"

#include <sys/stat.h>

#include <random>

#include "../temporary.hpp"
#include "cli/session/session.hpp"
#include "config/configuration.hpp"

namespace ration::cli {
namespace {

constexpr std::string_view kSound =
    "[scenario]\n"
    "about = \"two\"\n"
    "node = \"T4*2\"\n"
    "length = \"20s\"\n"
    "[[tenant]]\n"
    "name = \"nlp\"\n"
    "[[policy]]\n"
    "match = { label = { kind = \"x\" } }\n"
    "idle = { after = \"30s\", action = \"suspend\" }\n"
    "[[program]]\n"
    "name = \"late\"\n"
    "start = \"10s\"\n"
    "steps = [\"1GiB:1s\"]\n"
    "[[program]]\n"
    "name = \"many\"\n"
    "copies = 3\n"
    "every = \"2s\"\n"
    "trace = \"t\"\n"
    "[[command]]\n"
    "at = \"5s\"\n"
    "ration = [\"set many --limit 20GiB\"]\n";

class ScenarioTest : public ::testing::Test {
 protected:
  Result<Scenario> read(std::string_view text, double speed = 1) const {
    return read_scenario(folder_.write("own.toml", std::string(text)), speed);
  }
  /// Of the sound one with `from` replaced.
  std::string problem(const std::string& from, const std::string& to) const {
    std::string text(kSound);
    text.replace(text.find(from), from.size(), to);
    const auto scenario = read(text);
    if (scenario) return "read";
    EXPECT_EQ(scenario.error().id, "E1441");
    EXPECT_FALSE(scenario.error().fix.empty());
    std::string what = scenario.error().what;
    const std::string file = folder_.file("own.toml");
    return what.rfind(file, 0) == 0 ? what.substr(file.size()) : what;
  }

  TemporaryFolder folder_;
};

TEST_F(ScenarioTest, EveryOneThatComesWithRationIsSoundAtAnySpeed) {
  EXPECT_GE(scenario_names().size(), 6U);
  for (const std::string& name : scenario_names()) {
    if (!scenario_program(name).empty()) continue;
    for (const double speed : {1.0, 7.5}) {
      const auto scenario = read_scenario(name, speed);
      ASSERT_TRUE(scenario) << scenario.error().what;
      EXPECT_EQ(scenario->name, name);
      EXPECT_FALSE(scenario->about.empty());
      EXPECT_FALSE(scenario->programs.empty());
      const auto configuration = config::parse_configuration({{name, scenario->configuration}});
      EXPECT_TRUE(configuration.problems.empty());
    }
  }
}

TEST_F(ScenarioTest, OneThatIsAProgramIsAnExecutableFileByItsName) {
  EXPECT_EQ(scenario_program("slurm"), share_folder() + "/ration/scenarios/slurm");
  const auto names = scenario_names();
  EXPECT_EQ(std::count(names.begin(), names.end(), "slurm"), 1);
  for (const char* none :
       {"demo", "README.md", "slurm_cluster", "slurm_cluster.py", "../scenarios/slurm", "/bin/true", "", "."})
    EXPECT_EQ(scenario_program(none), "") << none;
}

TEST_F(ScenarioTest, ProgramsStandInTheOrderOfTheirStartAndCopiesAreNumbered) {
  const auto scenario = read(kSound);
  ASSERT_TRUE(scenario) << scenario.error().what;
  std::string order;
  for (const ScenarioProgram& program : scenario->programs) order += program.name + " ";
  EXPECT_EQ(order, "many-01 many-02 many-03 late ");
  EXPECT_EQ(scenario->programs[2].start, std::chrono::seconds(4));
  EXPECT_EQ(scenario->commands[0].lines[0], (std::vector<std::string>{"set", "many", "--limit", "20GiB"}));
}

TEST_F(ScenarioTest, SpeedDividesEveryTimeThoseOfPoliciesToo) {
  const auto scenario = read(kSound, 2);
  ASSERT_TRUE(scenario) << scenario.error().what;
  EXPECT_EQ(scenario->length, std::chrono::seconds(10));
  EXPECT_EQ(scenario->programs.back().start, std::chrono::seconds(5));
  EXPECT_NE(scenario->configuration.find("after = \"15000ms\""), std::string::npos) << scenario->configuration;
}

TEST_F(ScenarioTest, TheConfigurationIsTheFileWithoutWhatIsTheDemosLineForLine) {
  const auto scenario = read(kSound);
  ASSERT_TRUE(scenario);
  EXPECT_EQ(std::count(scenario->configuration.begin(), scenario->configuration.end(), '\n'),
            std::count(kSound.begin(), kSound.end(), '\n'));
  EXPECT_EQ(scenario->configuration.find("program"), std::string::npos);
  EXPECT_EQ(scenario->configuration.find("[[tenant]]"), std::string("\n\n\n\n").size());
}

TEST_F(ScenarioTest, WhatIsWrongIsToldWithItsPlace) {
  EXPECT_EQ(problem("start = \"10s\"", "strat = \"10s\"")
                .rfind(":12:1: there is no key 'strat' here. Did you mean 'start'?", 0),
            0U);
  EXPECT_EQ(problem("\"10s\"", "10").rfind(":12:1: start must be a duration", 0), 0U);
  EXPECT_EQ(problem("copies = 3", "copies = 65").rfind(":16:1: copies must be an integer from 1 to 64", 0), 0U);
  EXPECT_EQ(problem("[\"1GiB:1s\"]", "[1]").rfind(":13:", 0), 0U);
  EXPECT_EQ(problem("set many", "reboot many").rfind(":19:", 0), 0U) << "only some verbs can be typed";
  EXPECT_EQ(problem("node = \"T4*2\"\n", "\n").rfind(":1:", 0), 0U);
  EXPECT_EQ(problem("name = \"late\"", "name = \"a b\"").rfind(":10:", 0), 0U);
  EXPECT_EQ(problem("trace = \"t\"", "trace = \"t\"\nsteps = [\"x\"]").rfind(":14:", 0), 0U) << "either or";
  EXPECT_EQ(problem("action = \"suspend\"", "acton = \"suspend\"").rfind(":9:", 0), 0U)
      << "the configuration's are told too";
}

TEST_F(ScenarioTest, OneThatIsNotThereNamesThoseThatAre) {
  const auto missing = read_scenario("dmo", 1);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().id, "E1441");
  EXPECT_EQ(missing.error().what, "there is no scenario 'dmo'. Did you mean 'demo'?");
}

TEST_F(ScenarioTest, ANameLeadsNowhereElseAndAFileIsAFile) {
  ASSERT_EQ(::mkfifo(folder_.file("pipe.toml").c_str(), 0600), 0);
  ASSERT_EQ(::mkdir(folder_.file("folder.toml").c_str(), 0700), 0);
  for (const std::string& name : {std::string("../scenarios/demo"), std::string("./demo"), folder_.file("pipe.toml"),
                                  folder_.file("folder.toml")}) {
    const auto scenario = read_scenario(name, 1);
    ASSERT_FALSE(scenario) << name;
    EXPECT_EQ(scenario.error().id, "E1441") << name;
  }
}

TEST_F(ScenarioTest, AnyFileIsAScenarioOrAnError) {
  constexpr std::string_view kPieces[] = {"[",
                                          "]",
                                          "\"",
                                          "=",
                                          "\n",
                                          "[[program]]\n",
                                          "[scenario]\n",
                                          "{",
                                          "}",
                                          "1",
                                          "-1",
                                          "''",
                                          "\xff",
                                          "99999999999999999999",
                                          "true",
                                          "[[scenario]]\n",
                                          "program = 1\n",
                                          "."};
  std::mt19937 random(17);
  for (int round = 0; round < 2000; ++round) {
    std::string text(kSound);
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      const std::size_t at = random() % text.size();
      if (random() % 2 == 0)
        text.erase(at, 1 + random() % 12);
      else
        text.insert(at, kPieces[random() % std::size(kPieces)]);
    }
    const auto scenario = read(text, 2);
    if (!scenario) {
      EXPECT_EQ(scenario.error().id, "E1441") << text;
    }
  }
}

}  // namespace
}  // namespace ration::cli
