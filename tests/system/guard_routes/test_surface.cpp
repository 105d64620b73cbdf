// The guard is a good guest: it exports the driver's names and nothing else, needs nothing but libc, and does nothing
// that the program it lives in could notice.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "run.hpp"

namespace guard_routes {
namespace {

std::set<std::string> names_of(const std::map<std::string, char>& symbols) {
  std::set<std::string> names;
  for (const auto& [name, kind] : symbols) names.insert(name);
  return names;
}

TEST(ShimSurface, ExportsTheDriversNamesThoseThatOpenAndStartAndItsOwnAlone) {
  const std::set<std::string> expected = {
      "dlopen",
      "dlmopen",
      "dlsym",
      "execl",
      "execle",
      "execlp",
      "execv",
      "execve",
      "execveat",
      "execvp",
      "execvpe",
      "fexecve",
      "pidfd_spawn",
      "pidfd_spawnp",
      "popen",
      "posix_spawn",
      "posix_spawnp",
      "ration_shim",
      "ration_shim_charge_share",
      "ration_shim_current_share",
      "ration_shim_enter_common_share",
      "ration_shim_enter_share",
      "ration_shim_limit_share",
      "ration_shim_look_at_share",
      "ration_shim_mark",
      "ration_shim_nvtx",
      "ration_shim_record",
      "ration_shim_refund_share",
      "ration_shim_share",
      "system",
      "wordexp",
#define RATION_DRIVER_SYMBOL(index, symbol, ...) #symbol,
#include "guard/driver_symbols.inc"
#undef RATION_DRIVER_SYMBOL
  };
  EXPECT_EQ(names_of(exported("libcuda.so.1")), expected);
}

TEST(ShimSurface, ExportsNvmlsNamesAndDlsymAlone) {
  const std::set<std::string> expected = {
      "dlsym",
      "nvmlErrorString",
#define RATION_NVML_SYMBOL(index, symbol, ...) #symbol,
#include "guard/nvml_symbols.inc"
#undef RATION_NVML_SYMBOL
  };
  EXPECT_EQ(names_of(exported("libnvidia-ml.so.1")), expected);
}

TEST(ShimSurface, EveryHookOfTheTableIsWritten) {
  const auto symbols = exported("libcuda.so.1");
  std::string unwritten;
#define RATION_DRIVER_SYMBOL(index, symbol, base, since, mode, hooked)                             \
  if (std::string(#hooked) == "hook" && symbols.count(#symbol) != 0 && symbols.at(#symbol) != 'T') \
    unwritten += std::string(" ") + #symbol;
#include "guard/driver_symbols.inc"
#undef RATION_DRIVER_SYMBOL
  EXPECT_EQ(unwritten, "");
}

TEST(ShimSurface, NeedsNothingButLibc) {
  for (const char* library : {"libcuda.so.1", "libnvidia-ml.so.1"}) {
    const Ran ran = run({"/usr/bin/readelf", "-d", kShimFolder + "/" + library}, kTools);
    ASSERT_EQ(ran.exit_code, 0) << ran.errors;
    for (const std::string& line : lines_of(ran.output)) {
      if (line.find("(NEEDED)") == std::string::npos) continue;
      EXPECT_TRUE(line.find("[libc.so.6]") != std::string::npos || line.find("[ld-linux-") != std::string::npos)
          << line;
    }
    EXPECT_NE(ran.output.find("Library soname: [" + std::string(library) + "]"), std::string::npos);
    EXPECT_EQ(ran.output.find("TEXTREL"), std::string::npos);
  }
}

TEST(ShimManners, PrintsNothing) {
  const Ran ran = run({"/bin/true"}, governed());
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.output, "");
  EXPECT_EQ(ran.errors, "");
}

TEST(ShimManners, KeepsThreadsSignalsAndUmask) {
  const Ran with = run({kClient, "manners"}, governed());
  EXPECT_EQ(with.exit_code, 0);
  EXPECT_EQ(with.output, run({kClient, "manners"}, bare()).output);
}

// System calls of /bin/true, by name, without those that load the two libraries themselves.
TEST(ShimManners, OpensNoFileAndStartsNothingInAProgramThatUsesNoGpu) {
  auto with_environment = governed();
  const std::vector<std::string> trace = {"/usr/bin/strace", "-f", "-qq", "-e",
                                          "trace=open,openat,openat2,socket,clone,clone3,fork,vfork,write,rt_sigaction,"
                                          "readlink,readlinkat,umask,unlink,mkdir,futex"};
  const auto trace_with = [&](const std::vector<std::string>& environment) {
    std::vector<std::string> command = trace;
    for (const std::string& variable : environment) {
      command.push_back("-E");
      command.push_back(variable);
    }
    command.push_back("/bin/true");
    return run(command, {"PATH=/usr/bin:/bin"});
  };
  const Ran without = trace_with(bare());
  if (without.exit_code != 0) GTEST_SKIP() << "no strace here: " << without.errors;
  const auto calls = [](const Ran& ran) {
    std::vector<std::string> kept;
    for (const std::string& line : lines_of(ran.errors)) {
      if (line.find(kShimFolder) == std::string::npos && line.find("ENOENT") == std::string::npos) kept.push_back(line);
    }
    return kept;
  };
  EXPECT_EQ(calls(trace_with(with_environment)), calls(without));
}

}  // namespace
}  // namespace guard_routes
