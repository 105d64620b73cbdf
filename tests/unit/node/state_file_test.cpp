// A file of the daemon's state, whatever lies at its path.
#include "node/state/state_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "../temporary.hpp"

namespace ration::node {
namespace {

using nlohmann::json;

class StateFileTest : public ::testing::Test {
 protected:
  /// What a daemon that starts now finds; null: nothing. What it would tell is in `damage_`.
  json found() {
    StateFile file(path_);
    json content;
    file.read("All has to be said again.", [&](const json& document) {
      if (!document.is_object()) throw std::invalid_argument("it is not an object");
      content = document;
    });
    damage_ = file.damage();
    return content;
  }
  [[nodiscard]] ino_t number() const {
    struct stat status {};
    return ::stat(path_.c_str(), &status) == 0 ? status.st_ino : 0;
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.file("state/file.json"), damage_;
};

TEST_F(StateFileTest, WhatIsWrittenIsFoundByTheNextDaemon) {
  std::filesystem::create_directory(folder_.file("state"));
  EXPECT_EQ(found(), json());
  StateFile file(path_);
  ASSERT_TRUE(file.write({{"last", 1}}));
  ASSERT_TRUE(file.write({{"last", 2}}));
  EXPECT_EQ(found(), (json{{"last", 2}}));
  EXPECT_EQ(damage_, "");
}

TEST_F(StateFileTest, TheSameIsWrittenOnce) {
  std::filesystem::create_directory(folder_.file("state"));
  StateFile file(path_);
  ASSERT_TRUE(file.write({{"last", 1}}));
  const ino_t first = number();
  std::filesystem::create_hard_link(path_, folder_.file("kept"));  // so that its number is not used again
  ASSERT_TRUE(file.write({{"last", 1}}));
  EXPECT_EQ(number(), first) << "each writing makes a new file";
  ASSERT_TRUE(file.write({{"last", 2}}));
  EXPECT_NE(number(), first);
}

TEST_F(StateFileTest, WhatCouldNotBeWrittenIsWrittenLater) {
  StateFile file(path_);
  const auto written = file.write({{"last", 1}});
  ASSERT_FALSE(written) << "there is no such folder";
  EXPECT_EQ(written.error().id, "E1531");
  std::filesystem::create_directory(folder_.file("state"));
  ASSERT_TRUE(file.write({{"last", 1}}));
  EXPECT_EQ(found(), (json{{"last", 1}}));
}

TEST_F(StateFileTest, WithoutAPathNothingIsKept) {
  StateFile file("");
  EXPECT_TRUE(file.write({{"last", 1}}));
  file.read("", [](const json&) { FAIL() << "nothing is there"; });
  EXPECT_EQ(file.damage(), "");
}

TEST_F(StateFileTest, WhatIsDamagedIsKeptAndToldOf) {
  for (const char* content : {"", "{\"last\": ", "[1]", "\xff"}) {
    folder_.write("state/file.json", content);
    EXPECT_EQ(found(), json()) << content;
    EXPECT_EQ(damage_.rfind(path_ + " is damaged (", 0), 0U) << damage_;
    EXPECT_NE(damage_.find("): All has to be said again. It was kept as " + path_ + ".damaged-"), std::string::npos)
        << damage_;
    EXPECT_FALSE(std::filesystem::exists(path_)) << content;
    EXPECT_EQ(found(), json());
    EXPECT_EQ(damage_, "") << "it is told once";
  }
}

TEST_F(StateFileTest, BracketsTakeNoMoreMemoryThanTheyAre) {
  constexpr std::size_t kSize = std::size_t{1} << 20U;
  folder_.write("state/file.json", std::string(kSize, '[') + std::string(kSize, ']'));
  EXPECT_EQ(found(), json());
  EXPECT_NE(damage_.find("it is nested too deeply"), std::string::npos) << damage_;
}

TEST_F(StateFileTest, WhateverLiesThereDoesNotHoldUpTheStart) {
  std::filesystem::create_directory(folder_.file("state"));
  const auto refused = [&](const char* why) {
    EXPECT_EQ(found(), json());
    EXPECT_NE(damage_.find(why), std::string::npos) << damage_;
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(path_))) << why;
  };
  std::filesystem::create_directory(path_);
  refused("it is a folder");
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  refused("it is a pipe");
  std::filesystem::create_symlink(folder_.write("elsewhere", "{}"), path_);
  refused("it is a link");
  EXPECT_EQ(folder_.content("elsewhere"), "{}");
}

}  // namespace
}  // namespace ration::node
