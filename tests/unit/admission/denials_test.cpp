// Why a charge was denied, and something to type that would have admitted it.
#include "admission/denials.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

#include "base/command.hpp"
#include "machine/user_names.hpp"

namespace ration::admission {
namespace {

using namespace literals;
using book::DenialReason;

class DenialsTest : public ::testing::Test {
 protected:
  DenialsTest() {
    book_.name = "nlp";
    book_.command = "python train.py --name 'x;y'";
    book_.run_number = 17;
    book_.accounts.resize(1);
    book_.accounts[0].device = {1};
    book_.accounts[0].device_total = 16_GiB;
    book_.accounts[0].limit = 4_GiB;
    denial_.sequence = 3;
    denial_.requested = 1_GiB;
    denial_.used = 4_GiB;
    denial_.limit = 4_GiB;
    denial_.device = {1};
    denial_.device_free = (9_GiB).count();
    denial_.function = "cuMemAlloc_v2";
  }
  DenialExplained explain(bool running = true, const std::optional<LimitRoom>& room = {}) const {
    return explain_denial(denial_, book_, running, room, [](const book::DeviceUuid& device) {
      return device == book::DeviceUuid{1} ? std::optional(0) : std::nullopt;
    });
  }

  book::BookSnapshot book_;
  book::Denial denial_;
};

TEST_F(DenialsTest, ALimitIsNamedWithWhatWasHeldAndWhatWasAsked) {
  const DenialExplained explained = explain();
  EXPECT_EQ(explained.id, "d-17-3");
  EXPECT_EQ(explained.because, "nlp held 4.00 GiB of its limit 4.00 GiB, and 1.00 GiB more would not fit");
  EXPECT_EQ(explained.not_because, "the GPU was full: 9.00 GiB were free");
  EXPECT_EQ(explained.fix.text, "ration set nlp --limit 6GiB");
}

TEST_F(DenialsTest, WhoHasWaitedIsNotToldToWait) {
  EXPECT_NE(held_back_fix("0", false).find("--on-deny wait"), std::string::npos);
  EXPECT_EQ(held_back_fix("0", true).find("--on-deny wait"), std::string::npos);
  book_.accounts[0].granted = book_.accounts[0].own_limit = 4'500_MiB;
  book_.on_deny = book::OnDeny::kWait;
  denial_.waited_ns = 3'000'000'000;
  EXPECT_EQ(explain(false).fix.text.find("--on-deny wait"), std::string::npos);
}

TEST_F(DenialsTest, AFullDeviceIsRuledOutOnlyIfTheRequestWouldHaveFitted) {
  denial_.device_free = (460_MiB).count();
  EXPECT_EQ(explain().not_because, "");
  denial_.device_free = denial_.requested.count();
  EXPECT_EQ(explain().not_because, "the GPU was full: 1.00 GiB were free");
}

TEST_F(DenialsTest, WhatHasEndedIsStartedAgainWithMore) {
  EXPECT_EQ(explain(false).fix.text, "ration run --name nlp --gpu 0 --limit 6GiB -- python train.py --name 'x;y'");
}

TEST_F(DenialsTest, WhatHasEndedIsStartedAgainUnderTheNameThatWasGiven) {
  for (const char* name : {"python", "python-2"}) {
    book_.name = name;
    EXPECT_EQ(explain(false).fix.text.rfind("ration run --gpu 0", 0), 0U) << name;
  }
  book_.name = "python3";
  EXPECT_EQ(explain(false).fix.text.rfind("ration run --name python3 --gpu 0", 0), 0U);
}

TEST_F(DenialsTest, WhatHasEndedIsStartedAgainForItsTenant) {
  book_.tenant = "research";
  EXPECT_EQ(explain(false).fix.text.rfind("ration run --name nlp --gpu 0 --tenant research --limit 6GiB -- ", 0), 0U);
  for (const std::string& own : {std::string("default"), machine::user_name(book_.creator.user)}) {
    book_.tenant = own;
    EXPECT_EQ(explain(false).fix.text.find("--tenant"), std::string::npos) << own;
  }
}

TEST_F(DenialsTest, WhatHasEndedIsGivenNoLimitBelowTheOneThatItWasGranted) {
  book_.accounts[0].granted = 8_GiB;
  EXPECT_EQ(explain(false).fix.text.rfind("ration explain --gpu 0   (who holds what", 0), 0U);
  book_.accounts[0].granted = 4_GiB;
  EXPECT_EQ(explain(false).fix.text.rfind("ration run --name nlp --gpu 0 --limit 6GiB", 0), 0U);
}

TEST_F(DenialsTest, WhatCouldHoldLessThanItsLimitIsStartedAgainAndWaits) {
  book_.accounts[0].granted = 4_GiB;
  denial_.limit = 2_GiB;
  EXPECT_EQ(explain(false).fix.text.rfind("ration run --name nlp --gpu 0 --limit 6GiB --on-deny wait -- ", 0), 0U);
  book_.accounts[0].own_limit = 2_GiB;  // set by the program itself
  EXPECT_EQ(explain(false).fix.text.rfind("ration run --name nlp --gpu 0 --limit 6GiB -- ", 0), 0U);
}

TEST_F(DenialsTest, ALimitThatTheProgramSetIsRaisedInTheProgram) {
  book_.accounts[0].granted = 16_GiB;
  book_.accounts[0].own_limit = 4_GiB;
  for (const bool running : {true, false})
    EXPECT_EQ(explain(running).fix.text,
              "in the program: ration.limit('6GiB')   (the program limited itself to 4.00 GiB)");
  book_.accounts[0].granted = 4_GiB;
  EXPECT_EQ(explain().fix.text, "ration set nlp --limit 6GiB") << "the program cannot raise it further";
}

TEST_F(DenialsTest, WhatIsGrantedNowBoundsTheLimitThatIsProposed) {
  EXPECT_EQ(explain(true, LimitRoom{5_GiB, {}, 0, false}).fix.text, "ration set nlp --limit 5GiB");
}

TEST_F(DenialsTest, WhereNoDeviceHasThatMuchNoneIsProposed) {
  denial_.requested = 20_GiB;
  EXPECT_EQ(explain().fix.text, "ration ps   (no device of that size: 24.0 GiB are needed)");
}

TEST_F(DenialsTest, AFullDeviceIsNotTheLimitsFault) {
  denial_.reason = DenialReason::kDeviceFull;
  EXPECT_EQ(explain().because, "the GPU itself had only 9.00 GiB free; the limit would have allowed 1.00 GiB");
  EXPECT_EQ(explain().not_because, "");
  denial_.device_free = book::kUnknownBytes;
  EXPECT_EQ(explain().because, "the GPU itself was full; the limit would have allowed the request");
  EXPECT_NE(explain().fix.text.find("--on-deny wait"), std::string::npos);
  denial_.waited_ns = 1;
  EXPECT_EQ(explain().fix.text.find("--on-deny wait"), std::string::npos) << "it did wait";
}

TEST_F(DenialsTest, ADeviceThatWasNotGrantedIsAddedInTheFix) {
  denial_.reason = DenialReason::kNoAccount;
  denial_.device = {9};
  const DenialExplained explained = explain();
  EXPECT_EQ(explained.because.rfind("GPU GPU-09", 0), 0U) << explained.because;
  EXPECT_EQ(explained.fix.text.rfind("ration run --gpu 0,GPU-0900", 0), 0U) << explained.fix.text;
  denial_.device = {};
  EXPECT_EQ(explain().because, "the request was for a GPU that was not granted to nlp");
  EXPECT_EQ(explain().fix.text.rfind("ration run --gpu all ", 0), 0U);
}

TEST_F(DenialsTest, AShareIsChangedInTheProgram) {
  denial_.reason = DenialReason::kShare;
  EXPECT_EQ(explain().fix.text, "ration set nlp --limit 6GiB   (and in the program: ration.share(NAME, '5GiB'))");
  book_.accounts[0].limit = 5_GiB;
  EXPECT_EQ(explain().fix.text, "in the program: ration.share(NAME, '5GiB')");
  denial_.function = "cuMemAlloc in generator";
  EXPECT_EQ(explain().fix.text, "in the program: ration.share('generator', '5GiB')");
  denial_.function = "cuMemAllocAsync in a name that the reco";  // as much as the record has room for
  EXPECT_EQ(explain().fix.text, "in the program: ration.share(NAME, '5GiB')");
}

TEST_F(DenialsTest, ATableThatIsFullIsNamedByWhatFillsIt) {
  denial_.reason = DenialReason::kTableFull;
  denial_.function = "cuMemExportToShareableHandle";
  denial_.limit = Bytes{2048};
  const DenialExplained explained = explain();
  EXPECT_EQ(explained.because.rfind("all 2048 entries of the guard's table for cuMemExportToShareableHandle", 0), 0U);
  EXPECT_NE(explained.fix.text.find("free some of the memory of cuMemExportToShareableHandle"), std::string::npos);
}

TEST_F(DenialsTest, PinnedMemoryIsOfTheHostAndItsLimitIsRaised) {
  denial_.reason = DenialReason::kHostLimit;
  denial_.account = book::kHostAccount;
  EXPECT_EQ(explain().because,
            "nlp held 4.00 GiB of pinned host memory, its host limit is 4.00 GiB, and 1.00 GiB more would not fit");
  EXPECT_EQ(explain().fix.text, "ration set nlp --host-limit 5GiB");
  EXPECT_EQ(explain(false).fix.text.rfind("ration run --host-limit 5GiB -- ", 0), 0U) << explain(false).fix.text;
}

TEST_F(DenialsTest, EveryReasonHasAWordOfItsOwn) {
  std::set<std::string> words;
  for (const DenialReason reason : {DenialReason::kLimit, DenialReason::kDeviceFull, DenialReason::kNoAccount,
                                    DenialReason::kShare, DenialReason::kTableFull, DenialReason::kHostLimit})
    words.insert(name_of(reason));
  EXPECT_EQ(words, (std::set<std::string>{"limit", "device_full", "not_granted", "share", "table_full", "host_limit"}));
}

TEST_F(DenialsTest, ManagedMemoryThatIsChargedWholeCouldStayOnTheHost) {
  denial_.function = "cuMemAllocManaged";
  book_.managed = book::ManagedPolicy::kCharge;
  EXPECT_NE(explain().fix.text.find("--managed resident"), std::string::npos);
}

TEST(DenialId, IsReadAsItIsWrittenAndNothingElseIs) {
  std::mt19937_64 random(13);
  for (int round = 0; round < 10'000; ++round) {
    const DenialId id{random() >> (random() % 64), random() >> (random() % 64)};
    const std::string text = "d-" + std::to_string(id.run) + "-" + std::to_string(id.number);
    const auto read = parse_denial_id(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(read->run, id.run);
    EXPECT_EQ(read->number, id.number);
    EXPECT_TRUE(is_number_of_something(text));
  }
  for (const char* text : {"", "d-", "d--", "d-1", "d-1-", "d-1-2x", "d--1-2", "d-1--2", "D-1-2", "e-1-2", "d-1-2-3",
                           "d 1 2", "d-99999999999999999999-1"})
    EXPECT_FALSE(parse_denial_id(text)) << text;
}

TEST(DenialId, ANumberOfSomethingIsNoName) {
  for (const char* text : {"42", "0", "e-42", "q-5", "d-1-2"}) EXPECT_TRUE(is_number_of_something(text)) << text;
  for (const char* text : {"", "e-", "q-x", "d-1", "42a", "job-42", "-42"})
    EXPECT_FALSE(is_number_of_something(text)) << text;
}

}  // namespace
}  // namespace ration::admission
