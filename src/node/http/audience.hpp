// Decides which paths a request may reach without a user and without a token.
// Promise: no handler runs for such a request unless the table lists its path.
#pragma once

#include <optional>
#include <string>

#include "base/message.hpp"
#include "http/message.hpp"

namespace ration::node {

/// The reason for a null field or an empty list in answers to requests without a user and without a token.
extern const FixedMessage kTotalsOnly;

/// Rejects the request (403, E1502) if it has neither user nor token and its route, `pattern`, is not in the table.
[[nodiscard]] std::optional<http::Response> withheld(const http::Request& request, const std::string& pattern);

/// Returns the answer to a request that may see totals only.
[[nodiscard]] http::Response totals_only();

}  // namespace ration::node
