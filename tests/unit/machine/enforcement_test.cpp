// Whether the guard would be in a program, told from its words and files alone: nothing of it runs.
#include "machine/enforcement.hpp"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "../temporary.hpp"

namespace ration::machine {
namespace {

using Words = std::vector<std::string>;

class EnforcementTest : public ::testing::Test {
 protected:
  /// A word for what holds, and the program that was looked at: `held sh`.
  static std::string told(const Words& words) {
    const auto examined = examine_program(words);
    if (!examined) return "no such program";
    const std::string name = examined->program.substr(examined->program.rfind('/') + 1);
    const char* hold = examined->hold == Hold::kProgram    ? "held"
                       : examined->hold == Hold::kChildren ? "children"
                                                           : "NOT";
    return std::string(hold) + " " + name;
  }
  /// A statically linked program, by its headers.
  std::string static_program() const {
    std::ifstream sh("/bin/sh", std::ios::binary);
    std::string header(sizeof(Elf64_Ehdr), '\0');
    sh.read(header.data(), sizeof(Elf64_Ehdr));
    header.replace(offsetof(Elf64_Ehdr, e_phnum), 2, 2, '\0');
    return folder_.write_program("static", header);
  }

  TemporaryFolder folder_;
};

TEST_F(EnforcementTest, AnOrdinaryProgramIsHeldWhereverItIsFound) {
  EXPECT_EQ(told({"/bin/sh"}), "held sh");
  EXPECT_EQ(told({"sh", "-c", "sudo docker"}), "held sh");
  EXPECT_EQ(told({}), "no such program");
  EXPECT_EQ(told({"no-such-program"}), "no such program");
  EXPECT_EQ(told({folder_.write("text", "x")}), "no such program") << "it is not executable";
}

TEST_F(EnforcementTest, AScriptIsAsItsInterpreter) {
  EXPECT_EQ(told({folder_.write_program("script", "#!/bin/sh -e\n")}), "held sh");
  EXPECT_EQ(told({folder_.write_program("env-script", "#!/usr/bin/env sh\n")}), "held sh");
  EXPECT_EQ(told({folder_.write_program("split", "#!/usr/bin/env -S -i sh\n")}), "held sh");
  EXPECT_EQ(told({folder_.write_program("lost", "#!/no/such/interpreter\n")}), "no such program");
  const std::string itself = folder_.file("loop");
  EXPECT_EQ(told({folder_.write_program("loop", "#!" + itself + "\n")}), "no such program") << "and it ends";
}

TEST_F(EnforcementTest, AStaticProgramHoldsOnlyItsChildren) { EXPECT_EQ(told({static_program()}), "children static"); }

TEST_F(EnforcementTest, WhatNobodyCanReadIsNotHeld) {
  EXPECT_EQ(told({folder_.write_program("empty", "")}), "NOT empty");
  EXPECT_EQ(told({folder_.write_program("text", "just words")}), "NOT text");
  EXPECT_EQ(examine_program({folder_.file("text")})->reason, "it is not an ELF program");
}

TEST_F(EnforcementTest, ProgramsThatStartOthersElsewhereAreNotHeldByNameNorByLink) {
  for (const char* name : {"sudo", "docker", "podman", "systemd-run", "chroot", "flatpak"}) {
    const std::string path = folder_.write_program(name, "#!/bin/sh\n");
    EXPECT_EQ(told({path, "x"}), std::string("NOT ") + name);
    EXPECT_FALSE(examine_program({path, "x"})->instead.empty());
    EXPECT_EQ(told({"/usr/bin/env", "A=b", path}), std::string("NOT ") + name);
  }
  std::filesystem::create_symlink(folder_.file("docker"), folder_.file("my-tool"));
  EXPECT_EQ(told({folder_.file("my-tool")}), "NOT my-tool");
}

TEST_F(EnforcementTest, ALauncherIsAsWhatItStarts) {
  const std::string program = static_program();
  const std::vector<Words> lines{{"env"},
                                 {"env", "-u", "HOME", "A=1", "B=2"},
                                 {"env", "--unset=HOME"},
                                 {"env", "-C", "/"},
                                 {"env", "--"},
                                 {"timeout", "5"},
                                 {"timeout", "-k", "3", "-s9", "5"},
                                 {"timeout", "--kill-after=3", "5"},
                                 {"timeout", "--sig", "KILL", "5"},
                                 {"nice"},
                                 {"nice", "-n", "5"},
                                 {"nice", "-n5"},
                                 {"nohup"},
                                 {"setsid", "-w"},
                                 {"stdbuf", "-oL", "-e", "0"},
                                 {"env", "timeout", "5", "nice", "-n", "3"},
                                 {"env", "-S", "A=1 nice -n 5"}};
  for (Words words : lines) {
    std::string line;
    for (const std::string& word : words) line += word + " ";
    words.push_back(program);
    words.push_back("-i");  // of the program, not of env
    EXPECT_EQ(told(words), "children static") << line;
  }
}

TEST_F(EnforcementTest, ALauncherThatTakesTheGuardOutIsHeldByTheGuardInItWhereThatMay) {
  const std::vector<Words> lines{{"-i"},
                                 {"-"},
                                 {"--ignore-environment"},
                                 {"--ignore"},
                                 {"-u", "LD_PRELOAD"},
                                 {"-uLD_PRELOAD"},
                                 {"-vu", "RATION_BOOK"},
                                 {"--unset=LD_PRELOAD"},
                                 {"--unset", "LD_PRELOAD"},
                                 {"--uns=LD_PRELOAD"},
                                 {"LD_PRELOAD="},
                                 {"A=1", "LD_PRELOAD=/x.so"},
                                 {"-S", "-i"},
                                 {"--split-string=-u LD_PRELOAD"},
                                 {"nice", "env", "-i"}};
  for (const Words& options : lines) {
    Words words{"env"};
    words.insert(words.end(), options.begin(), options.end());
    words.push_back("sh");
    std::string line;
    for (const std::string& word : words) line += word + " ";
    EXPECT_EQ(told(words), "held sh") << line;
    EXPECT_EQ(examine_program(words, {{"RATION_ALLOW_UNGOVERNED", "1"}})->hold, Hold::kNothing) << line;
  }
  std::filesystem::create_directory(folder_.file("own"));
  std::filesystem::copy_file(static_program(), folder_.file("own/env"));
  EXPECT_EQ(told({folder_.file("own/env"), "A=b", "sh"}), "held sh");
  EXPECT_EQ(told({folder_.file("own/env"), "-i", "sh"}), "NOT env") << "no guard is in a static one";
}

TEST_F(EnforcementTest, ALauncherThatStartsNothingIsAProgramLikeAnother) {
  EXPECT_EQ(told({"env"}), "held env");
  EXPECT_EQ(told({"env", "-i"}), "held env");
  EXPECT_EQ(told({"timeout", "--help"}), "held timeout");
}

TEST_F(EnforcementTest, ALoaderIsAskedForTheProgramBehindItsOptions) {
  const TemporaryVariable path("PATH", "/usr/bin:/bin");
  std::string loader;
  for (const char* each : {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"})
    if (std::filesystem::exists(each)) loader = each;
  if (loader.empty()) GTEST_SKIP() << "no loader where one is expected";
  EXPECT_EQ(told({loader, "--library-path", "/x", "/bin/sh"}), "held sh");
  EXPECT_EQ(told({loader, folder_.write("not-executable", "x")}), "NOT not-executable");
  EXPECT_EQ(told({loader, "sh"}), "no such program") << "a loader does not look into PATH";
}

TEST_F(EnforcementTest, ASetUserProgramOfSomebodyElseIsNotHeld) {
  if (::getuid() != 0) GTEST_SKIP() << "only root can give a program away";
  const std::string path = folder_.file("other");
  std::filesystem::copy_file(std::filesystem::canonical("/bin/sh"), path);
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  ASSERT_EQ(::chmod(path.c_str(), 04755), 0);
  const auto examined = examine_program({path});
  struct statvfs system {};
  if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ||
      (::statvfs(path.c_str(), &system) == 0 && (system.f_flag & ST_NOSUID) != 0))
    GTEST_SKIP() << "set-uid means nothing here";
  EXPECT_EQ(examined->hold, Hold::kNothing);
  EXPECT_NE(examined->reason.find("set-uid"), std::string::npos) << examined->reason;
}

TEST_F(EnforcementTest, ItsOwnLoaderIsAskedWhetherItTakesTheGuard) {
  const auto with = [](const std::string& preload) { return examine_program({"/bin/sh"}, {{"LD_PRELOAD", preload}}); };
  const auto missing = with(folder_.file("libcuda.so.1"));
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->hold, Hold::kNothing) << "there is no such file";
  EXPECT_NE(missing->reason.find("does not load the guard"), std::string::npos) << missing->reason;
  std::filesystem::copy_file(LIMITS_NVML_FOLDER "/libnvidia-ml.so.1", folder_.file("libnvidia-ml.so.1"));
  EXPECT_EQ(with(folder_.file("libnvidia-ml.so.1"))->hold, Hold::kProgram);
}

}  // namespace
}  // namespace ration::machine
