// Named shares of devices: never more than a device has, and read as they were written.
#include "admission/slices.hpp"

#include <fmt/format.h>

#include <numeric>
#include <random>

#include "admission/configured_slices.hpp"
#include "config/configuration.hpp"
#include "invented_machine.hpp"

namespace ration::admission {
namespace {

class SlicesTest : public InventedMachine {
 protected:
  std::string text() const {
    const auto slices = read_slices(store_);
    if (!slices) return slices.error().id;
    std::string all;
    for (const Slice& slice : *slices)
      all += fmt::format("{}={}{} ", slice.name, exact_size(slice.size), slice.configured ? "*" : "");
    return all;
  }
  Slice slice(const std::string& name, Bytes size, int gpu = 0) const { return {name, device(gpu).uuid, size, false}; }
  std::string error_of(const Result<void>& done) const { return done ? "done" : done.error().id; }
  /// What `slices` of the configuration bring about.
  std::vector<std::string> configure(const std::string& text, int devices = 1) const {
    const auto read = config::parse_configuration({{"f", text}});
    EXPECT_TRUE(read.problems.empty()) << read.problems.front().what;
    std::vector<machine::Device> all;
    for (int gpu = 0; gpu < devices; ++gpu) all.push_back(device(gpu));
    const std::vector<Message> told = apply_configured_slices(store_, read.configuration, all);
    return {told.begin(), told.end()};
  }
};

constexpr const char* kHalves = "[[device]]\nmatch = \"0\"\nslices = [\"50%\", \"rest\"]\n";

TEST_F(SlicesTest, AreReadAsTheyWereWrittenWhateverTheirNames) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 50; ++round) {
    std::vector<Slice> written;
    for (auto many = random() % 5; many > 0; --many)
      written.push_back(
          {fmt::format("\"{}\n\\é{}", many, random() % 9), device(0).uuid, Bytes{random() >> 2}, random() % 2 == 0});
    ASSERT_TRUE(write_slices(store_, device(0), written));
    const auto read = read_slices(store_);
    ASSERT_TRUE(read);
    ASSERT_EQ(read->size(), written.size());
    for (std::size_t i = 0; i < written.size(); ++i) {
      EXPECT_EQ((*read)[i].name, written[i].name);
      EXPECT_EQ((*read)[i].uuid, written[i].uuid);
      EXPECT_EQ((*read)[i].size, written[i].size);
      EXPECT_EQ((*read)[i].configured, written[i].configured);
    }
  }
}

TEST_F(SlicesTest, OfADeviceReplaceItsOwnAlone) {
  ASSERT_TRUE(write_slices(store_, device(0), {slice("a", 1_GiB)}));
  ASSERT_TRUE(write_slices(store_, device(1), {slice("b", 2_GiB, 1)}));
  ASSERT_TRUE(write_slices(store_, device(0), {slice("c", 3_GiB)}));
  EXPECT_EQ(text(), "b=2GiB c=3GiB ");
  EXPECT_EQ(error_of(write_slices(store_, device(0), {slice("b", 3_GiB)})), "E1607") << "a name is had once";
  EXPECT_EQ(error_of(write_slices(store_, device(0), {slice("d", 3_GiB), slice("d", 1_GiB)})), "E1607");
  EXPECT_EQ(text(), "b=2GiB c=3GiB ");
  ASSERT_TRUE(write_slices(store_, device(1), {}));
  EXPECT_EQ(text(), "c=3GiB ");
}

TEST_F(SlicesTest, AFileThatHoldsSomethingElseIsDamagedAndNotOverwritten) {
  for (const char* content :
       {"", "{}", "[1]", "[{}]", "[", "\xff", "[{\"slice\":\"a\",\"uuid\":\"b\",\"limit_bytes\":-1}]",
        "[{\"slice\":1,\"uuid\":\"b\",\"limit_bytes\":1}]"}) {
    folder_.write("slices.json", content);
    EXPECT_EQ(text(), "E1606") << content;
    EXPECT_EQ(error_of(write_slices(store_, device(0), {slice("a", 1_GiB)})), "E1606") << content;
    EXPECT_EQ(folder_.content("slices.json"), content);
  }
}

TEST_F(SlicesTest, AWorkloadOccupiesItsSliceWhileItRuns) {
  start("inside", "a");
  const auto books = store_.list();
  ASSERT_NE(occupant(books, "a"), nullptr);
  EXPECT_EQ(occupant(books, "a")->contents.name, "inside");
  EXPECT_EQ(occupant(books, "b"), nullptr);
}

TEST_F(SlicesTest, SharesAreWholeGranulesOfWhatTheDeviceHas) {
  std::mt19937_64 random(12);
  constexpr const char* kSizes[] = {"rest", "1GiB",  "6GiB",       "50%",      "10%",        "max", "unlimited",
                                    "1B",   "33.3%", "5000000TiB", "max-1GiB", "4194304TiB", "",    "x"};
  int cut = 0;
  for (int round = 0; round < 30'000; ++round) {
    std::string wanted;
    for (auto many = 1 + random() % 5; many > 0; --many)
      wanted += std::string(wanted.empty() ? "" : ",") + kSizes[random() % std::size(kSizes)];
    const auto shares = parse_shares(device(0), wanted);
    if (!shares) {
      EXPECT_FALSE(shares.error().what.empty());
      continue;
    }
    ++cut;
    Bytes sum;
    for (const Bytes share : *shares) {
      EXPECT_GT(share, 0_B) << wanted;
      EXPECT_LE(share, 16_GiB) << wanted;
      EXPECT_EQ(share.count() % kGranule.count(), 0U) << wanted;
      sum += share;
    }
    EXPECT_LE(sum, 16_GiB) << wanted;
  }
  EXPECT_GT(cut, 1000);
}

TEST_F(SlicesTest, TheRestIsWhatIsLeftAndStandsLast) {
  const auto shares = parse_shares(device(0), "6GiB,6GiB,rest");
  ASSERT_TRUE(shares);
  EXPECT_EQ(shares->back(), 4_GiB);
  for (const char* text : {"rest,1GiB", "16GiB,rest", "8GiB,9GiB", "unlimited,unlimited,unlimited,unlimited"}) {
    const auto refused = parse_shares(device(0), text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().id, "E1602") << text;
  }
}

TEST_F(SlicesTest, EqualSharesAndRatiosUseTheDeviceUp) {
  for (int into = 1; into <= 64; ++into) {
    const auto shares = equal_shares(device(0), into);
    ASSERT_TRUE(shares);
    EXPECT_EQ(shares->size(), static_cast<std::size_t>(into));
    const Bytes sum = std::accumulate(shares->begin(), shares->end(), Bytes{});
    EXPECT_LE(sum, 16_GiB);
    EXPECT_GE(sum + kGranule * static_cast<unsigned>(into), 16_GiB);
  }
  EXPECT_FALSE(equal_shares(device(0), 0));
  EXPECT_FALSE(equal_shares(device(0), 65));
  const auto ratio = ratio_shares(device(0), "1:3");
  ASSERT_TRUE(ratio);
  EXPECT_EQ(ratio->front(), 4_GiB);
  EXPECT_EQ(ratio->back(), 12_GiB);
  for (const char* text : {"", ":", "1:", "0:0", "a:b", "-1:2", "1.5:2", "9999999:1", "1:0"}) {
    const auto refused = ratio_shares(device(0), text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().id, "E1602");
  }
}

TEST_F(SlicesTest, OfTheConfigurationAreCutOnceAndTakenBackWithIt) {
  EXPECT_EQ(configure(kHalves, 2), std::vector<std::string>{"GPU 0 is cut into 8.00 GiB, 8.00 GiB"});
  EXPECT_EQ(text(), "0.0=8GiB* 0.1=8GiB* ");
  EXPECT_TRUE(configure(kHalves, 2).empty()) << "nothing has to be done";
  EXPECT_EQ(configure("", 2), std::vector<std::string>{"GPU 0 is no longer cut into slices"});
  EXPECT_EQ(text(), "");
}

TEST_F(SlicesTest, OfAPersonStayWhateverTheConfigurationSays) {
  ASSERT_TRUE(write_slices(store_, device(0), {slice("mine", 1_GiB)}));
  EXPECT_TRUE(configure(kHalves).empty());
  EXPECT_TRUE(configure("").empty());
  EXPECT_EQ(text(), "mine=1GiB ");
}

TEST_F(SlicesTest, WithSomebodyInThemStay) {
  configure(kHalves);
  start("inside", "0.1");
  const auto told = configure("");
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(
      told[0],
      "GPU 0 keeps its slices while inside is in 0.1: reload the configuration again when that workload has ended");
  EXPECT_EQ(text(), "0.0=8GiB* 0.1=8GiB* ");
}

}  // namespace
}  // namespace ration::admission
