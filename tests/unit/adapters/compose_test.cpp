// The file that is added to a user's compose files, and where `docker compose` is told of it.
#include "adapters/containers/compose.hpp"

#include <gtest/gtest.h>

namespace ration::adapters {
namespace {

using Words = std::vector<std::string>;

TEST(Compose, EachServiceGetsTheDeviceAndNothingElse) {
  EXPECT_EQ(*compose_override({"train", "on"}, "ration.sh/tenant=nlp"),
            "services:\n"
            "  \"train\":\n    devices:\n      - ration.sh/tenant=nlp\n"
            "  \"on\":\n    devices:\n      - ration.sh/tenant=nlp\n");
}

TEST(Compose, ANameIsNoMoreThanAName) {
  for (const char* name : {"", "a b", "x\":\n    privileged: true\n  \"y", "a/b", "\xc3\xa4"})
    EXPECT_EQ(compose_override({"train", name}, "d").error().id, "E1711") << name;
  EXPECT_EQ(compose_override({}, "d").error().id, "E1711");
}

TEST(Compose, ItsOwnOptionsEndAtTheCommand) {
  const auto read = read_compose_words({"-p", "up", "--file=a.yaml", "--compatibility", "-f", "b.yaml", "logs", "-f"});
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(read->options, (Words{"-p", "up", "--file=a.yaml", "--compatibility", "-f", "b.yaml"}));
  EXPECT_EQ(read->command, (Words{"logs", "-f"}));
  EXPECT_EQ(read_compose_words({"-fa.yaml", "up"})->command, (Words{"up"}));
}

TEST(Compose, AFileAndACommandAreNeeded) {
  for (const Words& words : {Words{}, Words{"up"}, Words{"logs", "-f", "x"}, Words{"-f", "a.yaml"}, Words{"-f"},
                             Words{"--project-directory", "-f", "up"}})
    EXPECT_EQ(read_compose_words(words).error().id, "E1711") << words.size();
}

}  // namespace
}  // namespace ration::adapters
