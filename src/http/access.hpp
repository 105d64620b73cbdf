// Checks every request before a handler sees it. Used by the server. Promises: a page that a browser loaded from
// elsewhere cannot read an answer (there are no CORS headers, and Host must be ours) and cannot change anything (Origin
// must be ours, and a body must be JSON). On the Unix socket only the token is checked, because browsers cannot reach
// that socket.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "http/message.hpp"

namespace ration::http {

struct AccessRules {
  std::vector<std::string> host_names;  ///< the values of `Host` that TCP clients may send: in lower case, without port
  std::string token;                    ///< empty if none is configured
};

/// Returns the rejection (421, 403, 415 or 401). Returns nothing if the request passes, and sets
/// `request.peer.token_accepted` if the token is right. `same_origin_only` checks the origin of GET requests as well.
[[nodiscard]] std::optional<Response> refused(Request& request, const AccessRules& rules, bool same_origin_only);

}  // namespace ration::http
