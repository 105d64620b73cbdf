// Checks that a request must pass before any handler sees it. Used by the server. Promises: a page that a browser
// loaded from elsewhere can neither read an answer (no CORS headers, Host must be ours) nor change anything (Origin,
// JSON only); none of this is checked on the Unix socket, which browsers cannot reach.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "http/message.hpp"

namespace ration::http {

struct AccessRules {
  std::vector<std::string> host_names;  ///< in lower case, without port: the allowed values of `Host` on TCP
  std::string token;                    ///< empty: no token is configured
};

/// Returns the rejection (421, 403, 415 or 401), or nothing; then `request.peer.token_accepted` is true if the token
/// was right. `same_origin_only` applies the check also to GET.
[[nodiscard]] std::optional<Response> refused(Request& request, const AccessRules& rules, bool same_origin_only);

}  // namespace ration::http
