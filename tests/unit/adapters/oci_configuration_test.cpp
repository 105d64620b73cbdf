// What stands in a container's configuration after it was put under a limit, and what is no such configuration.
#include "adapters/containers/oci_configuration.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace ration::adapters {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

cdi::Edits edits() {
  return {"/opt/ration/shim",
          {{"/run/ration/for-containers", "/.ration"}, {"/run/sim", "/run/sim", true}},
          {{"RATION_SIM", "T4"}},
          "/usr/bin/ration",
          {"--socket", "/run/ration/ration.sock"},
          {{"PATH", "/bin"}}};
}

/// As `runc spec` begins one.
json configuration() {
  return {{"ociVersion", "1.0.2-dev"},
          {"process", {{"args", {"python"}}, {"env", {"A=1", "RATION_SIM=old"}}}},
          {"root", {{"path", "rootfs"}}},
          {"mounts", {{{"destination", "/proc"}, {"type", "proc"}, {"source", "proc"}}}},
          {"linux", {{"namespaces", {{{"type", "pid"}}, {{"type", "mount"}}}}}}};
}

const cdi::Device kFour{"limit", "4GiB-gpu0"}, kTwo{"limit", "2GiB-gpu0"};

TEST(OciConfiguration, ItGetsWhatTheDeviceHas) {
  const auto text = with_edits(configuration().dump(), kFour, edits());
  ASSERT_TRUE(text) << text.error().what;
  const json all = json::parse(*text);
  EXPECT_EQ(all["process"]["env"], (json{"A=1", "RATION_SIM=T4"}));
  ASSERT_EQ(all["mounts"].size(), 3U);
  EXPECT_EQ(all["mounts"][1], (json{{"destination", "/.ration"},
                                    {"type", "bind"},
                                    {"source", "/run/ration/for-containers"},
                                    {"options", {"ro", "nosuid", "nodev", "rbind", "rprivate"}}}));
  EXPECT_EQ(all["mounts"][2]["options"][0], "rw");
  // The same hook as the specification of the device.
  const json device = json::parse(cdi::specification(kFour.kind, {kFour.name}, edits()))["devices"][0];
  for (json hook : device["containerEdits"]["hooks"]) {
    const std::string when = hook["hookName"];
    hook.erase("hookName");
    EXPECT_EQ(all["hooks"][when], json::array({hook})) << when;
  }
}

TEST(OciConfiguration, ASecondTimeChangesNothingAndAnotherLimitReplacesTheFirst) {
  json own = configuration();
  own["hooks"] = {{"createRuntime", {{{"path", "/bin/other"}, {"args", {"other", "x"}}}}},
                  {"prestart", {{{"path", "/bin/p"}}}}};
  own["mounts"].push_back({{"destination", "//.ration/"}, {"source", "/elsewhere"}});
  const std::string once = *with_edits(own.dump(), kFour, edits());
  EXPECT_EQ(*with_edits(once, kFour, edits()), once);
  const std::string other = *with_edits(once, kTwo, edits());
  EXPECT_EQ(other.find("4GiB"), std::string::npos) << other;
  EXPECT_EQ(other, *with_edits(own.dump(), kTwo, edits()));
  const json all = json::parse(other);
  EXPECT_EQ(all["mounts"].size(), 3U) << "a mount at the same place is replaced";
  EXPECT_EQ(all["hooks"]["createRuntime"].size(), 2U) << "hooks of others stay";
  EXPECT_EQ(all["hooks"]["createRuntime"][0]["path"], "/bin/other");
  EXPECT_EQ(all["hooks"]["prestart"], own["hooks"]["prestart"]);
}

TEST(OciConfiguration, TheHookForTheEndThatEarlierVersionsWroteIsTakenOut) {
  json own = configuration();
  const json other{{"path", "/bin/other"}, {"args", {"other", "stop"}}};
  own["hooks"]["poststop"] = {{{"path", "/usr/bin/ration"}, {"args", {"ration", "container-hook", "stop", "limit=x"}}},
                              other};
  const json all = json::parse(*with_edits(own.dump(), kFour, edits()));
  EXPECT_EQ(all["hooks"]["poststop"], json::array({other})) << "hooks of others stay";
}

TEST(OciConfiguration, WhatElseStandsInItStaysAsItWas) {
  const std::string text = *with_edits(
      R"({"z":1,"ociVersion":"1.2.0","root":{"path":"r","readonly":true},"process":{"x":18446744073709551615},)"
      R"("linux":{"b":[],"namespaces":[{"type":"mount"}],"a":null}})",
      kFour, edits());
  const ordered_json all = ordered_json::parse(text);
  std::vector<std::string> keys;
  for (const auto& [key, value] : all.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"z", "ociVersion", "root", "process", "linux", "mounts", "hooks"}));
  EXPECT_EQ(all["process"]["x"], 18446744073709551615U);
  EXPECT_EQ(all["linux"].dump(), R"({"b":[],"namespaces":[{"type":"mount"}],"a":null})");
}

TEST(OciConfiguration, WhatIsNoneIsRejectedInOneLine) {
  json shared = configuration(), joined = configuration(), list = configuration(), hooked = configuration();
  shared["linux"]["namespaces"].erase(1);
  joined["linux"]["namespaces"][1]["path"] = "/proc/1/ns/mnt";
  list["mounts"] = 7;
  hooked["hooks"] = {{"poststop", 7}};
  const std::pair<std::string, const char*> wrong[] = {{"", "JSON"},
                                                       {"services:\n", "JSON"},
                                                       {"[]", "ociVersion"},
                                                       {"{}", "ociVersion"},
                                                       {R"({"ociVersion":"1.0.2"})", "root.path"},
                                                       {R"({"ociVersion":"1","root":{"path":"r"}})", "process"},
                                                       {shared.dump(), "mount namespace of its own"},
                                                       {joined.dump(), "mount namespace of its own"},
                                                       {list.dump(), "mounts is not"},
                                                       {hooked.dump(), "hooks"}};
  for (const auto& [text, why] : wrong) {
    const auto done = with_edits(text, kFour, edits());
    ASSERT_FALSE(done) << text;
    EXPECT_EQ(done.error().id, "E1710");
    EXPECT_NE(done.error().what.find(why), std::string::npos) << done.error().what;
    EXPECT_EQ(done.error().what.find('\n'), std::string::npos);
  }
}

TEST(OciConfiguration, OtherTypesNeverThrow) {
  const json odd[] = {nullptr, 7, "text", json::array({1, nullptr, json::object(), {{"args", {1, 2}}}}),
                      json::object({{"path", 7}})};
  std::mt19937 random(5);
  for (int round = 0; round < 2'000; ++round) {
    json all = configuration();
    for (const char* key : {"process", "root", "mounts", "linux", "hooks", "ociVersion"})
      if (random() % 3 == 0) all[key] = odd[random() % 5];
    if (random() % 3 == 0) all["hooks"] = {{"poststop", odd[random() % 5]}};
    const auto done = with_edits(all.dump(), kFour, edits());
    EXPECT_EQ(done ? "E1710" : done.error().id, "E1710");
  }
}

TEST(OciConfiguration, WhatIsNestedWithoutEndIsRejected) {
  for (const char open : {'[', '{'}) {
    std::string text;
    for (int depth = 0; depth < 1'000'000; ++depth) text += open == '[' ? "[" : "{\"a\":";
    const auto rejected = with_edits(text, kFour, edits());
    ASSERT_FALSE(rejected);
    EXPECT_NE(rejected.error().what.find("nested"), std::string::npos) << rejected.error().what;
  }
}

}  // namespace
}  // namespace ration::adapters
