// What every path reads from a request, and the document that it answers with.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "http/message.hpp"
#include "node/snapshot/snapshot_json.hpp"
#include "node/state/caller.hpp"

namespace ration::node {

/// A document of this schema around `data`. `source`: NodeHost::source().
[[nodiscard]] http::Response answer(const char* source, const std::string& schema, const nlohmann::json& data,
                                    int status = 200);
/// The same with `data` written already.
[[nodiscard]] http::Response answer_text(const char* source, const std::string& schema, const std::string& data,
                                         int status = 200);

/// Root, the daemon's own user, members of group `ration`, and whoever has the token, are operators.
[[nodiscard]] Viewer viewer_of(const http::Peer& peer);
/// Who asks, for what he may change and for the record.
[[nodiscard]] Caller caller_of(const http::Request& request);
/// The body as a JSON object. E1521.
[[nodiscard]] Result<nlohmann::json> body_of(const http::Request& request);
/// Whether the request asks only what would be: `?dry_run=1`.
[[nodiscard]] bool is_dry_run(const http::Request& request);
/// A text field; empty: not given. E1521: another type.
[[nodiscard]] Result<std::string> text_field(const nlohmann::json& body, const char* name);
/// Texts; none: not given. E1521: another type.
[[nodiscard]] Result<std::vector<std::string>> list_field(const nlohmann::json& body, const char* name);
/// A flag; false: not given. E1521: another type.
[[nodiscard]] Result<bool> flag_field(const nlohmann::json& body, const char* name);
/// An integer; none: not given. E1521: another type, or not from `least` to `most`.
[[nodiscard]] Result<std::optional<std::int64_t>> number_field(const nlohmann::json& body, const char* name,
                                                               std::int64_t least, std::int64_t most);

}  // namespace ration::node
