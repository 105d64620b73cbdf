// Every key that a configuration file may have, in one table. The reader checks, converts and suggests by it, and
// `ration config init` and `print`, ration.toml(5), `ration help config` and the JSON schema are made from it, so that
// they cannot differ. A new key is one row of the table in keys.cpp and its field in configuration.hpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/configuration.hpp"

namespace ration::config {

struct Key;
using Problems = std::vector<FileProblem>;

/// The form of a key's value: a row of shapes.hpp.
struct Shape {
  const char* name;      ///< for people
  TomlValue::Kind kind;  ///< its TOML type
};

/// The field of the configuration that a key sets, and the shape by which it is read. Made by field<> of shapes.hpp.
struct Field {
  const Shape* shape;
  /// Adds the problems of a value, with `file` left empty.
  void (*check)(const Key& key, const TomlValue& value, Problems& problems);
  /// Sets the field; in a section written several times that of the last item. For a wrong value sets only the origin.
  void (*store)(const Key& key, const TomlValue& value, const Origin& origin, Configuration& all);
};

struct Key {
  const char* name;  ///< below the section: `limit`, `match.users`; `set.*`: any names
  Field field;
  const char* standard;  ///< its default, without quotes; "": none
  const char* meaning;
  const char* example;  ///< as written in a file; a test reads every one
  std::vector<std::string> choices = {};

  [[nodiscard]] bool any_names() const { return name[std::char_traits<char>::length(name) - 1] == '*'; }
};

struct Section {
  const char* name;
  const char* identity;         ///< key that identifies an item, so that a later file can change it; nullptr: none
  void (*add)(Configuration&);  ///< begins an item of a section written several times, [[name]]; nullptr: written once
  const char* meaning;
  std::vector<Key> keys;

  [[nodiscard]] bool several() const { return add != nullptr; }
};

// The table itself, sections(), is declared in configuration.hpp.

/// Returns the section; nullptr: unknown.
[[nodiscard]] const Section* find_section(const Table& table, const std::string& name);
/// Returns the key; `set.train` finds `set.*`. nullptr: unknown.
[[nodiscard]] const Key* find_key(const Section& section, const std::string& name);
/// Returns the keys at one level of a section: below "match" users, groups, …
[[nodiscard]] std::vector<std::string> known_below(const Section& section, const std::string& prefix);

/// Formats a value as TOML: `"4GiB"`, `true`, `["a", "b"]`.
[[nodiscard]] std::string as_toml(const TomlValue& value);
/// Formats a text as TOML, in quotes.
[[nodiscard]] std::string quoted(const std::string& text);

}  // namespace ration::config
