#include "policy/settings.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/bytes.hpp"
#include "base/units.hpp"
#include "policy/text.hpp"

namespace ration::policy {
namespace {

enum class Shape { kText, kSize, kFlag };
const std::map<std::string, Shape> kKeys{
    {"limit", Shape::kSize},           {"guarantee", Shape::kSize}, {"gpu", Shape::kText},
    {"on_deny", Shape::kText},         {"account", Shape::kText},   {"tenant", Shape::kText},
    {"summary", Shape::kText},         {"growth", Shape::kFlag},    {"framework_hints", Shape::kFlag},
    {"require_enforced", Shape::kFlag}};

std::string place(const std::string& name, const toml::source_region& region) {
  return fmt::format("{}:{}:{}", name, region.begin.line, region.begin.column);
}

tl::unexpected<Error> wrong(const std::string& where, const std::string& what, const std::string& fix) {
  return fail("E1601", fmt::format("{}: {} (nothing was applied)", where, what), fix, 2);
}

tl::unexpected<Error> unknown_key(const std::string& where, const std::string& key,
                                  const std::vector<std::string>& known) {
  const std::string meant = nearest(key, known);
  return wrong(where,
               fmt::format("unknown key '{}'{}", key, meant.empty() ? "" : fmt::format(" - did you mean '{}'?", meant)),
               fmt::format("Known here: {}", fmt::join(known, ", ")));
}

/// The line of a table's header that no table can have, or 0. The parser takes such a header for granted (toml++ 3.3
/// asserts it), so it is looked at first; found by fuzzing.
std::size_t broken_header(std::string_view document) {
  std::size_t line = 1;
  for (std::size_t at = 0; at < document.size(); ++line) {
    const std::size_t end = std::min(document.find('\n', at), document.size());
    std::string_view text = document.substr(at, end - at);
    at = end + 1;
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    if (text.empty() || text.front() != '[') continue;
    text.remove_prefix(text.size() > 1 && text[1] == '[' ? 2 : 1);
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    const bool key = !text.empty() && (std::isalnum(static_cast<unsigned char>(text.front())) != 0 ||
                                       std::string_view("_-\"'").find(text.front()) != std::string_view::npos);
    if (!key) return line;
  }
  return 0;
}

/// The line with something that these files have no use for: letters beyond ASCII outside quotes and comments, strings
/// over several lines, arrays, inline tables; 0: none. The parser's own answer to malformed ones of these is undefined
/// (toml++ 3.3; found by fuzzing).
std::size_t unusual_line(std::string_view document) {
  std::size_t line = 1;
  char quote = 0;
  bool comment = false, begun = false;
  for (std::size_t i = 0; i < document.size(); ++i) {
    const char letter = document[i];
    if (letter == '\n') {
      if (quote != 0) return line;
      ++line;
      comment = begun = false;
    } else if (comment) {
      continue;
    } else if (quote != 0) {
      if (letter == '\\' && quote == '"')
        ++i;
      else if (letter == quote)
        quote = 0;
    } else if (letter == '"' || letter == '\'') {
      const bool starts = i == 0 || std::string_view(" \t\n=[.").find(document[i - 1]) != std::string_view::npos;
      if (!starts || document.substr(i, 3) == std::string(3, letter)) return line;
      quote = letter;
    } else if (letter == '#') {
      comment = true;
    } else if (static_cast<unsigned char>(letter) >= 0x80 || letter == '{' || letter == '}' ||
               (letter == '[' && begun && document[i - 1] != '[')) {
      return line;
    }
    begun = begun || (letter != ' ' && letter != '\t' && letter != '\n');
  }
  return quote != 0 ? line : 0;
}

}  // namespace

Result<Settings> parse_settings(std::string_view document, const std::string& name) {
  Settings settings;
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (document.substr(0, 3) == kByteOrderMark) document.remove_prefix(3);
  if (const std::size_t line = unusual_line(document); line != 0) {
    return wrong(fmt::format("{}:{}:1", name, line), "a value is a text in quotes on one line, a number, true or false",
                 "limit = \"4GiB\"");
  }
  if (const std::size_t line = broken_header(document); line != 0) {
    return wrong(fmt::format("{}:{}:1", name, line), "this is no table's header", "See: ration help config");
  }
  toml::table root;
  try {
    root = toml::parse(document);
  } catch (const toml::parse_error& error) {
    return wrong(place(name, error.source()), std::string(error.description()), "See: ration help config");
  }
  for (const auto& [key, node] : root) {
    const std::string text{key.str()};
    if (text == "schema") {
      // A number with a point is asked for nothing: the parser would convert it, whatever its size.
      if (!node.is_integer() || node.value_or(std::int64_t{0}) != 1)
        return wrong(place(name, node.source()), "schema must be 1", "schema = 1");
    } else if (text != "defaults" || !node.is_table()) {
      return unknown_key(place(name, key.source()), text, {"schema", "defaults"});
    }
  }
  const toml::table* defaults = root["defaults"].as_table();
  if (defaults == nullptr) return settings;
  for (const auto& [key, node] : *defaults) {
    const std::string text{key.str()};
    const std::string where = place(name, key.source());
    const auto known = kKeys.find(text);
    if (known == kKeys.end()) {
      std::vector<std::string> names;
      for (const auto& entry : kKeys) names.push_back(entry.first);
      return unknown_key(where, text, names);
    }
    if (known->second == Shape::kFlag) {
      if (!node.is_boolean())
        return wrong(where, fmt::format("'{}' is true or false", text), fmt::format("{} = true", text));
      settings[text] = {*node.value<bool>() ? "true" : "false", where};
      continue;
    }
    if (!node.is_string())
      return wrong(where, fmt::format("'{}' is a text in quotes", text), fmt::format("{} = \"…\"", text));
    const auto value = *node.value<std::string>();
    if (known->second == Shape::kSize) {
      // Against a device of any size: only the form is checked here.
      if (const auto size = parse_size(value, kUnlimited, kUnlimited); !size)
        return wrong(where, size.error().what, size.error().fix);
    }
    settings[text] = {value, where};
  }
  return settings;
}

Result<Settings> read_settings() {
  std::vector<std::string> files{"/etc/ration/ration.toml"};
  const char* own = std::getenv("RATION_CONFIG");
  if (own != nullptr && *own != '\0') {
    files.emplace_back(own);
  } else if (const char* home = std::getenv("XDG_CONFIG_HOME"); home != nullptr && *home != '\0') {
    files.push_back(std::string(home) + "/ration/ration.toml");
  } else if (const char* user = std::getenv("HOME"); user != nullptr) {
    files.push_back(std::string(user) + "/.config/ration/ration.toml");
  }
  Settings all;
  for (const std::string& path : files) {
    std::ifstream file(path);
    if (!file) {
      if (own != nullptr && path == own)
        return fail("E1601", fmt::format("{} cannot be read.", path), "unset RATION_CONFIG", 2);
      continue;
    }
    std::stringstream text;
    text << file.rdbuf();
    auto settings = parse_settings(text.str(), path);
    if (!settings) return settings;
    for (auto& [key, setting] : *settings) all[key] = std::move(setting);
  }
  return all;
}

}  // namespace ration::policy
