// What a person asked for, made whole, and what cannot be: each with its error, before anything is changed.
#include "admission/plan.hpp"

#include <random>

#include "admission/slices.hpp"
#include "invented_machine.hpp"

namespace ration::admission {
namespace {

class PlanTest : public InventedMachine {
 protected:
  Result<Plan> plan(const PlanRequest& request) const {
    return make_plan(request, machine_, store_, [](const machine::Device&) { return std::optional(300_MiB); });
  }
  std::string error_of(const PlanRequest& request) const {
    const auto made = plan(request);
    return made ? "planned" : made.error().id;
  }
  static PlanRequest limited(const std::string& limit, const std::string& guarantee = "") {
    PlanRequest request;
    request.limit = limit;
    request.guarantee = guarantee;
    return request;
  }

  machine::Machine machine_{{device(0), device(1, 40_GiB)}, "535.1", true};
};

TEST_F(PlanTest, WithoutAWishItIsAllOfTheFirstDevice) {
  const auto made = plan({});
  ASSERT_TRUE(made) << made.error().what;
  ASSERT_EQ(made->accounts.size(), 1U);
  EXPECT_EQ(made->accounts[0].device.index, 0);
  EXPECT_EQ(made->accounts[0].limit, 16_GiB);
  EXPECT_EQ(made->accounts[0].guarantee, 0_B);
  EXPECT_EQ(made->accounts[0].context, 300_MiB);
  EXPECT_EQ(made->tenant, "default");
  EXPECT_EQ(made->name, "") << "chosen when it starts";
  EXPECT_EQ(made->sets.at("CUDA_VISIBLE_DEVICES"), device(0).uuid);
}

TEST_F(PlanTest, AShareIsOfEachDevice) {
  PlanRequest request = limited("50%");
  request.gpu = "1,0";
  const auto made = plan(request);
  ASSERT_TRUE(made) << made.error().what;
  ASSERT_EQ(made->accounts.size(), 2U);
  EXPECT_EQ(made->accounts[0].limit, 20_GiB);
  EXPECT_EQ(made->accounts[1].limit, 8_GiB);
  EXPECT_EQ(made->sets.at("CUDA_VISIBLE_DEVICES"), device(1).uuid + "," + device(0).uuid);
}

TEST_F(PlanTest, ALimitIsWholeGranulesAndWhatWasTypedIsKeptWhereThatChangedIt) {
  EXPECT_EQ(plan(limited("4GiB"))->accounts[0].typed, std::nullopt);
  const auto odd = plan(limited("4097MiB"));
  EXPECT_EQ(odd->accounts[0].limit, 4_GiB);
  EXPECT_EQ(odd->accounts[0].typed, 4_GiB + 1_MiB);
  EXPECT_EQ(plan(limited("unlimited"))->accounts[0].limit, 16_GiB);
}

TEST_F(PlanTest, EachWishThatCannotBeHasItsError) {
  const auto with = [](const std::function<void(PlanRequest&)>& change) {
    PlanRequest request;
    change(request);
    return request;
  };
  EXPECT_EQ(error_of(limited("17GiB")), "E1104");
  EXPECT_EQ(error_of(limited("1MiB")), "E1105");
  EXPECT_EQ(error_of(limited("4")), "E1101");
  EXPECT_EQ(error_of(limited("200MiB")), "E1204") << "less than a context";
  EXPECT_EQ(error_of(limited("4GiB", "5GiB")), "E1305");
  EXPECT_EQ(error_of(limited("4GiB", "unlimited")), "E1102");
  EXPECT_EQ(error_of(with([](PlanRequest& request) { request.gpu = "2"; })), "E1407");
  EXPECT_EQ(error_of(with([](PlanRequest& request) { request.on_deny = "never"; })), "E1408");
  EXPECT_EQ(error_of(with([](PlanRequest& request) { request.on_deny = "wait:soon"; })), "E1408");
  EXPECT_EQ(error_of(with([](PlanRequest& request) { request.name = "a b"; })), "E1409");
  EXPECT_EQ(error_of(with([](PlanRequest& request) { request.name = "d-1-2"; })), "E1409") << "the number of a denial";
  EXPECT_EQ(error_of(with([](PlanRequest& request) { request.tenant = "a/b"; })), "E1409");
  EXPECT_EQ(error_of(with([](PlanRequest& request) { request.labels = {"novalue"}; })), "E1415");
  EXPECT_EQ(error_of(with([](PlanRequest& request) { request.labels = {"a=b,c=d"}; })), "E1415");
  EXPECT_EQ(error_of(with([](PlanRequest& request) { request.labels = {"a=" + std::string(254, 'x')}; })), "E1415");
  EXPECT_EQ(error_of(with([](PlanRequest& request) { request.account = "all"; })), "E1416");
  EXPECT_EQ(error_of(with([](PlanRequest& request) { request.managed = "some"; })), "E1416");
  EXPECT_EQ(error_of(with([](PlanRequest& request) { request.slice = "0.0"; })), "E1608");
}

TEST_F(PlanTest, TheAnswerToADenialIsAsItWasTyped) {
  PlanRequest request;
  EXPECT_EQ(plan(request)->on_deny, book::OnDeny::kFail);
  request.on_deny = "wait";
  EXPECT_EQ(plan(request)->wait_ns, ~std::uint64_t{0});
  request.on_deny = "wait:30s";
  EXPECT_EQ(plan(request)->on_deny, book::OnDeny::kWait);
  EXPECT_EQ(plan(request)->wait_ns, 30'000'000'000U);
}

TEST_F(PlanTest, WhereOnlyAllocationsCountALimitMayBeLessThanAContext) {
  PlanRequest request = limited("200MiB");
  request.account = "heap";
  const auto made = plan(request);
  ASSERT_TRUE(made) << made.error().what;
  EXPECT_EQ(made->account_mode, book::AccountMode::kHeap);
}

TEST_F(PlanTest, TheLimitThatIsProposedIsEnoughForAContext) {
  const auto refused = plan(limited("200MiB"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().fix, "Give at least 512MiB.");
  EXPECT_TRUE(plan(limited("512MiB")));
}

TEST_F(PlanTest, AGuaranteeIsGivenOnlyOnce) {
  start("other", "", 10_GiB);
  EXPECT_EQ(error_of(limited("16GiB", "6GiB")), "planned");
  EXPECT_EQ(error_of(limited("16GiB", "7GiB")), "E1304");
  EXPECT_EQ(error_of(limited("16GiB", "0")), "planned") << "nothing is promised";
}

TEST_F(PlanTest, ASliceBringsItsDeviceAndBothItsSizes) {
  ASSERT_TRUE(write_slices(store_, device(1, 40_GiB), {{"half", device(1).uuid, 20_GiB, false}}));
  PlanRequest request;
  request.slice = "half";
  const auto made = plan(request);
  ASSERT_TRUE(made) << made.error().what;
  EXPECT_EQ(made->accounts[0].device.index, 1);
  EXPECT_EQ(made->accounts[0].limit, 20_GiB);
  EXPECT_EQ(made->accounts[0].guarantee, 20_GiB);
  request.limit = "1GiB";
  EXPECT_EQ(error_of(request), "E1605");
  request.limit.clear();
  start("inside", "half", 20_GiB, 1);
  EXPECT_EQ(error_of(request), "E1604");
}

TEST_F(PlanTest, AChoiceOfDevicesInTheEnvironmentIsTakenOver) {
  const TemporaryVariable chosen("CUDA_VISIBLE_DEVICES", "1");
  EXPECT_EQ(plan({})->accounts[0].device.index, 1);
  PlanRequest request;
  request.gpu = "0";
  EXPECT_EQ(plan(request)->accounts[0].device.index, 0) << "what is typed goes first";
}

TEST_F(PlanTest, FrameworksStartSmallUnlessTheirVariablesSayOtherwise) {
  const TemporaryVariable own("TF_FORCE_GPU_ALLOW_GROWTH", "false"), none("XLA_PYTHON_CLIENT_PREALLOCATE", nullptr);
  PlanRequest request;
  EXPECT_EQ(plan(request)->keeps.at("TF_FORCE_GPU_ALLOW_GROWTH"), "false");
  EXPECT_EQ(plan(request)->sets.at("XLA_PYTHON_CLIENT_PREALLOCATE"), "false");
  request.growth = true;
  EXPECT_EQ(plan(request)->sets.at("TF_FORCE_GPU_ALLOW_GROWTH"), "true");
  request = {};
  request.framework_hints = false;
  EXPECT_EQ(plan(request)->sets.count("XLA_PYTHON_CLIENT_PREALLOCATE"), 0U);
}

TEST_F(PlanTest, AValueThatTensorFlowDoesNotReadCountsAsNotSet) {
  const auto growth = [&](const char* own) {
    const TemporaryVariable variable("TF_FORCE_GPU_ALLOW_GROWTH", own);
    const auto made = plan({});
    const auto kept = made->keeps.find("TF_FORCE_GPU_ALLOW_GROWTH");
    return kept == made->keeps.end() ? "set " + made->sets.at("TF_FORCE_GPU_ALLOW_GROWTH") : "kept " + kept->second;
  };
  for (const char* none : {"1", "0", "True", "yes", ""}) EXPECT_EQ(growth(none), "set true") << none;
  for (const char* own : {"true", "false"}) EXPECT_EQ(growth(own), std::string("kept ") + own);
  const TemporaryVariable reserve("TF_DEVICE_MIN_SYS_MEMORY_IN_MB", "much");
  EXPECT_EQ(plan({})->sets.at("TF_DEVICE_MIN_SYS_MEMORY_IN_MB"), "128");
  const TemporaryVariable own("TF_DEVICE_MIN_SYS_MEMORY_IN_MB", "256");
  EXPECT_EQ(plan({})->keeps.at("TF_DEVICE_MIN_SYS_MEMORY_IN_MB"), "256");
}

TEST_F(PlanTest, TensorFlowLeavesLittleUnusedUnlessItsVariableSaysOtherwise) {
  constexpr const char* kReserve = "TF_DEVICE_MIN_SYS_MEMORY_IN_MB";
  const TemporaryVariable none(kReserve, nullptr);
  PlanRequest request;
  EXPECT_EQ(plan(request)->sets.at(kReserve), "128");
  request.framework_hints = false;
  EXPECT_EQ(plan(request)->sets.count(kReserve), 0U);
  request.growth = true;
  EXPECT_EQ(plan(request)->sets.count(kReserve), 0U) << "--growth asks for growth alone";
  const TemporaryVariable own(kReserve, "700");
  request.framework_hints = true;
  EXPECT_EQ(plan(request)->keeps.at(kReserve), "700") << "and overrides the growth variables alone";
}

TEST_F(PlanTest, AnySizeOnADeviceIsWholeGranulesThatItHas) {
  std::mt19937_64 random(10);
  const machine::Device card = device(0);
  for (int round = 0; round < 20'000; ++round) {
    const Bytes asked{random() >> (random() % 62)};
    const auto size = size_on(card, exact_size(asked));
    if (!size) continue;
    EXPECT_GT(*size, 0_B);
    EXPECT_LE(*size, card.total);
    EXPECT_EQ(size->count() % kGranule.count(), 0U);
  }
}

TEST_F(PlanTest, AStepIsFromTheLimitThatIsInForce) {
  const machine::Device card = device(0);
  EXPECT_EQ(changed_limit(card, "+1GiB", 4_GiB).value_or(0_B), 5_GiB);
  EXPECT_EQ(changed_limit(card, "-1GiB", 4_GiB).value_or(0_B), 3_GiB);
  EXPECT_EQ(changed_limit(card, "-1GiB", kUnlimited).value_or(0_B), 15_GiB);
  EXPECT_EQ(changed_limit(card, "2GiB", 4_GiB).value_or(0_B), 2_GiB);
  EXPECT_EQ(changed_limit(card, "-4GiB", 4_GiB).error().id, "E1105");
  EXPECT_EQ(changed_limit(card, "+13GiB", 4_GiB).error().id, "E1104");
  EXPECT_NE(changed_limit(card, "+13GiB", 4_GiB).error().what.find("limit 17.0 GiB is more"), std::string::npos);
  EXPECT_EQ(changed_limit(card, "+", 4_GiB).error().id, "E1102");
}

TEST_F(PlanTest, NothingPromisedCanBeSaidInManyWays) {
  for (const char* text : {"none", "0", "0.0", "0GiB", "0%"}) {
    EXPECT_TRUE(takes_guarantee_away(text)) << text;
    EXPECT_EQ(guarantee_on(device(0), text).value_or(1_B), 0_B) << text;
  }
  for (const char* text : {"", "1", "1GiB", "0.5GiB", "GiB", ".", "0GiBx", "max", "unlimited"})
    EXPECT_FALSE(takes_guarantee_away(text)) << text;
}

}  // namespace
}  // namespace ration::admission
