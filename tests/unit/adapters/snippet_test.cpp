// Texts for other people's configuration: the fractions of model servers, and that every kind is whole.
#include "adapters/containers/snippet.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "base/printable.hpp"

namespace ration::adapters {
namespace {

using namespace ration::literals;

SnippetFacts facts() {
  SnippetFacts all;
  all.device = "ration.sh/limit=8GiB-gpu0";
  all.limit = {"--limit", "8GiB"};
  all.bytes = 8_GiB;
  all.context = 512_MiB;
  all.name = "train";
  all.command = {"/usr/bin/train", "two words"};
  return all;
}

TEST(Snippet, InstancesShareWhatTheirContextsLeave) {
  SnippetFacts shared = facts();
  for (const int instances : {1, 2, 3, 7}) {
    shared.instances = instances;
    const auto fraction = instance_fraction(shared);
    ASSERT_TRUE(fraction) << fraction.error().what;
    const double taken = instances * (*fraction * 8 + 0.5);
    EXPECT_LE(taken, 8.0) << instances;
    EXPECT_GT(taken, 8.0 - 0.01 * 8 * instances - 1e-9) << instances << ": no more than the rounding is given away";
  }
  shared.instances = 16;
  EXPECT_EQ(instance_fraction(shared).error().id, "E1708");
  shared.bytes = Bytes{0};
  EXPECT_EQ(instance_fraction(shared).error().id, "E1708");
}

TEST(Snippet, EveryKindIsFilledAndEndsWithItsCheck) {
  for (const SnippetKind& kind : snippet_kinds()) {
    SnippetFacts filled = facts();
    if (*kind.named == '\0') filled.name.clear();
    const auto text = snippet(kind.name, filled);
    ASSERT_TRUE(text) << kind.name << ": " << text.error().what;
    EXPECT_EQ(text->find('{'), std::string::npos) << *text;
    EXPECT_NE(text->find("# check: "), std::string::npos) << *text;
    EXPECT_TRUE(text->find("8GiB") != std::string::npos) << *text;
  }
}

TEST(Snippet, AServicesCommandIsQuoted) {
  EXPECT_NE(snippet("systemd", facts())->find("-- /usr/bin/train \"two words\"\n"), std::string::npos);
}

TEST(Snippet, ANameIsNoMoreThanAName) {
  SnippetFacts hostile = facts();
  for (const char* name : {"img: [a]\n  privileged: true", "a b;$(id)", "alice;rm -rf /", "x\n"}) {
    hostile.name = name;
    for (const char* kind : {"docker", "compose", "systemd", "systemd-user"})
      EXPECT_FALSE(snippet(kind, hostile)) << kind << name;
  }
  hostile.name = "../../etc/x";
  EXPECT_FALSE(snippet("systemd", hostile));
  hostile.name = "train.service";
  hostile.command = {"/bin/x", "100%", "$HOME", "x\\", "C:\\new", "a\nb", "say \"yes\"", "", ";"};
  EXPECT_NE(snippet("systemd", hostile)->find(R"(/bin/x 100%% $$HOME "x\\" "C:\\new" "a\x0ab" "say \"yes\"" "" ";")"),
            std::string::npos)
      << *snippet("systemd", hostile);
  hostile.name = "../root";
  EXPECT_FALSE(snippet("systemd-user", hostile));
}

TEST(Snippet, NoWordOfItBecomesAnotherLine) {
  SnippetFacts hostile = facts();
  const std::string word = "a\n\rExecStartPre=/bin/x\u2028\033[2J#SBATCH --x";
  hostile.command = {"/bin/x", word};
  hostile.limit = {"--limit", "8GiB", "--gpu", word};
  hostile.ration = "/opt/" + word + "/ration";
  for (const SnippetKind& kind : snippet_kinds()) {
    hostile.name = *kind.named == '\0' ? "" : "train";
    const auto text = snippet(kind.name, hostile);
    ASSERT_TRUE(text) << kind.name << ": " << text.error().what;
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_TRUE(is_printable(line)) << kind.name << ": " << line;
      EXPECT_FALSE(line.starts_with("ExecStartPre") || line.starts_with("#SBATCH --x")) << line;
    }
  }
}

TEST(Snippet, ANameIsNoOption) {
  SnippetFacts hostile = facts();
  hostile.name = "-v/:/host";
  for (const char* kind : {"docker", "compose", "kubernetes", "systemd", "systemd-user"})
    EXPECT_EQ(snippet(kind, hostile).error().id, "E1708") << kind;
}

TEST(Snippet, AnImageIsATextOfYamlWhateverItIsCalled) {
  SnippetFacts named = facts();
  named.name = "null";
  for (const char* kind : {"compose", "kubernetes"})
    EXPECT_NE(snippet(kind, named)->find("image: \"null\"\n"), std::string::npos) << kind;
}

TEST(Snippet, OptionsOfTheNodeGoToItsCommandsAndNotIntoTheProgramsWords) {
  SnippetFacts typed = facts();
  typed.options = {{"ps", {{"--sim", "T4:16GiB*2"}}}};
  typed.command = {"sh", "-c", "true; ration ps"};
  typed.name.clear();
  const auto text = snippet("slurm", typed);
  EXPECT_NE(text->find("-- sh -c 'true; ration ps'\n"), std::string::npos) << *text;
  EXPECT_NE(text->find(", ration ps --sim='T4:16GiB*2'"), std::string::npos) << *text;
}

TEST(Snippet, WhatIsMissingIsNamed) {
  SnippetFacts lacking = facts();
  lacking.command.clear();
  EXPECT_NE(snippet("systemd", lacking).error().what.find("--"), std::string::npos);
  lacking.name.clear();
  EXPECT_NE(snippet("docker", lacking).error().what.find("IMAGE"), std::string::npos);
  EXPECT_EQ(snippet("lxc", lacking).error().id, "E1708");
  SnippetFacts named = facts();
  named.name = "train";
  EXPECT_EQ(snippet("jupyterhub", named).error().what, "jupyterhub takes no name, but 'train' is given.");
}

}  // namespace
}  // namespace ration::adapters
