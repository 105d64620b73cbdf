#include "trace/symbols.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "../temporary.hpp"

namespace ration::trace {
namespace {

[[gnu::noinline]] int trained(int steps) { return steps * 3; }

TEST(Symbols, AFunctionIsNamedWithItsFileAndPlaceAndWithoutItsParameters) {
  Dl_info info{};
  ASSERT_NE(::dladdr(reinterpret_cast<void*>(&trained), &info), 0);
  const std::string path = std::filesystem::canonical("/proc/self/exe");
  const auto offset = reinterpret_cast<std::uint64_t>(&trained) - reinterpret_cast<std::uint64_t>(info.dli_fbase);
  EXPECT_EQ(Symbols().describe(path, offset),
            fmt::format("ration::trace::(anonymous namespace)::trained (trace_test+{:#x})", offset));
  EXPECT_EQ(Symbols().describe(path, 1), "trace_test+0x1");
}

TEST(Symbols, AFileThatIsNoneOrIsCutOffLeavesThePlace) {
  const TemporaryFolder folder;
  EXPECT_EQ(Symbols().describe("", 0x12), "0x12");
  EXPECT_EQ(Symbols().describe(folder.file("gone.so"), 0x12), "gone.so+0x12");
  std::ifstream program("/proc/self/exe", std::ios::binary);
  std::string bytes(5000, '\0');
  program.read(bytes.data(), 5000);
  for (const std::size_t length : {std::size_t{0}, std::size_t{10}, std::size_t{64}, std::size_t{5000}}) {
    EXPECT_EQ(Symbols().describe(folder.write("cut.so", bytes.substr(0, length)), 0x12), "cut.so+0x12");
  }
}

}  // namespace
}  // namespace ration::trace
