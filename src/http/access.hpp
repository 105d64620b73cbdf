// What a request must satisfy before any handler sees it. Used by the server.
// Promises: a page that a browser loaded from elsewhere can neither read an answer (no CORS headers, Host must be ours)
// nor change anything (Origin, JSON only); on the Unix socket, where no browser comes, none of it is asked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "http/message.hpp"

namespace ration::http {

struct AccessRules {
  std::vector<std::string> host_names;  ///< lower case, without port: what `Host` may say on TCP
  std::string token;                    ///< empty: no token is known
};

/// The refusal (421, 403, 415 or 401), or nothing; then `request.peer.token_accepted` says whether the token was right.
/// `same_origin_only`: also for GET.
[[nodiscard]] std::optional<Response> refused(Request& request, const AccessRules& rules, bool same_origin_only);

}  // namespace ration::http
