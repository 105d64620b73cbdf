#include "policy/settings.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <toml++/toml.h>

#include "base/bytes.hpp"
#include "base/units.hpp"
#include "policy/text.hpp"

namespace ration::policy {
namespace {

enum class Shape { kText, kSize, kFlag };
const std::map<std::string, Shape> kKeys{{"limit", Shape::kSize},       {"guarantee", Shape::kSize}, {"gpu", Shape::kText},
                                         {"on_deny", Shape::kText},     {"account", Shape::kText},   {"tenant", Shape::kText},
                                         {"summary", Shape::kText},     {"growth", Shape::kFlag},    {"framework_hints", Shape::kFlag},
                                         {"require_enforced", Shape::kFlag}};

std::string place(const std::string& name, const toml::source_region& region) {
  return fmt::format("{}:{}:{}", name, region.begin.line, region.begin.column);
}

tl::unexpected<Error> wrong(const std::string& where, const std::string& what, const std::string& fix) {
  return fail("E1601", fmt::format("{}: {} (nothing was applied)", where, what), fix, 2);
}

tl::unexpected<Error> unknown_key(const std::string& where, const std::string& key, const std::vector<std::string>& known) {
  const std::string meant = nearest(key, known);
  return wrong(where, fmt::format("unknown key '{}'{}", key, meant.empty() ? "" : fmt::format(" - did you mean '{}'?", meant)),
               fmt::format("Known here: {}", fmt::join(known, ", ")));
}

}  // namespace

Result<Settings> parse_settings(std::string_view document, const std::string& name) {
  Settings settings;
  toml::table root;
  try {
    root = toml::parse(document);
  } catch (const toml::parse_error& error) {
    return wrong(place(name, error.source()), std::string(error.description()), "See: ration help config");
  }
  for (const auto& [key, node] : root) {
    const std::string text{key.str()};
    if (text == "schema") {
      if (node.value_or(std::int64_t{0}) != 1) return wrong(place(name, node.source()), "schema must be 1", "schema = 1");
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
      if (!node.is_boolean()) return wrong(where, fmt::format("'{}' is true or false", text), fmt::format("{} = true", text));
      settings[text] = {*node.value<bool>() ? "true" : "false", where};
      continue;
    }
    if (!node.is_string()) return wrong(where, fmt::format("'{}' is a text in quotes", text), fmt::format("{} = \"…\"", text));
    const auto value = *node.value<std::string>();
    if (known->second == Shape::kSize) {
      // Against a device of any size: only the form is checked here.
      if (const auto size = parse_size(value, kUnlimited, kUnlimited); !size) return wrong(where, size.error().what, size.error().fix);
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
      if (own != nullptr && path == own) return fail("E1601", fmt::format("{} cannot be read.", path), "unset RATION_CONFIG", 2);
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
