// Limits that the driver holds over a cgroup, and how its libraries are found and called: against a library that the
// test brings along (limits_nvml.cpp).
#include "machine/cgroup_limits.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "machine/devices.hpp"
#include "machine/driver_library.hpp"

namespace ration::machine {
namespace {

using namespace literals;

const std::string kFolder = LIMITS_NVML_FOLDER;

std::string error_of(const Result<void>& done) { return done ? "done" : done.error().id; }

TEST(CgroupLimits, ALimitIsReadBackAsItWasSetAndCanBeTakenAway) {
  EXPECT_EQ(cgroup_limit(kFolder, 0, "/job").value_or(1_B), std::nullopt);
  EXPECT_EQ(error_of(set_cgroup_limit(kFolder, 0, "/job", 3_GiB)), "done");
  EXPECT_EQ(cgroup_limit(kFolder, 0, "/job").value_or(1_B), 3_GiB);
  EXPECT_EQ(cgroup_limit(kFolder, 0, "/other").value_or(1_B), std::nullopt);
  EXPECT_EQ(error_of(set_cgroup_limit(kFolder, 0, "/job", std::nullopt)), "done");
  EXPECT_EQ(cgroup_limit(kFolder, 0, "/job").value_or(1_B), std::nullopt);
}

TEST(CgroupLimits, ALimitOfNothingIsNotNoLimit) {
  EXPECT_EQ(error_of(set_cgroup_limit(kFolder, 0, "/nothing", 0_B)), "done");
  EXPECT_EQ(cgroup_limit(kFolder, 0, "/nothing").value_or(std::nullopt), 0_B);
}

TEST(CgroupLimits, EachRefusalHasItsError) {
  EXPECT_EQ(error_of(set_cgroup_limit(kFolder, 1, "/job", 1_GiB)), "E1551") << "there is no such device";
  EXPECT_EQ(error_of(set_cgroup_limit(kFolder, 0, "/refused", 1_GiB)), "E1552");
  EXPECT_EQ(error_of(set_cgroup_limit(kFolder, 0, "/broken", 1_GiB)), "E1553");
  const auto read = cgroup_limit(kFolder, 0, "/refused");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().id, "E1552");
}

TEST(Devices, SayTheirComputeCapabilityTheirProcessorsAndWhetherTheDriverTakesLimitsFromThisUser) {
  const auto machine = query_devices(kFolder);
  ASSERT_TRUE(machine) << machine.error().what;
  ASSERT_EQ(machine->devices.size(), 1U);
  EXPECT_EQ(machine->devices[0].compute_capability, "12.1");
  EXPECT_EQ(machine->devices[0].numa_nodes, (std::vector{1, 65}));
  EXPECT_EQ(machine->devices[0].cgroup_limits, ::geteuid() == 0);
}

TEST(DriverLibrary, CallsWhatIsThereAndSaysWhatIsNot) {
  const Library library(kFolder, "libnvidia-ml.so.1");
  ASSERT_TRUE(library) << library.problem();
  EXPECT_EQ(library.problem(), "");
  EXPECT_EQ(library.file(), kFolder + "/libnvidia-ml.so.1");
  EXPECT_EQ(library.call("nvmlInit_v2", -1), 0);
  EXPECT_EQ(library.call("nvmlOfTomorrow", -1), -1);
}

TEST(DriverLibrary, WhereThereIsNoneSaysWhy) {
  const Library library("/nowhere", "libnvidia-ml.so.1");
  EXPECT_FALSE(library);
  EXPECT_NE(library.problem().find("/nowhere/libnvidia-ml.so.1"), std::string::npos) << library.problem();
  EXPECT_EQ(library.file(), "");
}

}  // namespace
}  // namespace ration::machine
