#include "http/grammar.hpp"

#include <algorithm>
#include <charconv>

#include "base/strings.hpp"

namespace ration::http {
namespace {

int hexadecimal(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
  return -1;
}

bool letter_or_digit(char letter) {
  return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
}

/// Takes the text before the next `separator` off the front of `rest`.
std::string_view take(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

struct Authority {
  std::string host;
  std::string_view port;  ///< empty if none is given
};

std::optional<Authority> parse_authority(std::string_view text) {
  Authority parsed;
  if (!text.empty() && text.front() == '[') {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return {};
    parsed.host = lower(text.substr(1, end - 1));
    const bool address = std::all_of(parsed.host.begin(), parsed.host.end(), [](char letter) {
      return hexadecimal(letter) >= 0 || letter == ':' || letter == '.';
    });
    if (!address) return {};
    text.remove_prefix(end + 1);
  } else {
    const std::size_t end = std::min(text.find(':'), text.size());
    parsed.host = lower(text.substr(0, end));
    const bool name = std::all_of(parsed.host.begin(), parsed.host.end(), [](char letter) {
      return letter_or_digit(letter) || letter == '-' || letter == '.' || letter == '_';
    });
    if (!name) return {};
    text.remove_prefix(end);
  }
  if (parsed.host.empty()) return {};
  if (text.empty()) return parsed;
  if (text.front() != ':') return {};
  parsed.port = text.substr(1);
  const auto port = parse_number(parsed.port);
  if (!port || *port > 65535) return {};
  return parsed;
}

/// Returns true if a list such as `gzip;q=0.5, *;q=0` allows `coding`. Returns `otherwise` if the list does not mention
/// `coding`.
bool allows(std::string_view list, std::string_view coding, bool otherwise) {
  std::optional<bool> named, any;
  while (!list.empty()) {
    std::string_view item = take(list, ',');
    const std::string name = lower(trimmed(take(item, ';')));
    bool allowed = true;
    while (!item.empty()) {
      const std::string parameter = lower(trimmed(take(item, ';')));
      if (parameter.rfind("q=", 0) == 0) allowed = parameter.find_first_of("123456789", 2) != std::string::npos;
    }
    if (name == coding) named = allowed;
    if (name == "*") any = allowed;
  }
  return named.value_or(any.value_or(otherwise));
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char letter = text[i];
    if (letter == '%') {
      if (text.size() - i < 3) return {};
      const int high = hexadecimal(text[i + 1]), low = hexadecimal(text[i + 2]);
      if (high < 0 || low < 0) return {};
      letter = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (plus_is_space && letter == '+') {
      letter = ' ';
    }
    if (letter == '\0') return {};
    result.push_back(letter);
  }
  return result;
}

std::optional<Target> parse_target(std::string_view target) {
  if (target.empty() || target.front() != '/') return {};
  const auto printable = [](char letter) { return letter > ' ' && letter < '\x7f'; };
  if (!std::all_of(target.begin(), target.end(), printable)) return {};
  target = target.substr(0, target.find('#'));
  Target parsed;
  parsed.path = take(target, '?');
  if (!percent_decode(parsed.path)) return {};
  std::size_t parameters = 0;
  while (!target.empty()) {
    std::string_view pair = take(target, '&');
    if (pair.empty()) continue;
    if (++parameters > kMaxParameters) return {};
    const auto name = percent_decode(take(pair, '='), true);
    auto value = percent_decode(pair, true);
    if (!name || !value) return {};
    parsed.query[*name] = std::move(*value);
  }
  return parsed;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || problem != std::errc{} || end != text.data() + text.size()) return {};
  return number;
}

std::optional<std::string> host_name(std::string_view authority) {
  auto parsed = parse_authority(authority);
  if (!parsed) return {};
  return std::move(parsed->host);
}

bool same_origin(std::string_view origin, std::string_view host) {
  std::string_view standard_port;
  const std::string scheme = lower(origin.substr(0, 8));
  if (scheme.rfind("http://", 0) == 0) {
    standard_port = "80";
    origin.remove_prefix(7);
  } else if (scheme == "https://") {
    standard_port = "443";
    origin.remove_prefix(8);
  } else {
    return false;
  }
  const auto page = parse_authority(origin), server = parse_authority(host);
  if (!page || !server || page->host != server->host) return false;
  const auto port = [&](const Authority& side) { return side.port.empty() ? standard_port : side.port; };
  return port(*page) == port(*server);
}

bool accepts_gzip(std::string_view accept_encoding) { return allows(accept_encoding, "gzip", false); }

bool accepts_identity(std::string_view accept_encoding) { return allows(accept_encoding, "identity", true); }

bool tag_matches(std::string_view if_none_match, std::string_view tag) {
  const auto strong = [](std::string_view text) { return text.substr(0, 2) == "W/" ? text.substr(2) : text; };
  while (!if_none_match.empty()) {
    const std::string_view one = trimmed(take(if_none_match, ','));
    if (one == "*" || (!one.empty() && strong(one) == strong(tag))) return true;
  }
  return false;
}

std::string media_type(std::string_view content_type) { return lower(trimmed(take(content_type, ';'))); }

std::optional<std::string_view> bearer_token(std::string_view authorization) {
  if (lower(authorization.substr(0, 7)) != "bearer ") return {};
  return trimmed(authorization.substr(7));
}

bool same_secret(std::string_view left, std::string_view right) noexcept {
  if (left.size() != right.size()) return false;
  volatile unsigned char difference = 0;
  for (std::size_t i = 0; i < left.size(); ++i)
    difference = static_cast<unsigned char>(difference | static_cast<unsigned char>(left[i] ^ right[i]));
  return difference == 0;
}

}  // namespace ration::http
