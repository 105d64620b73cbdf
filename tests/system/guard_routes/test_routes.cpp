// Every way to find a driver function ends in the guard, and what goes through the guard arrives unharmed.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "book/book.hpp"
#include "driver/memory_words.hpp"
#include "machine/driver_exports.hpp"
#include "run.hpp"

namespace guard_routes {
namespace {

bool starts_with(const std::string& text, const std::string& start) { return text.rfind(start, 0) == 0; }

// What the table wants hooked, and what has a hook: a hook takes the place of a weak trampoline.
std::set<std::string> hooked() {
  std::set<std::string> names = {
#define RATION_DRIVER_SYMBOL(index, symbol, base, since, mode, hooked) \
  std::string(#hooked) == "hook" ? #symbol : "cuGetProcAddress",
#include "guard/driver_symbols.inc"
#undef RATION_DRIVER_SYMBOL
  };
  for (const auto& [name, kind] : exported("libcuda.so.1")) {
    if (kind == 'T') names.insert(name);
  }
  return names;
}

class Route : public testing::TestWithParam<const char*> {};

std::string client_of(const std::string& route) { return route == "linked" ? kHere + "/shim_client_linked" : kClient; }

void expect_the_shim(const std::string& route, const std::vector<std::string>& environment) {
  const Ran ran = run({client_of(route), "route", route, kFake}, environment);
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_TRUE(starts_with(ran.output, kShimFolder + "/")) << ran.output << ran.errors;
}

TEST_P(Route, EndsInTheShim) {
  const std::string name = GetParam();
  if (starts_with(name, "libc-") || starts_with(name, "path-")) GTEST_SKIP() << "takes the dynamic linker's own help";
  expect_the_shim(name, governed());
}

TEST_P(Route, EndsInTheShimWhereTheLinkerAsks) { expect_the_shim(GetParam(), enforced()); }

// A child whose launcher dropped or moved the preload, and left the audit library.
class LinkerAlone : public testing::TestWithParam<const char*> {};

TEST_P(LinkerAlone, LeadsToTheShim) {
  for (const std::string preload : {"", (kFake + "/libcuda.so.1").c_str(), (kFake + "/links/copy.so").c_str(),
                                    (kFake + "/libcuda.so.1 " + kShimFolder + "/libcuda.so.1").c_str()}) {
    auto environment = enforced();
    environment.front() = "LD_PRELOAD=" + preload;
    SCOPED_TRACE(preload);
    expect_the_shim(GetParam(), environment);
  }
}

INSTANTIATE_TEST_SUITE_P(All, LinkerAlone,
                         testing::Values("linked", "soname", "plain-name", "absolute", "symlink", "deepbind", "default",
                                         "next", "dlvsym", "needed-library", "needed-deepbind", "asked-deepbind",
                                         "path-needed", "path-needed-deepbind", "libc-dlopen", "libc-dlmopen-soname",
                                         "libc-nameless", "copy", "nameless"),
                         [](const auto& one) {
                           std::string name = one.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

// The control: without the guard the same client finds the fake driver, so a route that is never tried is noticed.
TEST_P(Route, EndsInTheDriverWithoutTheShim) {
  const std::string name = GetParam();
  if (name == "absolute-noload") GTEST_SKIP() << "needs the driver to be loaded already";
  const Ran ran = run({client_of(name), "route", name, kFake}, bare());
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_TRUE(starts_with(ran.output, kFake + "/") || starts_with(ran.output, "./") ||
              starts_with(ran.output, "/proc/self/fd/"))
      << ran.output << ran.errors;
}

INSTANTIATE_TEST_SUITE_P(All, Route,
                         testing::Values("linked", "soname", "plain-name", "absolute", "absolute-noload", "symlink",
                                         "linked-folder", "relative", "deepbind", "default", "next", "dlvsym", "thread",
                                         "thread-absolute", "needed-library", "needed-deepbind", "asked-deepbind",
                                         "path-needed", "path-needed-deepbind", "path-needed-lazily",
                                         "path-needed-dlmopen", "dlmopen-driver", "dlmopen-soname", "dlmopen-base",
                                         "dlmopen-needed", "dlmopen-asked", "libc-dlopen", "libc-dlopen-deepbind",
                                         "libc-dlvsym", "libc-dlmopen", "libc-dlmopen-soname", "libc-dlmopen-needed",
                                         "libc-nvml", "copy", "nameless", "nameless-deepbind", "libc-nameless",
                                         "nvml-soname", "nvml-plain", "nvml-absolute"),
                         [](const auto& one) {
                           std::string name = one.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

void check_requests(std::vector<std::string> environment) {
  const Ran ran = run({kClient, "requests", std::string(DATA_FOLDER) + "/runtime_13.0_requests.txt"}, environment);
  ASSERT_EQ(ran.exit_code, 0) << ran.errors;
  const std::set<std::string> hooks = hooked();
  int answers = 0, ours = 0;
  for (const std::string& line : lines_of(ran.output)) {
    const std::size_t first = line.find(' '), second = line.find(' ', first + 1);
    const std::string symbol = line.substr(0, first), match = line.substr(first + 1, second - first - 1),
                      file = line.substr(second + 1);
    ++answers;
    if (hooks.count(symbol) != 0) {
      ++ours;
      EXPECT_EQ(match, "same") << line << ": not our entry for exactly that function";
      EXPECT_TRUE(starts_with(file, kShimFolder)) << line;
    } else if (symbol == "NOT_FOUND") {
      EXPECT_EQ(file, "null") << line;
    } else {
      EXPECT_TRUE(starts_with(file, kFake)) << line;
    }
  }
  EXPECT_GE(answers, 430);
  EXPECT_GT(ours, 40);
}

TEST(ShimRequests, OfTheRuntimeAreAnsweredWithOurEntryForEveryHookedFunction) { check_requests(governed()); }

TEST(ShimRequests, AreAnsweredSoToo_WhereTheDriverHandsOutFunctionsThatItDoesNotExport) {
  auto environment = governed();
  environment.push_back("FAKE_HIDDEN=1");
  check_requests(environment);
}

TEST(ShimRequests, PassStraightThroughWithoutABook) {
  auto environment = governed();
  environment.erase(environment.begin() + 1);
  const Ran ran = run({kClient, "requests", std::string(DATA_FOLDER) + "/runtime_13.0_requests.txt"}, environment);
  ASSERT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_EQ(ran.output.find(kShimFolder), std::string::npos);
}

TEST(ShimOpen, LeadsAPathToTheDriverItselfWithoutABook) {
  auto environment = governed();
  environment.erase(environment.begin() + 1);
  const Ran ran = run({kClient, "route", "absolute", kFake}, environment);
  EXPECT_EQ(ran.output, kFake + "/libcuda.so.1\n");
}

TEST(ShimCalls, KeepFloatsVariadicsAndManyStackArguments) {
  const Ran ran = run({kClient, "call"}, governed());
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_EQ(ran.output, "153.8\n55.5\n153.8\n55.5\n0\n");
}

TEST(ShimCalls, OfFunctionsTheDriverLacksAnswerNotFound) {
  const Ran ran = run({kClient, "missing"}, governed("/nonexistent/book", kHere + "/old"));
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_EQ(ran.output, "500 500 500 -\n");
}

TEST(ShimCalls, WithoutAnyDriverAnswerNoDevice) {
  const Ran ran = run({kClient, "missing"}, governed("/nonexistent/book", "/nonexistent"));
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_EQ(ran.output, "100 100 100 no CUDA-capable device is detected\n");
}

TEST(ShimCalls, DoNotCallThemselvesWhereTheDriverIsTheShim) {
  const Ran ran = run({kClient, "missing"}, governed("/nonexistent/book", kShimFolder));
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_EQ(ran.output, "100 100 100 no CUDA-capable device is detected\n");
}

TEST(ShimCalls, WorkFromAtexitHandlers) {
  const Ran ran = run({kClient, "atexit"}, governed());
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  ASSERT_EQ(lines_of(ran.output).size(), 2u) << ran.output;
  EXPECT_TRUE(starts_with(ran.output, kShimFolder)) << ran.output;
  EXPECT_EQ(lines_of(ran.output)[1], "1");
}

// nvidia-smi fetches it by dlsym before anything else (since release 535), and fails without it.
TEST(ShimCalls, ReachThePrivateTableOfNvml) {
  const Ran ran = run({kClient, "private"}, governed());
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_EQ(ran.output, "16 77\n");
}

TEST(ShimOpen, GivesALoaderOfTheDriverTheDriverProper) {
  const Ran ran = run({kClient, "loader"}, governed("/nonexistent/book", kHere + "/wsl"));
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_EQ(ran.output, "1 fake\n");
}

TEST(ShimOpen, GivesALoaderOfTheDriverTheDriverProper_WhereTheLinkerAsks) {
  auto environment = governed("/nonexistent/book", kHere + "/wsl");
  environment.push_back("LD_AUDIT=" + kShimFolder + "/libration-audit.so");
  EXPECT_EQ(run({kClient, "loader"}, environment).output, "1 fake\n");
}

TEST(ShimInjection, OfAProfilerCallsTheShim) {
  char folder[] = "/tmp/ration-sim-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  for (const bool guarded : {true, false}) {
    auto environment = guarded ? governed("/nonexistent/book", SIM_FOLDER) : bare();
    if (!guarded) environment.front() = "LD_LIBRARY_PATH=" SIM_FOLDER;
    environment.push_back(std::string("RATION_SIM_DIR=") + folder);
    environment.push_back("CUDA_INJECTION64_PATH=" INJECTED);
    const Ran ran = run({kClient, "init"}, environment);
    EXPECT_EQ(ran.exit_code, 0) << ran.errors;
    const std::string file = (guarded ? kShimFolder : SIM_FOLDER) + "/libcuda.so.1\n";
    EXPECT_EQ(ran.output, "linked " + file + "opened " + file + "asked " + file) << ran.errors;
  }
  std::filesystem::remove_all(folder);
}

#if defined(__x86_64__)
// MPI with UCX: replaced functions are still held, and what the hooks let through still arrives.
TEST(ShimPatch, OfTheFunctionsThatUcxReplacesWorksAndTheyStayGoverned) {
  auto environment = governed();
  environment.push_back("FAKE_CONTEXT=1");
  const Ran ran = run({kClient, "patch"}, environment);
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  std::string expected;
  for (const char* name : {"cuMemAlloc", "cuMemAlloc_v2", "cuMemAllocManaged", "cuMemAllocPitch", "cuMemAllocPitch_v2"})
    expected += std::string(name) + " 1 denied\n";
  // The fake driver has no pools, so what is taken from them is its to refuse.
  for (const char* name : {"cuMemAllocAsync", "cuMemAllocFromPoolAsync", "cuMemMap", "cuMemFree", "cuMemFree_v2",
                           "cuMemFreeHost", "cuMemFreeAsync", "cuMemUnmap"})
    expected += std::string(name) + " 1 driver\n";
  EXPECT_EQ(ran.output, expected);
}
#endif

TEST(MemoryWords, AreFoundAnywhereInANameButForCopiesAndFills) {
  for (const char* name : {"cuMemAlloc_v9", "cuNewMemcpyPool", "cuMemcpyMemory", "nvmlDeviceGetMemoryInfo_v9"})
    EXPECT_TRUE(ration::driver::may_concern_memory(name)) << name;
  for (const char* name : {"cuMemcpyOfTomorrow", "cuMemsetOfTomorrow", "cuClockOfTomorrow", "nvmlDeviceGetClock", ""})
    EXPECT_FALSE(ration::driver::may_concern_memory(name)) << name;
}

TEST(DriverExports, ThatNoTableListsAreFoundByName) {
  EXPECT_EQ(ration::machine::unlisted_exports(kFake),
            (std::vector<std::string>{"cuMemAllocOfTomorrow", "cuMemAlloc_v9", "nvmlDeviceGetMemoryOfTomorrow"}));
}

TEST(ShimOpen, LeavesTheCallersRunpathToLibc) {
  const Ran governed_run = run({kClient, "runpath"}, governed());
  EXPECT_EQ(governed_run.exit_code, 0) << governed_run.output;
  EXPECT_EQ(governed_run.output, run({kClient, "runpath"}, bare()).output);
}

TEST(ShimOpen, WorksTwiceInOneProcessAndUsesUpNoNamespaces) {
  const Ran ran = run({kClient, "namespace"}, governed());
  EXPECT_EQ(ran.exit_code, 0) << ran.output << ran.errors;
  EXPECT_EQ(lines_of(ran.output).at(0), "1");
}

// The book of a test: device of the fake NVML, limit 4 GiB, 1 GiB charged by this process.
class Governed : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/ration-shim-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    path_ = folder_ + "/book";
    ration::book::NewBook contents;
    ration::book::NewAccount account;
    for (std::uint8_t i = 0; i < 16; ++i) account.device[i] = i;
    account.device_total = ration::Bytes{16ull << 30};
    account.limit = ration::Bytes{4ull << 30};
    account.context_estimate = ration::Bytes{64ull << 20};
    contents.accounts.push_back(account);
    account.device[0] = 100;
    contents.accounts.push_back(account);
    ASSERT_EQ(ration::book::Book::create(path_.c_str(), contents), ration::book::BookStatus::kOk);
    ASSERT_EQ(ration::book::Book::open(path_.c_str(), book_), ration::book::BookStatus::kOk);
    ASSERT_TRUE(book_.processes().attach());
    ASSERT_EQ(book_.account(0).charge(ration::Bytes{1ull << 30}), ration::book::Charged::kGranted);
  }
  void TearDown() override {
    std::remove(path_.c_str());
    ::rmdir(folder_.c_str());
  }
  std::string folder_, path_;
  ration::book::Book book_;
};

TEST_F(Governed, TellsTheLimitAndOnlyTheProcessesOfTheWorkload) {
  const Ran ran = run({kClient, "nvml"}, governed(path_));
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_EQ(ran.output, "4096 3072 1024\n4096 0 3072 1024\n7 1\n0 1 1 4096\nfake\n");
}

constexpr const char* kAnswersOfTomorrow = "101 101 102 102 103 103 105 105 106 106 4 null\nsaid\n";

TEST_F(Governed, FunctionsThatNoTableListsWorkAndAreNotedWhenTheyAreCalled) {
  EXPECT_EQ(run({kClient, "unlisted"}, governed(path_)).output, "found found found found found 4 null\nsaid\n");
  ration::book::BookSnapshot book;
  ASSERT_EQ(ration::book::Book::read(path_.c_str(), book), ration::book::BookStatus::kOk);
  EXPECT_EQ(book.unlisted_count, 0u);
  for (int i = 0; i < 2; ++i) {  // a second process enters nothing more
    const Ran ran = run({kClient, "unlisted", "call"}, governed(path_));
    EXPECT_EQ(ran.exit_code, 0) << ran.errors;
    EXPECT_EQ(ran.output, kAnswersOfTomorrow);
    ASSERT_EQ(ration::book::Book::read(path_.c_str(), book), ration::book::BookStatus::kOk);
    EXPECT_EQ(book.unlisted_count, 4u);
    EXPECT_EQ(book.unlisted, (std::vector<std::string>{"cuMemAllocOfTomorrow", "cuMemAlloc_v9", "cuMemPoolOfTomorrow",
                                                       "nvmlDeviceGetMemoryOfTomorrow"}));
  }
}

TEST_F(Governed, ContextsOfTwoDevicesAreMadeAtOnce) {
  const Ran ran = run({kClient, "two-devices"}, governed(path_));
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_EQ(ran.output, "0 0\n");
}

TEST_F(Governed, SeesALimitThatWasLoweredBelowWhatIsUsed) {
  book_.account(0).set_limit(ration::Bytes{512ull << 20});
  const Ran ran = run({kClient, "nvml"}, governed(path_));
  EXPECT_EQ(lines_of(ran.output).at(0), "512 0 512");  // used + free = total, also while the workload holds more
}

TEST(GovernedUngoverned, PassesEverythingThrough) {
  auto environment = governed();
  environment.erase(environment.begin() + 1);
  const Ran ran = run({kClient, "nvml"}, environment);
  EXPECT_EQ(ran.output, "16384 6144 10240\n16384 512 6144 10240\n7 3\n0 3 0 1024\nfake\n");
  EXPECT_EQ(ran.output, run({kClient, "nvml"}, bare()).output);
}

TEST(GovernedUngoverned, FindsFunctionsThatNoTableLists) {
  auto environment = governed();
  environment.erase(environment.begin() + 1);
  EXPECT_EQ(run({kClient, "unlisted", "call"}, environment).output, kAnswersOfTomorrow);
  EXPECT_EQ(run({kClient, "unlisted", "call"}, bare()).output, kAnswersOfTomorrow);
}

TEST(GovernedUngoverned, WithoutNvmlSaysSo) {
  const Ran ran = run({kClient, "nvml"}, governed("/nonexistent/book", "/nonexistent"));
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(lines_of(ran.output).back(), "NVML Shared Library Not Found");
}

}  // namespace
}  // namespace guard_routes
