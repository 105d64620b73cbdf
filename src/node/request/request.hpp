// Reads requests, and makes documents that answer them.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "http/message.hpp"
#include "node/request/caller.hpp"
#include "node/snapshot/snapshot_json.hpp"

namespace ration::node {

/// Makes a document of this schema around `data`. `source` is the value of RouteHost::source().
[[nodiscard]] http::Response answer(const char* source, const std::string& schema, const nlohmann::json& data,
                                    int status = 200);
/// Makes the same document around serialized `data`.
[[nodiscard]] http::Response answer_text(const char* source, const std::string& schema, const std::string& data,
                                         int status = 200);

/// Identifies the viewer. Operators are root, the daemon's user, members of group `ration`, and holders of the token.
[[nodiscard]] Viewer viewer_of(const http::Peer& peer);
/// Identifies the caller, for permissions and the record.
[[nodiscard]] Caller caller_of(const http::Request& request);
/// Returns the body as a JSON object. Fails with E1521.
[[nodiscard]] Result<nlohmann::json> body_of(const http::Request& request);
/// Returns the error (E1527) for an invalid parameter of the query; `fix` is an example of a valid one.
[[nodiscard]] tl::unexpected<Error> bad_parameter(const std::string& name, const std::string& value,
                                                  const std::string& fix);
/// Returns true if the request has a parameter `dry_run` other than 0 and false.
[[nodiscard]] bool is_dry_run(const http::Request& request);
/// Reads a text; empty if the field is absent. Fails with E1521 for another type.
[[nodiscard]] Result<std::string> text_field(const nlohmann::json& body, const char* name);
/// Reads a list of strings; empty if the field is absent. Fails with E1521 for another type.
[[nodiscard]] Result<std::vector<std::string>> list_field(const nlohmann::json& body, const char* name);
/// Reads a flag; false if the field is absent. Fails with E1521 for another type.
[[nodiscard]] Result<bool> flag_field(const nlohmann::json& body, const char* name);
/// Reads an integer; nothing if the field is absent. Fails with E1521 for another type, or for a number below `least`
/// or above `most`.
[[nodiscard]] Result<std::optional<std::int64_t>> number_field(const nlohmann::json& body, const char* name,
                                                               std::int64_t least, std::int64_t most);

}  // namespace ration::node
