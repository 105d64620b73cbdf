// One-time secrets in links to the dashboard, each of which makes its first user an operator.
// Promises: a secret is accepted once, and not after it expires; comparison takes constant time; secrets are in memory
// only, at most kMaxTokens of them, of which the oldest is dropped first.
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
  /// Returns true for a known, unexpired secret, and forgets it.
  [[nodiscard]] bool use(std::string_view shown, Clock::time_point now);

 private:
  struct Token {
    std::string secret;
    Clock::time_point until;
  };
  std::deque<Token> tokens_;  ///< oldest first
};

}  // namespace ration::node
