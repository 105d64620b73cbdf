// Folders that nobody but this user can change.
#include "base/own_folder.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../temporary.hpp"

namespace ration {
namespace {

mode_t mode_of(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
}

/// A name below /tmp that no other test takes; what is made of it is removed.
class OwnFolderInTmp : public ::testing::Test {
 protected:
  void SetUp() override {
    prefix_ = std::filesystem::path(folder_.path()).filename();
    plain_ = "/tmp/" + prefix_ + "-" + std::to_string(::getuid());
  }
  void TearDown() override {
    for (const auto& each : std::filesystem::directory_iterator("/tmp"))
      if (each.path().string().rfind(plain_, 0) == 0) std::filesystem::remove_all(each.path());
  }
  TemporaryFolder folder_;
  std::string prefix_, plain_;
};

TEST(OwnFolder, HasItsModeWhateverTheMaskIs) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(0077);
  EXPECT_EQ(make_own_folder(folder.file("a"), 0755), "");
  ::umask(before);
  EXPECT_EQ(mode_of(folder.file("a")), 0755U);
  ASSERT_EQ(::chmod(folder.file("a").c_str(), 0700), 0);
  EXPECT_EQ(make_own_folder(folder.file("a"), 0755), "");
  EXPECT_EQ(mode_of(folder.file("a")), 0700U) << "one that was there is left as it is";
}

TEST(OwnFolder, NeitherALinkNorAFileNorSomebodyElsesFolderIsUsed) {
  const TemporaryFolder folder;
  folder.write("file", "");
  ASSERT_EQ(::mkdir(folder.file("target").c_str(), 0700), 0);
  ASSERT_EQ(::symlink(folder.file("target").c_str(), folder.file("link").c_str()), 0);
  EXPECT_EQ(make_own_folder(folder.file("link"), 0700), "is a symbolic link");
  EXPECT_EQ(make_own_folder(folder.file("file"), 0700), "is not a folder");
  EXPECT_EQ(make_own_folder(folder.file("no/where"), 0700), "cannot be made: No such file or directory");
  EXPECT_EQ(make_own_folder("/sys/ration", 0700).rfind("cannot be made: ", 0), 0U);
  EXPECT_EQ(make_own_folder("/sys/ration", 0700).find("No such file"), std::string::npos)
      << "that it is missing is no reason why it cannot be made";
  if (::getuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  ASSERT_EQ(::chown(folder.file("target").c_str(), 12345, 12345), 0);
  EXPECT_EQ(make_own_folder(folder.file("target"), 0700), "belongs to uid 12345");
}

TEST_F(OwnFolderInTmp, IsFoundAgainByTheNextProcess) {
  EXPECT_EQ(own_folder_in_tmp(prefix_), plain_);
  EXPECT_EQ(own_folder_in_tmp(prefix_), plain_);
  EXPECT_EQ(mode_of(plain_), 0700U);
}

TEST_F(OwnFolderInTmp, WhereOthersCanWriteAnotherIsMadeAndFoundAgain) {
  ASSERT_EQ(::mkdir(plain_.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(plain_.c_str(), 0777), 0);
  const std::string found = own_folder_in_tmp(prefix_);
  EXPECT_EQ(found.rfind(plain_ + ".", 0), 0U) << found;
  EXPECT_EQ(mode_of(found), 0700U);
  EXPECT_EQ(own_folder_in_tmp(prefix_), found);
}

TEST_F(OwnFolderInTmp, WhereAFileStandsAnotherIsMade) {
  std::ofstream{plain_} << "taken";
  EXPECT_EQ(own_folder_in_tmp(prefix_).rfind(plain_ + ".", 0), 0U);
}

TEST(OwnFolder, ARuntimeFolderOfSomebodyElseIsNotThisUsers) {
  const TemporaryFolder folder;
  {
    const TemporaryVariable given("XDG_RUNTIME_DIR", folder.path().c_str());
    EXPECT_EQ(own_runtime_folder(), folder.path());
  }
  {
    const TemporaryVariable none("XDG_RUNTIME_DIR", nullptr);
    EXPECT_EQ(own_runtime_folder(), "");
  }
  if (::getuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  ASSERT_EQ(::chown(folder.path().c_str(), 12345, 12345), 0);
  const TemporaryVariable given("XDG_RUNTIME_DIR", folder.path().c_str());
  EXPECT_EQ(own_runtime_folder(), "");
}

TEST(OwnFolder, APathIsOneHoweverItIsSpelled) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("sub"));
  std::filesystem::create_symlink(folder.path(), folder.file("link"));
  const std::string real = real_path(folder.path());
  for (const char* tail : {"/", "//", "/.", "/sub/..", "/sub/../", "/link", "/link/link/"})
    EXPECT_EQ(real_path(folder.path() + tail), real) << tail;
  EXPECT_EQ(real_path(folder.path() + "/link/sub/../new/one/"), real + "/new/one") << "also where nothing is there";
  EXPECT_EQ(real_path("/"), "/");
  const std::string relative = std::filesystem::relative(folder.path());
  EXPECT_EQ(real_path(relative), real) << relative;
}

TEST(OwnFolder, ASimulatedNodeIsOneHoweverItsFolderIsSpelled) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("nodes"));
  std::filesystem::create_symlink(folder.file("nodes"), folder.file("link"));
  const auto node_in = [](const std::string& spelled, const std::string& description) {
    const TemporaryVariable given("RATION_SIM_DIR", spelled.c_str());
    return simulated_node_folder(description).path;
  };
  const std::string path = node_in(folder.file("nodes"), "T4"),
                    of_file = node_in(folder.file("nodes"), folder.file("node.toml"));
  for (const std::string& spelled : {folder.file("nodes/"), folder.file("nodes/../nodes"), folder.file("link"),
                                     std::filesystem::relative(folder.file("nodes")).string()}) {
    EXPECT_EQ(node_in(spelled, "T4"), path) << spelled;
    EXPECT_EQ(node_in(spelled, folder.file("link/../node.toml")), of_file) << spelled;
  }
}

TEST(OwnFolder, OneDescriptionIsOneSimulatedNode) {
  const TemporaryFolder folder;
  const TemporaryVariable given("RATION_SIM_DIR", folder.path().c_str());
  const SimulatedNodeFolder first = simulated_node_folder("T4*2"), again = simulated_node_folder("T4*2");
  EXPECT_EQ(first.problem, "");
  EXPECT_EQ(first.path, again.path);
  EXPECT_NE(first.path, simulated_node_folder("T4*3").path);
  EXPECT_EQ(std::filesystem::path(first.path).parent_path(), simulated_nodes_folder());
  std::filesystem::create_symlink("/etc/passwd", first.path + "/state.1");
  EXPECT_EQ(simulated_node_folder("T4*2").problem, "state.1 is not a plain file");
}

}  // namespace
}  // namespace ration
