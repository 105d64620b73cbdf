#include "node/http/login_token.hpp"

#include <gtest/gtest.h>

#include <set>

namespace ration::node {
namespace {

using namespace std::chrono_literals;

const LoginTokens::Clock::time_point kStart{1h};

TEST(LoginTokens, EachIsAcceptedOnce) {
  LoginTokens tokens;
  const std::string first = tokens.make(kStart), second = tokens.make(kStart + 1min);
  EXPECT_FALSE(tokens.use(random_secret(), kStart));
  EXPECT_FALSE(tokens.use("", kStart));
  EXPECT_TRUE(tokens.use(second, kStart + 2min)) << "wrong ones do not use it up";
  EXPECT_FALSE(tokens.use(second, kStart + 2min));
  EXPECT_TRUE(tokens.use(first, kStart + 59min)) << "a newer one takes nothing away";
  EXPECT_FALSE(tokens.use("", kStart)) << "no token is accepted where none is left";
}

TEST(LoginTokens, EachExpiresAnHourAfterItWasMade) {
  LoginTokens tokens;
  const std::string first = tokens.make(kStart), second = tokens.make(kStart + 1min);
  EXPECT_FALSE(tokens.use(first, kStart + 1h));
  EXPECT_TRUE(tokens.use(second, kStart + 1h));
}

TEST(LoginTokens, TheOldestGivesWayWhereThereAreTooMany) {
  LoginTokens tokens;
  const std::string oldest = tokens.make(kStart), next = tokens.make(kStart);
  for (std::size_t i = 1; i < LoginTokens::kMaxTokens; ++i) (void)tokens.make(kStart);
  EXPECT_FALSE(tokens.use(oldest, kStart));
  EXPECT_TRUE(tokens.use(next, kStart));
}

TEST(LoginTokens, SecretsAreLongAndDifferent) {
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
