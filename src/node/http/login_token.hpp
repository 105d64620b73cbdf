// One-time secrets in links to the dashboard. The first user who opens such a link becomes an operator.
// Promises: a secret is accepted once, and not after it expires; comparison takes constant time; secrets are in memory
// only; there are at most kMaxTokens of them, and a further one replaces the oldest.
#pragma once

#include <chrono>
#include <deque>
#include <string>
#include <string_view>

namespace ration::node {

/// Returns 256 random bits from the system, in hexadecimal.
[[nodiscard]] std::string random_secret();

class LoginTokens {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::hours kLifetime{1};
  static constexpr std::size_t kMaxTokens = 16;

  [[nodiscard]] std::string make(Clock::time_point now);
  /// Returns true if `shown` is a known, unexpired secret, and forgets that secret.
  [[nodiscard]] bool use(std::string_view shown, Clock::time_point now);

 private:
  struct Token {
    std::string secret;
    Clock::time_point until;
  };
  std::deque<Token> tokens_;  ///< oldest first
};

}  // namespace ration::node
