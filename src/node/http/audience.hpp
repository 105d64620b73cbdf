// Which paths a request may reach that shows neither a user nor a token. Used by the daemon's HTTP interface.
// Promise: a path that the table does not name is withheld from such a request, before its handler sees it.
#pragma once

#include <optional>
#include <string>

#include "http/message.hpp"

namespace ration::node {

/// Why a field is null, or a list empty, for a request without a user and without a token.
inline constexpr const char* kTotalsOnly = "totals only: an operator's token shows more (ration dashboard)";

/// Rejects the request (403, E1502) where only totals are for it and its route, `pattern`, is not in the table.
[[nodiscard]] std::optional<http::Response> withheld(const http::Request& request, const std::string& pattern);

/// The answer to a request that may see totals only.
[[nodiscard]] http::Response totals_only();

}  // namespace ration::node
