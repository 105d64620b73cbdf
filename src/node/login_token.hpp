// The secret in the link that a start prints: whoever shows it first, and in time, becomes an operator. Used by the
// daemon and POST /api/v1/session.
// Promises: it is accepted once; never after `until`; a comparison takes as long for a wrong one as for the right one.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace ration::node {

/// 256 bits of the system's, in hexadecimal.
[[nodiscard]] std::string random_secret();

class LoginToken {
 public:
  using Clock = std::chrono::steady_clock;

  /// None: nothing is accepted.
  LoginToken() = default;
  LoginToken(std::string secret, Clock::time_point until) : secret_(std::move(secret)), until_(until) {}

  /// Whether it was the right one, at the first time and in time.
  [[nodiscard]] bool use(std::string_view shown, Clock::time_point now);
  [[nodiscard]] const std::string& secret() const { return secret_; }

 private:
  std::string secret_;  ///< empty: none, or used
  Clock::time_point until_;
};

}  // namespace ration::node
