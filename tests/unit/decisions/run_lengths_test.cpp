#include "node/queue/run_lengths.hpp"

#include <gtest/gtest.h>

namespace ration::node {
namespace {

const Program kTrain{"alice", "nlp", "train", command_hash("python train.py")};

TEST(RunLengths, FewRunsTellNothingAndEnoughTellARange) {
  RunLengthTable table;
  for (const std::uint64_t length : {50, 30, 40, 20}) table.add(kTrain, length);
  EXPECT_FALSE(table.expected(kTrain)) << "four are too few";
  table.add(kTrain, 100);
  const auto expected = table.expected(kTrain);
  ASSERT_TRUE(expected);
  EXPECT_EQ(expected->lengths_ns, (std::vector<std::uint64_t>{20, 30, 40, 50, 100}));
  EXPECT_EQ(expected->at_most_ns, 110U) << "the longest, and a tenth more";
}

TEST(RunLengths, TheSoonestEndIsTheNextLengthThatIsStillAhead) {
  const RunLengths lengths{{20, 30, 50}, 55};
  EXPECT_EQ(lengths.shortest_above(0), 20U);
  EXPECT_EQ(lengths.shortest_above(20), 30U) << "it did not end at 20";
  EXPECT_EQ(lengths.shortest_above(49), 50U);
  EXPECT_FALSE(lengths.shortest_above(50)) << "longer than ever: nobody knows";
}

TEST(RunLengths, OnlyTheLatestRunsCount) {
  RunLengthTable table;
  table.add(kTrain, 9'000);  // of before a change to the program
  for (std::size_t i = 0; i < RunLengthTable::kRunsRemembered; ++i) table.add(kTrain, 100);
  EXPECT_EQ(table.expected(kTrain)->at_most_ns, 110U);
}

TEST(RunLengths, AnotherUserTenantNameOrCommandIsAnotherProgram) {
  RunLengthTable table;
  for (int i = 0; i < 5; ++i) table.add(kTrain, 100);
  for (const Program& other :
       {Program{"bob", "nlp", "train", kTrain.command}, Program{"alice", "vision", "train", kTrain.command},
        Program{"alice", "nlp", "tune", kTrain.command},
        Program{"alice", "nlp", "train", command_hash("python train.py --epochs 9")}})
    EXPECT_FALSE(table.expected(other)) << other.user << other.tenant << other.name;
  EXPECT_TRUE(table.expected(kTrain));
}

TEST(RunLengths, WhoWasGivenNoNameIsKnownAgain) {
  EXPECT_EQ(name_without_number("python-17", 17), "python");
  EXPECT_EQ(name_without_number("train-17", 18), "train-17") << "somebody called it so";
  EXPECT_EQ(name_without_number("train", 17), "train");
}

TEST(RunLengths, WhoRanLongestAgoIsForgottenFirstAndTheTableStaysSmall) {
  RunLengthTable table;
  for (int i = 0; i < 5; ++i) table.add(kTrain, 100);
  Program other = kTrain;
  for (std::size_t i = 1; i < RunLengthTable::kMaxPrograms; ++i) {
    other.name = "sweep-" + std::to_string(i);
    table.add(other, 1);
  }
  table.add(kTrain, 100);  // it is the newest now
  other.name = "one more";
  table.add(other, 1);
  EXPECT_EQ(table.size(), RunLengthTable::kMaxPrograms);
  EXPECT_TRUE(table.expected(kTrain));
  for (std::size_t i = 0; i < RunLengthTable::kMaxPrograms; ++i) {
    other.name = "later-" + std::to_string(i);
    table.add(other, 1);
  }
  EXPECT_FALSE(table.expected(kTrain));
}

}  // namespace
}  // namespace ration::node
