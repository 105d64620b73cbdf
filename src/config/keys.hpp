// Every key that a configuration file may have: one table, from which the reader checks and suggests, `ration config
// init` and `print` are made, and ration.toml(5) and `ration help config` are written, so that they cannot differ.
#pragma once

#include <string>
#include <vector>

#include "base/toml_document.hpp"

namespace ration::config {

/// What the value of a key looks like.
enum class Shape {
  kText,      ///< any text
  kTexts,     ///< a text or a list of them; `*` and `?` stand for any letters, any one letter
  kFlag,      ///< true or false
  kWhole,     ///< an integer
  kName,      ///< of a tenant
  kChoice,    ///< one of `choices`
  kSize,      ///< 4GiB, 50%, max-1GiB
  kSizes,     ///< a list of sizes and at most one "rest"
  kShare,     ///< 90%
  kDuration,  ///< 500ms, 30s, 5m, 2h, 400d
  kOnDeny,    ///< fail, wait, wait:30s
  kSummary,   ///< auto, always, never, json:FILE
  kListen,    ///< 127.0.0.1:7077, [::1]:7077; empty: none
  kUrl,       ///< http://… or https://…; empty: none
  kPrice,     ///< 0.031 EUR/GiB·h
  kActivity,  ///< 1% activity
  kHours,     ///< 22:00-07:00
  kDays,      ///< mon-fri,sun
  kRules,     ///< a list of alert rules
};

struct Key {
  const char* section;
  const char* name;  ///< below the section: `limit`, `match.users`; `set.*`: any names
  Shape shape;
  const char* standard;  ///< its value where nothing is written, without quotes; "": none
  const char* meaning;
  const char* example;  ///< as written in a file; every one is read by a test
  std::vector<std::string> choices = {};
};

struct Section {
  const char* name;
  const char* identity;  ///< key that tells its items apart, so that a later file can change one; nullptr: none
  bool several;          ///< written [[name]]
  const char* meaning;
};

[[nodiscard]] const std::vector<Section>& sections();
[[nodiscard]] const Section* find_section(const std::string& name);

[[nodiscard]] const std::vector<Key>& keys();
/// `set.train` finds `set.*`. nullptr: unknown.
[[nodiscard]] const Key* find_key(const std::string& section, const std::string& name);
/// What may stand at one level of a section: below "match" users, groups, …
[[nodiscard]] std::vector<std::string> known_below(const std::string& section, const std::string& prefix);

/// The same words for people.
[[nodiscard]] const char* shape_name(Shape shape);

/// What is wrong with a value, `place` and `what` and `fix` filled; nothing if nothing is.
[[nodiscard]] std::vector<FileProblem> check_value(const Key& key, const std::string& name, const TomlValue& value);

/// A value as TOML: `"4GiB"`, `true`, `["a", "b"]`.
[[nodiscard]] std::string as_toml(const TomlValue& value);
/// A text as TOML, in quotes.
[[nodiscard]] std::string quoted(const std::string& text);

}  // namespace ration::config
