// Specifications of devices: what stands in them, and that they are there whole or not at all.
#include "adapters/containers/cdi.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "../temporary.hpp"

namespace ration::adapters::cdi {
namespace {

using nlohmann::json;

Edits edits() {
  return {"/opt/ration/shim",
          {{"/opt/ration/shim", "/opt/ration/shim"}, {"/run/sim", "/run/sim", true}},
          {{"RATION_SIM", "T4"}},
          "/usr/bin/ration",
          {"--socket", "/run/ration/ration.sock"},
          {{"PATH", "/bin"}}};
}

TEST(Cdi, ASpecificationNamesEachDeviceWithItsHook) {
  const json document = json::parse(specification("tenant", {"nlp", "vision"}, edits()));
  EXPECT_EQ(document["cdiVersion"], "0.5.0");
  EXPECT_EQ(document["kind"], "ration.sh/tenant");
  ASSERT_EQ(document["devices"].size(), 2U);
  const json& hooks = document["devices"][1]["containerEdits"]["hooks"];
  EXPECT_EQ(
      hooks[0],
      (json{{"hookName", "createRuntime"},
            {"path", "/usr/bin/ration"},
            {"args", {"ration", "container-hook", "--socket", "/run/ration/ration.sock", "start", "tenant=vision"}},
            {"env", {"PATH=/bin"}}}));
  EXPECT_EQ(hooks.size(), 1U) << "each costs a container's start 5 to 10 ms";
}

TEST(Cdi, OnlyWhatIsSharedIsWritable) {
  const json document = json::parse(specification("tenant", {"nlp"}, edits()));
  const json& mounts = document["containerEdits"]["mounts"];
  EXPECT_EQ(mounts[0]["options"][0], "ro");
  EXPECT_EQ(mounts[1]["options"][0], "rw");
  for (const json& mount : mounts)
    for (const char* option : {"nosuid", "nodev"})
      EXPECT_NE(std::find(mount["options"].begin(), mount["options"].end(), option), mount["options"].end());
}

TEST(Cdi, ANameThatEnginesRejectIsLeftOut) {
  for (const char* good : {"0.2", "nlp", "4GiB-gpu0", "a_b:c"}) EXPECT_TRUE(is_device_name(good)) << good;
  for (const char* bad : {"", "-a", "a-", "a b", "a/b", "a=b", "\xc3\xa4", "a,b"})
    EXPECT_FALSE(is_device_name(bad)) << bad;
  EXPECT_EQ(json::parse(specification("tenant", {"a b", "nlp"}, edits()))["devices"].size(), 1U);
}

TEST(Cdi, AFileIsReplacedWholeAndRemoved) {
  const TemporaryFolder folder;
  const std::string place = folder.file("cdi");
  ASSERT_TRUE(write(place, "tenant", "one"));
  ASSERT_TRUE(write(place, "tenant", "two"));
  EXPECT_EQ(folder.content("cdi/ration-tenant.json"), "two");
  struct stat status {};
  ASSERT_EQ(::stat((place + "/ration-tenant.json").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0644U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(place), {}), 1) << "nothing is left beside it";
  remove(place, "tenant");
  remove(place, "tenant");
  EXPECT_TRUE(std::filesystem::is_empty(place));
}

TEST(Cdi, AFolderThatCannotBeWrittenIsAnError) {
  const auto written = write("/proc/none", "tenant", "one");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().id, "E1704");
}

TEST(Cdi, ALinkInItsPlaceIsNotFollowed) {
  const TemporaryFolder folder;
  folder.write("victim", "kept");
  std::filesystem::create_directory(folder.file("cdi"));
  std::filesystem::create_symlink(folder.file("victim"), folder.file("cdi/ration-tenant.json.new"));
  EXPECT_FALSE(write(folder.file("cdi"), "tenant", "one"));
  EXPECT_EQ(folder.content("victim"), "kept");
}

TEST(Cdi, ThoseUsedLastAreKept) {
  const TemporaryFolder folder;
  for (const char* name : {"limit-1GiB-gpu0", "limit-2GiB-gpu0", "limit-3GiB-gpu0", "tenant"})
    ASSERT_TRUE(write(folder.path(), name, "{}"));
  const auto set_age = [&](const char* name, int seconds) {
    std::filesystem::last_write_time(folder.file(name),
                                     std::filesystem::file_time_type::clock::now() - std::chrono::seconds(seconds));
  };
  set_age("ration-limit-1GiB-gpu0.json", 300);
  set_age("ration-limit-2GiB-gpu0.json", 200);
  set_age("ration-limit-3GiB-gpu0.json", 100);
  set_age("ration-tenant.json", 400);
  note_use(folder.path(), "limit-1GiB-gpu0");
  note_use(folder.path(), "limit-9GiB-gpu0");
  remove_oldest(folder.path(), "limit-", 2);
  std::set<std::string> left;
  for (const auto& each : std::filesystem::directory_iterator(folder.path())) left.insert(each.path().filename());
  EXPECT_EQ(left, (std::set<std::string>{"ration-limit-1GiB-gpu0.json", "ration-limit-3GiB-gpu0.json",
                                         "ration-tenant.json"}));
}

TEST(Cdi, ADeviceIsSpecifiedOnce) {
  const TemporaryFolder folder;
  folder.write("a.json", "not JSON");
  folder.write("b.json", "[7]");
  folder.write("c.json", R"({"kind":"ration.sh/limit","devices":[7,{"name":"other"}]})");
  folder.write("ration-limit-x.json", R"({"kind":"ration.sh/limit","devices":[{"name":"x"}]})");
  EXPECT_TRUE(check_unique({folder.path(), "/nowhere"}, "limit-x", {"limit", "x"})) << "its own file";
  folder.write("d.json", R"({"kind":"ration.sh/limit","devices":[{"name":"x"}]})");
  const auto unique = check_unique({folder.path()}, "limit-x", {"limit", "x"});
  ASSERT_FALSE(unique);
  EXPECT_EQ(unique.error().id, "E1705");
  EXPECT_NE(unique.error().what.find("d.json"), std::string::npos);
}

}  // namespace
}  // namespace ration::adapters::cdi
