// Whether a configuration can be kept on the devices that are there, and where in it the problem stands.
#include "admission/configured_promises.hpp"

#include "invented_machine.hpp"

namespace ration::admission {
namespace {

class ConfiguredPromisesTest : public InventedMachine {
 protected:
  static config::Configuration read(const std::string& text) {
    auto reading = config::parse_configuration({{"f", text}});
    EXPECT_TRUE(reading.problems.empty()) << reading.problems.front().what;
    return std::move(reading.configuration);
  }
  static std::vector<FileProblem> broken(const std::string& text, const std::vector<machine::Device>& devices) {
    return broken_promises(read(text), devices);
  }
};

constexpr const char* kTwoTenants =
    "[[tenant]]\nname = \"a\"\nguarantee = \"10GiB\"\n[[tenant]]\nname = \"b\"\nguarantee = \"7GiB\"\n";

TEST_F(ConfiguredPromisesTest, WhatFitsOnEveryDeviceIsNoProblem) {
  EXPECT_TRUE(broken("", {device(0)}).empty());
  EXPECT_TRUE(broken(kTwoTenants, {device(0, 17_GiB)}).empty());
  EXPECT_TRUE(broken(kTwoTenants, {}).empty());
}

TEST_F(ConfiguredPromisesTest, TheGuaranteeThatIsTooMuchIsNamedForEachDevice) {
  const auto problems = broken(kTwoTenants, {device(0), device(1, 40_GiB), device(2, 8_GiB)});
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(place_text(problems[0]), "f:6:1");
  EXPECT_EQ(problems[0].what,
            "the guarantee of tenant 'b' cannot be kept: together with the guarantees before it, 17.0 GiB would be "
            "promised of "
            "GPU 0, which has 16.0 GiB");
  EXPECT_EQ(problems[0].fix, "lower it by 1.00 GiB or more");
  EXPECT_EQ(place_text(problems[1]), "f:3:1") << "on the small one the first is too much already";
}

TEST_F(ConfiguredPromisesTest, WhatIsKeptFreeIsNobodys) {
  const std::string text = std::string(kTwoTenants) + "[[device]]\nmatch = \"1\"\nkeep_free = \"10%\"\n";
  EXPECT_EQ(kept_free(read(text), device(0, 20_GiB)), 0_B);
  EXPECT_EQ(kept_free(read(text), device(1, 20_GiB)), 2_GiB);
  EXPECT_TRUE(broken(text, {device(0, 18_GiB), device(1, 19_GiB)}).empty());
  const auto problems = broken(text, {device(1, 18_GiB)});
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].what.find("kept free"), std::string::npos) << problems[0].what;
}

TEST_F(ConfiguredPromisesTest, WhatOneDeviceAloneHasNotIsAProblemOfItsRule) {
  const auto too_free = broken("[[device]]\nmatch = \"0\"\nkeep_free = \"20GiB\"\n", {device(0)});
  ASSERT_EQ(too_free.size(), 1U);
  EXPECT_EQ(place_text(too_free[0]), "f:3:1");
  EXPECT_EQ(too_free[0].fix, "keep_free = \"16GiB\" or less");
  const auto too_sliced = broken("[[device]]\nmatch = \"0\"\nslices = [\"10GiB\", \"10GiB\"]\n", {device(0)});
  ASSERT_EQ(too_sliced.size(), 1U);
  EXPECT_EQ(too_sliced[0].what.rfind("slices do not fit GPU 0: ", 0), 0U) << too_sliced[0].what;
}

TEST_F(ConfiguredPromisesTest, TheFirstProblemIsTheError) {
  const Error error = too_much(broken(kTwoTenants, {device(0)}));
  EXPECT_EQ(error.id, "E1304");
  EXPECT_EQ(error.what.rfind("f:6:1: the guarantee of tenant 'b'", 0), 0U) << error.what;
  EXPECT_EQ(error.exit_code, 2);
}

}  // namespace
}  // namespace ration::admission
