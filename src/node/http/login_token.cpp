#include "node/http/login_token.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "http/grammar.hpp"

namespace ration::node {

std::string random_secret() {
  std::random_device source;
  std::string secret;
  for (int i = 0; i < 8; ++i) secret += fmt::format("{:08x}", source());
  return secret;
}

std::string LoginTokens::make(Clock::time_point now) {
  if (tokens_.size() == kMaxTokens) tokens_.pop_front();
  return tokens_.emplace_back(Token{random_secret(), now + kLifetime}).secret;
}

bool LoginTokens::use(std::string_view shown, Clock::time_point now) {
  while (!tokens_.empty() && now >= tokens_.front().until) tokens_.pop_front();
  return std::erase_if(tokens_, [&](const Token& token) { return http::same_secret(shown, token.secret); }) > 0;
}

}  // namespace ration::node
