#include "node/login_token.hpp"

#include <gtest/gtest.h>

#include <set>

namespace ration::node {
namespace {

using namespace std::chrono_literals;

const LoginToken::Clock::time_point kStart{1h};

TEST(LoginToken, IsAcceptedOnce) {
  LoginToken token("secret", kStart + 1h);
  EXPECT_FALSE(token.use("secreT", kStart));
  EXPECT_FALSE(token.use("", kStart));
  EXPECT_TRUE(token.use("secret", kStart + 59min)) << "wrong ones do not use it up";
  EXPECT_FALSE(token.use("secret", kStart + 59min));
  EXPECT_FALSE(token.use("", kStart)) << "what is used up is no secret of no length";
}

TEST(LoginToken, ExpiresAndIsNotThereUnlessItIsMade) {
  LoginToken token("secret", kStart + 1h);
  EXPECT_FALSE(token.use("secret", kStart + 1h));
  LoginToken none;
  EXPECT_FALSE(none.use("", kStart));
}

TEST(LoginToken, SecretsAreLongAndDifferent) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string secret = random_secret();
    EXPECT_EQ(secret.size(), 64U);
    EXPECT_EQ(secret.find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_TRUE(seen.insert(secret).second);
  }
}

}  // namespace
}  // namespace ration::node
