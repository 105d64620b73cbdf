// Whose limits are remembered over a restart of the daemon.
#include "node/limits/limits.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "base/say.hpp"
#include "config/configuration.hpp"
#include "node/tenants/tenants.hpp"

namespace ration::node {
namespace {

using namespace literals;

class LimitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/ration-limits-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    workload_.path = "/books/train.1.book";
    workload_.owner = 1000;
    workload_.file_number = 7;
    workload_.book.tenant = "nlp";
    workload_.book.accounts.resize(1);
    workload_.book.accounts.front().limit = 4_GiB;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string file() const { return folder_ + "/limits.json"; }

  std::string folder_;
  Workload workload_;
};

TEST_F(LimitsTest, TheSameFileIsTheSameWorkloadWhateverIsWrittenIntoIt) {
  {
    Limits limits(file());
    EXPECT_TRUE(limits.add(workload_));
    ASSERT_TRUE(limits.save());
  }
  workload_.book.accounts.front().limit = 12_GiB;
  workload_.book.tenant = "somebody else";
  workload_.book.created_ns = 5;
  Limits limits(file());
  EXPECT_FALSE(limits.add(workload_));
  EXPECT_EQ(limits.find(workload_.path)->accounts.front().configured, 4_GiB);
  EXPECT_EQ(limits.find(workload_.path)->tenant, "nlp");
}

TEST_F(LimitsTest, AnotherFileAtItsPathIsAnotherWorkload) {
  {
    Limits limits(file());
    EXPECT_TRUE(limits.add(workload_));
    ASSERT_TRUE(limits.save());
  }
  workload_.file_number = 8;
  workload_.book.accounts.front().limit = 12_GiB;
  Limits limits(file());
  EXPECT_TRUE(limits.add(workload_));
  EXPECT_EQ(limits.find(workload_.path)->accounts.front().configured, 12_GiB);
}

TEST_F(LimitsTest, WhatCannotBeWrittenIsSaidEachTime) {
  Limits limits(folder_ + "/nowhere/limits.json");
  EXPECT_TRUE(limits.add(workload_));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(limits.save()) << "somebody may be about to move a program away";
}

TEST_F(LimitsTest, AfterABootNobodyIsKnown) {
  {
    Limits limits(file());
    EXPECT_TRUE(limits.add(workload_));
    ASSERT_TRUE(limits.save());
  }
  std::stringstream text;
  text << std::ifstream(file()).rdbuf();
  std::string other = text.str();
  const std::size_t boot = other.find("\"boot\":\"") + 8;
  other[boot] = other[boot] == '0' ? '1' : '0';
  std::ofstream(file()) << other;
  Limits limits(file());
  EXPECT_TRUE(limits.add(workload_));
}

// Written when a reason was a sentence without an id.
TEST_F(LimitsTest, AReasonOfAnEarlierVersionIsKeptAsItStands) {
  {
    Limits limits(file());
    EXPECT_TRUE(limits.add(workload_));
    EXPECT_TRUE(limits.note_altered(workload_.path, "its book lies"));
    limits.find(workload_.path)->accounts.front().held_back_by = say<"limit.of_tenant">();
    ASSERT_TRUE(limits.save());
  }
  std::stringstream written;
  written << std::ifstream(file()).rdbuf();
  nlohmann::json document = nlohmann::json::parse(written.str());
  nlohmann::json& account = document.at("workloads").at(workload_.path).at("accounts").at(0);
  EXPECT_EQ(account.at("held_back_by_message").at("message_id"), "limit.of_tenant");
  EXPECT_EQ(Limits(file()).find(workload_.path)->accounts.front().held_back_by.id(), "limit.of_tenant");
  account.erase("held_back_by_message");
  account["held_back_by"] = "kept for vision";
  std::ofstream(file()) << document;
  Limits limits(file());
  EXPECT_EQ(limits.damage(), "");
  const OwnedWorkload& owned = *limits.find(workload_.path);
  EXPECT_EQ(owned.accounts.front().held_back_by, "kept for vision");
  EXPECT_EQ(owned.accounts.front().held_back_by.id(), "");
  EXPECT_EQ(owned.altered, "its book lies");
  EXPECT_EQ(owned.altered.id(), "");
}

TEST_F(LimitsTest, ADamagedFileIsKeptAndToldOf) {
  {
    Limits limits(file());
    EXPECT_EQ(limits.damage(), "") << "the first start";
    EXPECT_TRUE(limits.add(workload_));
    ASSERT_TRUE(limits.save());
  }
  std::stringstream text;
  text << std::ifstream(file()).rdbuf();
  const std::string whole = text.str();
  EXPECT_EQ(Limits(file()).damage(), "");
  const auto with = [&](const std::string& now, const std::string& instead) {
    std::string other = whole;
    EXPECT_NE(other.find(now), std::string::npos) << now;
    return other.replace(other.find(now), now.size(), instead);
  };
  const std::vector<std::string> damaged{
      whole.substr(0, whole.size() / 2),         "",
      with("\"owner\":1000", "\"owner\":-1"),    with("\"owner\":1000", "\"owner\":1.5"),
      with("\"owner\":1000", "\"owner\":true"),  with("\"owner\":1000", "\"owner\":4294967296"),
      with("\"effective\":", "\"effective\":-"), with("\"changes\":0", "\"changes\":\"0\""),
      with("\"accounts\":[", "\"accounts\":[7,")};
  for (const std::string& content : damaged) {
    std::ofstream(file()) << content;
    Limits limits(file());
    EXPECT_NE(limits.damage().find("limits.json is damaged"), std::string::npos) << content;
    EXPECT_TRUE(limits.add(workload_)) << content;
    EXPECT_FALSE(std::filesystem::exists(file())) << content;
    const std::size_t name = limits.damage().find(file() + ".damaged-");
    ASSERT_NE(name, std::string::npos) << limits.damage();
    std::string aside = limits.damage().substr(name);
    aside.pop_back();  // the full stop
    std::stringstream kept;
    kept << std::ifstream(aside).rdbuf();
    EXPECT_EQ(kept.str(), content);
  }
}

TEST(Tenants, ASettingEndsOnceTheFileChangesWhatItReplaced) {
  const auto file = [](const std::string& limit) {
    return config::parse_configuration({{"ration.toml", "[[tenant]]\nname = \"nlp\"\nlimit = \"" + limit + "\"\n"}})
        .configuration;
  };
  Tenants tenants("");
  const auto limit = [&](const std::string& configured) {
    (void)tenants.update(file(configured), {});
    return tenants.find("nlp")->limit.text;
  };
  EXPECT_EQ(limit("8GiB"), "8GiB");
  ASSERT_TRUE(tenants.change("nlp", "10GiB", "", "ops"));
  EXPECT_EQ(limit("8GiB"), "10GiB");
  EXPECT_EQ(limit("7GiB"), "7GiB");
  EXPECT_EQ(limit("8GiB"), "8GiB") << "an old setting does not come back";
}

}  // namespace
}  // namespace ration::node
