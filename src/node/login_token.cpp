#include "node/login_token.hpp"

#include <fmt/format.h>

#include <random>

#include "node/http/text.hpp"

namespace ration::node {

std::string random_secret() {
  std::random_device source;
  std::string secret;
  for (int i = 0; i < 8; ++i) secret += fmt::format("{:08x}", source());
  return secret;
}

bool LoginToken::use(std::string_view shown, Clock::time_point now) {
  if (secret_.empty() || now >= until_ || !http::same_secret(shown, secret_)) return false;
  secret_.clear();
  return true;
}

}  // namespace ration::node
