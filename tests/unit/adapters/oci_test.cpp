// What a runtime tells of a container, with what each engine adds in files of its own.
#include "adapters/containers/oci.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <random>

#include "../temporary.hpp"

namespace ration::adapters {
namespace {

using nlohmann::json;

constexpr const char* kId = "5a9ea019a7d1401e2403eccef5ba4ec5055d47924a8d0b68d3063c47d4fd89d0";

class OciTest : public testing::Test {
 protected:
  /// The bundle lies at `bundle` of the test's folder.
  Result<Container> read(json configured, const std::string& bundle = "bundle") {
    folder_.write(bundle + "/config.json", configured.dump());
    return read_container(json{{"id", kId}, {"pid", 4711}, {"bundle", folder_.file(bundle)}}.dump());
  }
  json configured_{{"root", {{"path", "rootfs"}}},
                   {"process", {{"args", {"python", "x.py"}}, {"cwd", "/app"}, {"env", {"A=1", "PATH=/opt/bin"}}}}};
  TemporaryFolder folder_;
};

TEST_F(OciTest, ABareRuntimeTellsTheProcessAndTheRoot) {
  const auto container = read(configured_);
  ASSERT_TRUE(container) << container.error().what;
  EXPECT_EQ(container->pid, 4711);
  EXPECT_EQ(container->root, folder_.file("bundle/rootfs"));
  EXPECT_EQ(container->program, (std::vector<std::string>{"python", "x.py"}));
  EXPECT_EQ(container->working_folder, "/app");
  EXPECT_EQ(container->path, "/opt/bin");
  EXPECT_EQ(container->engine, "container");
  EXPECT_EQ(container->name, "5a9ea019a7d1");
  EXPECT_EQ(container->image, "");
}

TEST_F(OciTest, WhatIsNoConfigurationIsNeitherWaitedForNorReadWithoutAnEnd) {
  const std::string state = json{{"id", kId}, {"pid", 4711}, {"bundle", folder_.file("bundle")}}.dump();
  const std::string file = folder_.file("bundle/config.json");
  const auto why = [&] {
    const auto container = read_container(state);
    std::filesystem::remove_all(file);
    return container ? std::string("taken") : container.error().id + " " + container.error().what;
  };
  folder_.write("bundle/x", "");
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_NE(why().find("E1701 "), std::string::npos);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_NE(why().find(file + " cannot be read: it is a pipe."), std::string::npos);
  std::filesystem::create_symlink("/dev/zero", file);
  EXPECT_NE(why().find("it is a device."), std::string::npos);
  folder_.write("bundle/config.json", "");
  std::filesystem::resize_file(file, std::uintmax_t{1} << 40);
  EXPECT_NE(why().find("it is larger than 16.0 MiB"), std::string::npos);
  folder_.write("bundle/config.json", std::string(8 << 20, '['));
  EXPECT_NE(why().find("is not the configuration of a container"), std::string::npos) << "a tree of 75 times its size";
}

TEST_F(OciTest, WhatAnEngineKeepsBesideItIsNotWaitedForEither) {
  configured_["annotations"] = {{"io.container.manager", "libpod"}};
  folder_.write("overlay-containers/x", "");
  ASSERT_EQ(::mkfifo(folder_.file("overlay-containers/containers.json").c_str(), 0600), 0);
  const auto container = read(configured_, std::string("overlay-containers/") + kId + "/userdata");
  ASSERT_TRUE(container);
  EXPECT_EQ(container->name, "5a9ea019a7d1");
}

TEST_F(OciTest, APathOfTheRootThatIsAbsoluteIsTakenAsItIs) {
  configured_["root"]["path"] = "/var/lib/x/merged";
  EXPECT_FALSE(read(configured_)->read_only_root);
  configured_["root"]["readonly"] = true;
  EXPECT_TRUE(read(configured_)->read_only_root);
  EXPECT_EQ(read(configured_)->root, "/var/lib/x/merged");
}

TEST_F(OciTest, PodmansListHasNameAndImage) {
  configured_["annotations"] = {{"io.container.manager", "libpod"}};
  folder_.write(
      "overlay-containers/containers.json",
      json::array({{{"id", "other"}, {"names", {"not-this"}}},
                   {{"id", kId}, {"names", {"web"}}, {"metadata", json{{"image-name", "localhost/nlp:2"}}.dump()}}})
          .dump());
  const auto container = read(configured_, std::string("overlay-containers/") + kId + "/userdata");
  ASSERT_TRUE(container);
  EXPECT_EQ(container->engine, "podman");
  EXPECT_EQ(container->name, "web");
  EXPECT_EQ(container->image, "localhost/nlp:2");
}

TEST_F(OciTest, DockersFileBesideTheHostnameHasNameAndImage) {
  const std::string known = std::string("docker/containers/") + kId;
  folder_.write(known + "/config.v2.json", json{{"Name", "/web"}, {"Config", {{"Image", "nlp:2"}}}}.dump());
  configured_["mounts"] =
      json::array({{{"destination", "/proc"}, {"source", "proc"}},
                   {{"destination", "/etc/hostname"}, {"source", folder_.file(known + "/hostname")}}});
  const auto container = read(configured_);
  ASSERT_TRUE(container);
  EXPECT_EQ(container->engine, "docker");
  EXPECT_EQ(container->name, "web");
  EXPECT_EQ(container->image, "nlp:2");
}

TEST_F(OciTest, AnotherContainersHostnameTellsNothing) {
  folder_.write("docker/containers/other/config.v2.json", json{{"Name", "/web"}}.dump());
  configured_["mounts"] =
      json::array({{{"destination", "/etc/hostname"}, {"source", folder_.file("docker/containers/other/hostname")}}});
  EXPECT_EQ(read(configured_)->engine, "container");
}

TEST_F(OciTest, KubernetesNamesNamespacePodAndContainer) {
  configured_["annotations"] = {{"io.kubernetes.cri.sandbox-name", "train-0"},
                                {"io.kubernetes.cri.sandbox-namespace", "research"},
                                {"io.kubernetes.cri.container-name", "main"},
                                {"io.kubernetes.cri.image-name", "registry/nlp:2"}};
  const auto container = read(configured_);
  EXPECT_EQ(container->engine, "kubernetes");
  EXPECT_EQ(container->name, "research/train-0/main");
  EXPECT_EQ(container->image, "registry/nlp:2");
}

TEST_F(OciTest, OnceItHasEndedThereIsNoProcess) {
  folder_.write("bundle/config.json", configured_.dump());
  const auto container = read_container(json{{"id", kId}, {"bundle", folder_.file("bundle")}}.dump());
  ASSERT_TRUE(container);
  EXPECT_EQ(container->pid, 0);
}

TEST_F(OciTest, WhatIsNoStateIsAnError) {
  for (const std::string& state : {std::string(), std::string("{"), std::string("[]"), std::string("7"),
                                   std::string("{}"), json{{"id", kId}}.dump(), json{{"id", 7}, {"bundle", "/"}}.dump(),
                                   json{{"id", kId}, {"bundle", "/nowhere"}}.dump()}) {
    const auto container = read_container(state);
    ASSERT_FALSE(container) << state;
    EXPECT_EQ(container.error().id, "E1701");
  }
}

TEST_F(OciTest, AConfigurationOfOtherTypesNeverThrows) {
  const json odd[] = {nullptr, 7, "text", json::array({1, nullptr, json::object()}), json{{"path", 7}, {"args", "x"}}};
  std::mt19937 random(3);
  for (int round = 0; round < 2'000; ++round) {
    json configured{{"root", {{"path", "rootfs"}}}};
    for (const char* key : {"process", "annotations", "mounts"}) configured[key] = odd[random() % 5];
    if (random() % 2 == 0) configured["process"] = {{"args", odd[random() % 5]}, {"env", odd[random() % 5]}};
    EXPECT_TRUE(read(configured));
  }
}

}  // namespace
}  // namespace ration::adapters
