// The secrets in links to the dashboard: whoever shows one first, and in time, becomes an operator. Used by the daemon
// for its start, POST /api/v1/session and POST /api/v1/session/link. Promises: each is accepted once, and never after
// it expires; a comparison takes as long for a wrong one as for the right one; they stand in memory only, and at most
// kMaxTokens of them: the oldest gives way.
#pragma once

#include <chrono>
#include <deque>
#include <string>
#include <string_view>

namespace ration::node {

/// 256 bits of the system's, in hexadecimal.
[[nodiscard]] std::string random_secret();

class LoginTokens {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::hours kLifetime{1};
  static constexpr std::size_t kMaxTokens = 16;

  [[nodiscard]] std::string make(Clock::time_point now);
  /// Whether it was one of them, at the first time and in time.
  [[nodiscard]] bool use(std::string_view shown, Clock::time_point now);

 private:
  struct Token {
    std::string secret;
    Clock::time_point until;
  };
  std::deque<Token> tokens_;  ///< the oldest first
};

}  // namespace ration::node
