// Parses the small grammars of HTTP that neither the parser library nor libevent reads: targets, queries, hosts,
// origins, lists. Used by the server and its fuzz target. Promises: any bytes may be given; nothing is read beyond
// these bytes; nothing throws.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ration::http {

/// Decodes escapes, such as `%41` to `A`. Returns nothing for a broken escape or an encoded NUL, which no name
/// contains.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space = false);

struct Target {
  std::string path;  ///< begins with '/', as sent
  std::map<std::string, std::string> query;
};

/// The maximum number of parameters in a query.
inline constexpr std::size_t kMaxParameters = 64;

/// Parses the second word of a request line, in origin form (`/path?query`). Returns nothing for any other form, for
/// bytes that must be escaped, for broken escapes and for too many parameters. The last value of a repeated parameter
/// counts.
[[nodiscard]] std::optional<Target> parse_target(std::string_view target);

/// Parses a decimal number without a sign that fits 64 bits.
[[nodiscard]] std::optional<std::uint64_t> parse_number(std::string_view text);

/// Returns the host without its port: `localhost` for `LocalHost:80`, `::1` for `[::1]:80`. Returns nothing if the text
/// is neither a name nor an address, or has an invalid port.
[[nodiscard]] std::optional<std::string> host_name(std::string_view authority);

/// Returns true if a page of this `Origin` comes from the server that `Host` names: name and port are equal. An origin
/// `null` (a sandboxed or local page) equals no server.
[[nodiscard]] bool same_origin(std::string_view origin, std::string_view host);

/// Returns true if `Accept-Encoding` allows gzip.
[[nodiscard]] bool accepts_gzip(std::string_view accept_encoding);
/// Returns true if `Accept-Encoding` allows an uncompressed body. Only q=0 for `identity` or `*` forbids it.
[[nodiscard]] bool accepts_identity(std::string_view accept_encoding);

/// Returns true if `If-None-Match` contains `tag` (weak comparison, RFC 9110 §13.1.2) or is `*`.
[[nodiscard]] bool tag_matches(std::string_view if_none_match, std::string_view tag);

/// Returns the type without parameters: `application/json` for `Application/JSON; charset=utf-8`.
[[nodiscard]] std::string media_type(std::string_view content_type);

/// Returns the credential in `Authorization: Bearer ...`.
[[nodiscard]] std::optional<std::string_view> bearer_token(std::string_view authorization);

/// Returns true if the secrets are equal. The time of the comparison depends on their lengths alone.
[[nodiscard]] bool same_secret(std::string_view left, std::string_view right) noexcept;

}  // namespace ration::http
