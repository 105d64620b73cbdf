// Paths and answers: any name is one part of a path, and what is no answer is an error.
#include "cli/session/node_access.hpp"

#include <gtest/gtest.h>

#include <random>

#include "../temporary.hpp"
#include "http/grammar.hpp"

namespace ration::cli {
namespace {

TEST(PercentEncoded, AnyNameIsReadBackAndIsOnePartOfAPath) {
  std::mt19937 random(18);
  for (int round = 0; round < 20'000; ++round) {
    std::string name;
    for (auto length = random() % 10; length > 0; --length) name += static_cast<char>(1 + random() % 255);
    const std::string encoded = percent_encoded(name);
    EXPECT_EQ(http::percent_decode(encoded), name);
    EXPECT_EQ(encoded.find_first_of("/?&=#+ "), std::string::npos) << encoded;
  }
  EXPECT_EQ(percent_encoded("a-b.c_d~9"), "a-b.c_d~9");
  EXPECT_EQ(percent_encoded(std::string("a\0b", 3)), "a%00b");
}

TEST(DataOf, IsTheDataOfADocumentAndOfNothingElse) {
  EXPECT_EQ(data_of(R"({"schema":"x","data":[1,2]})").value_or(nullptr), nlohmann::json({1, 2}));
  for (const char* text : {"", "{}", "[]", "null", "{\"dat\":1}", "{\"data\":1", "{\"data\":\xff}", "<html>"}) {
    const auto read = data_of(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().id, "E1508") << text;
  }
}

class WithoutADaemon : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  TemporaryVariable runtime_{"RATION_RUNTIME_DIR", folder_.path().c_str()};
  TemporaryVariable config_{"XDG_CONFIG_HOME", folder_.path().c_str()};
  Session session_;
};

TEST_F(WithoutADaemon, OneThatWasNamedIsNotThere) {
  session_.socket = folder_.file("nobody");
  const auto node = NodeAccess::open(session_);
  ASSERT_TRUE(node) << "it is asked when something is wanted of it";
  EXPECT_TRUE((*node)->is_daemon());
  const auto told = (*node)->get("/api/v1/snapshot");
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().id, "E1501");
}

}  // namespace
}  // namespace ration::cli
