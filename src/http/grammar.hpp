// The small grammars of HTTP that neither the parser library nor libevent reads: targets, queries, hosts, origins,
// lists. Used by the server and its fuzz target. Promise: any bytes may be given; nothing is read beyond them, nothing
// throws.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ration::http {

/// `%41` becomes `A`. Nothing for a broken escape and for an encoded NUL, which no name has.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space = false);

struct Target {
  std::string path;  ///< begins with '/', as sent
  std::map<std::string, std::string> query;
};

/// The second word of a request line, in origin form (`/path?query`). Nothing for any other form, for bytes that have
/// to be escaped, for broken escapes and for more than kMaxParameters. Of a parameter given twice the last one counts.
inline constexpr std::size_t kMaxParameters = 64;
[[nodiscard]] std::optional<Target> parse_target(std::string_view target);

/// A decimal number without sign that fits 64 bits.
[[nodiscard]] std::optional<std::uint64_t> parse_number(std::string_view text);

/// `LocalHost:80` -> `localhost`, `[::1]:80` -> `::1`. Nothing where it is neither a name nor an address, or the port
/// none.
[[nodiscard]] std::optional<std::string> host_name(std::string_view authority);

/// Whether a page of this `Origin` was loaded from the server that it names in `Host`: the same name and port. `null`
/// (a sandboxed or local page) is nobody.
[[nodiscard]] bool same_origin(std::string_view origin, std::string_view host);

/// Whether `Accept-Encoding` allows gzip.
[[nodiscard]] bool accepts_gzip(std::string_view accept_encoding);
/// Whether `Accept-Encoding` allows a body as it is: true unless `identity` or `*` are refused with q=0.
[[nodiscard]] bool accepts_identity(std::string_view accept_encoding);

/// Whether `If-None-Match` names `tag` (weak comparison, RFC 9110 §13.1.2) or is `*`.
[[nodiscard]] bool tag_matches(std::string_view if_none_match, std::string_view tag);

/// `Application/JSON; charset=utf-8` -> `application/json`.
[[nodiscard]] std::string media_type(std::string_view content_type);

/// The credential of `Authorization: Bearer ...`.
[[nodiscard]] std::optional<std::string_view> bearer_token(std::string_view authorization);

/// Equality in a time that depends on the lengths alone, for secrets.
[[nodiscard]] bool same_secret(std::string_view left, std::string_view right) noexcept;

}  // namespace ration::http
