// Where a process came from, as the cgroups of the engines and schedulers in use name it.
#include "machine/process_origin.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "../temporary.hpp"
#include "base/file.hpp"

namespace ration::machine {
namespace {

const std::string kId = "4f2a91c03b77d1e5a8c60f1b2e3d4c5a69788796a5b4c3d2e1f00112233aabbc";

std::string container(const std::string& cgroup) { return origin_of_cgroup(cgroup).container; }
std::string how(const std::string& cgroup) { return origin_of_cgroup(cgroup).how; }

TEST(ProcessOrigin, WhatCanBeOpenedAndNotReadIsEmpty) {  // as a file in /proc of a process that has just ended
  EXPECT_EQ(content_of("/proc"), "");
}

TEST(ProcessOrigin, AContainerIsNamedByItsEngineAndTheBeginningOfItsId) {
  EXPECT_EQ(container("/system.slice/docker-" + kId + ".scope"), "docker:4f2a91c03b77");
  EXPECT_EQ(container("/docker/" + kId), "docker:4f2a91c03b77");
  EXPECT_EQ(container("/machine.slice/libpod-" + kId + ".scope"), "libpod:4f2a91c03b77");
  EXPECT_EQ(container("/machine.slice/libpod-" + kId + ".scope/container"), "libpod:4f2a91c03b77");
  EXPECT_EQ(container("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + kId + ".scope"),
            "libpod:4f2a91c03b77");
  EXPECT_EQ(container("/libpod_parent/libpod-" + kId), "libpod:4f2a91c03b77") << "Podman without systemd";
}

TEST(ProcessOrigin, TheContainersOfAPodAreNamed) {
  const std::string pod = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod2c48913c_b29f_11e7.slice";
  EXPECT_EQ(container(pod + "/cri-containerd-" + kId + ".scope"), "cri-containerd:4f2a91c03b77");
  EXPECT_EQ(container(pod + "/crio-" + kId + ".scope"), "crio:4f2a91c03b77");
  EXPECT_EQ(container("/system.slice/containerd.service" + pod + ":cri-containerd:" + kId),
            "cri-containerd:4f2a91c03b77");
  EXPECT_EQ(container("/kubepods/besteffort/pod2c48913c-b29f-11e7-9350-020968147796/" + kId),
            "pod2c48913c-b29f-11e7-9350-020968147796:4f2a91c03b77");
}

TEST(ProcessOrigin, AJobOfSlurmIsNoContainer) {
  EXPECT_EQ(container("/slurm/uid_1000/job_42/step_0/task_0"), "");
  EXPECT_EQ(how("/slurm/uid_1000/job_42/step_0/task_0"), "");
  EXPECT_EQ(container("/system.slice/slurmstepd.scope/job_42/step_0/user/task_0"), "");
  EXPECT_EQ(how("/system.slice/slurmstepd.scope/job_42/step_0/user/task_0"), "slurmstepd.scope");
}

TEST(ProcessOrigin, SessionsAndServicesOfSystemdAreNamed) {
  EXPECT_EQ(how("/user.slice/user-1000.slice/session-3.scope"), "login session 3");
  EXPECT_EQ(how("/system.slice/cron.service"), "cron.service");
  EXPECT_EQ(how("/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service"), "jupyter.service");
  EXPECT_EQ(how("/user.slice/user-1000.slice/user@1000.service"), "") << "that is every process of the user";
  EXPECT_EQ(how("/user.slice/user-1000.slice/user@1000.service/app.slice/run-u7.scope"), "run-u7.scope");
  EXPECT_EQ(how("/system.slice/docker-" + kId + ".scope"), "") << "the container says more";
  EXPECT_EQ(how("/"), "");
}

TEST(ProcessOrigin, AnyPathIsAnOriginOrNone) {
  constexpr std::string_view kPieces[] = {"/",        "-",      ":",     ".scope", ".service",
                                          "session-", "docker", "user@", "..",     "\n"};
  std::mt19937 random(9);
  for (int round = 0; round < 50'000; ++round) {
    std::string path;
    for (auto pieces = random() % 8; pieces > 0; --pieces)
      path += random() % 4 == 0 ? kId.substr(random() % 40) : std::string(kPieces[random() % std::size(kPieces)]);
    const Origin origin = origin_of_cgroup(path);
    if (origin.container.empty()) continue;
    const std::size_t colon = origin.container.rfind(':');
    ASSERT_NE(colon, std::string::npos) << path;
    EXPECT_GT(colon, 0U) << path;
    EXPECT_EQ(origin.container.size() - colon - 1, 12U) << path;
  }
}

TEST(ProcessOrigin, AProcessDescendsFromWhoStartedIt) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[1]);
    char end = 0;
    ::_exit(static_cast<int>(::read(ends[0], &end, 1)));  // until the parent closes its end
  }
  ::close(ends[0]);
  EXPECT_TRUE(descends_from(child, ::getpid()));
  EXPECT_TRUE(descends_from(child, child));
  EXPECT_FALSE(descends_from(::getpid(), child));
  EXPECT_FALSE(descends_from(0, ::getpid()));
  std::int32_t inner = 0;
  std::uint64_t pid_namespace = 0;
  EXPECT_TRUE(inner_identity(child, inner, pid_namespace));
  EXPECT_EQ(inner, child) << "the test and its child are in one namespace";
  EXPECT_FALSE(origin_of(child).command.empty());
  ::close(ends[1]);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(inner_identity(child, inner, pid_namespace));
  EXPECT_EQ(origin_of(child).command, "");
}

TEST(ProcessOrigin, WhoHasAFileOpenIsFound) {
  const TemporaryFolder folder;
  const std::string path = folder.write("open", "x");
  EXPECT_TRUE(openers_of(path).empty());
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  const auto openers = openers_of(path);
  ASSERT_EQ(openers.size(), 1U);
  EXPECT_EQ(openers[0].pid, ::getpid());
  EXPECT_EQ(openers[0].state, 'R');
  EXPECT_EQ(content_of(path), "x");
  EXPECT_EQ(content_of(folder.file("nothing")), "");
}

}  // namespace
}  // namespace ration::machine
