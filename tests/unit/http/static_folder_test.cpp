// A folder of files as pages: http/static_folder.hpp.
#include "http/static_folder.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ration::http {
namespace {

namespace fs = std::filesystem;

class StaticFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(site_ / "scenarios");
    write("secret.html", "nobody's");
    write("site/index.html", "<p>first</p>");
    write("site/scenarios/ray.html", "Ray");
    write("site/search.js", "var x");
    fs::create_symlink("../secret.html", site_ / "link.html");
    fs::create_directory_symlink("..", site_ / "up");
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(root_ / name) << text; }

  const fs::path root_ = fs::temp_directory_path() / ("static-folder-" + std::to_string(::getpid()));
  const fs::path site_ = root_ / "site";
};

TEST_F(StaticFolderTest, HasItsFilesWithTheirTypes) {
  const StaticFolder folder(site_.string());
  EXPECT_EQ(folder.serve("index.html", {}).body, "<p>first</p>");
  EXPECT_EQ(folder.serve("index.html", {}).content_type, "text/html; charset=utf-8");
  EXPECT_EQ(folder.serve("scenarios/ray.html", {}).body, "Ray");
  EXPECT_EQ(folder.serve("search.js", {}).content_type, "text/javascript; charset=utf-8");
}

TEST_F(StaticFolderTest, NothingOutsideOfItIsServed) {
  const StaticFolder folder(site_.string());
  for (const char* path : {"../secret.html", "link.html", "up/secret.html", "scenarios/../../secret.html",
                           "/index.html", "./index.html", "", "scenarios", "scenarios/", "up"})
    EXPECT_EQ(folder.serve(path, {}).status, 404) << path;
  EXPECT_EQ(folder.serve((root_ / "secret.html").string(), {}).status, 404);
}

TEST_F(StaticFolderTest, WhoHasThePageGetsItNotAgain) {
  const StaticFolder folder(site_.string());
  Request again;
  for (const auto& [name, value] : folder.serve("index.html", {}).headers)
    if (name == "ETag") again.headers.add("if-none-match", value);
  EXPECT_EQ(folder.serve("index.html", again).status, 304);
  write("site/index.html", "<p>changed</p>");
  EXPECT_EQ(folder.serve("index.html", again).status, 200);
}

TEST_F(StaticFolderTest, AFolderThatIsNotThereHasNoFilesAndAFileThatWentIsAnError) {
  EXPECT_TRUE(StaticFolder((root_ / "none").string()).empty());
  EXPECT_EQ(StaticFolder((root_ / "none").string()).serve("index.html", {}).status, 404);
  const StaticFolder folder(site_.string());
  fs::remove(site_ / "index.html");
  EXPECT_EQ(folder.serve("index.html", {}).status, 500);
}

}  // namespace
}  // namespace ration::http
