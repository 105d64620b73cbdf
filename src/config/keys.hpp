// Every key that a configuration file may have: one table, from which the reader checks, converts and suggests, `ration
// config init` and `print` are made, and ration.toml(5), `ration help config` and the JSON schema are written, so that
// they cannot differ. A new key is one row of the table in keys.cpp and its field in configuration.hpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/configuration.hpp"

namespace ration::config {

struct Key;
using Problems = std::vector<FileProblem>;

/// What the value of a key looks like: a row of shapes.hpp.
struct Shape {
  const char* name;      ///< for people
  TomlValue::Kind kind;  ///< how it stands in a file
};

/// The field of the configuration that a key sets, and the shape by which it is read. Made by field<> of shapes.hpp.
struct Field {
  const Shape* shape;
  /// Adds what is wrong with a value, `file` left empty; nothing if nothing is.
  void (*check)(const Key& key, const TomlValue& value, Problems& problems);
  /// Sets the field, of a section written several times that of its last item. Of a value that is wrong only the
  /// origin.
  void (*store)(const Key& key, const TomlValue& value, const Origin& origin, Configuration& all);
};

struct Key {
  const char* name;  ///< below the section: `limit`, `match.users`; `set.*`: any names
  Field field;
  const char* standard;  ///< its value where nothing is written, without quotes; "": none
  const char* meaning;
  const char* example;  ///< as written in a file; every one is read by a test
  std::vector<std::string> choices = {};

  [[nodiscard]] bool any_names() const { return name[std::char_traits<char>::length(name) - 1] == '*'; }
};

struct Section {
  const char* name;
  const char* identity;         ///< key that tells its items apart, so that a later file can change one; nullptr: none
  void (*add)(Configuration&);  ///< begins an item of a section written several times: [[name]]; nullptr: written once
  const char* meaning;
  std::vector<Key> keys;

  [[nodiscard]] bool several() const { return add != nullptr; }
};

// sections(), the table itself, is declared by configuration.hpp.

/// nullptr: unknown.
[[nodiscard]] const Section* find_section(const Table& table, const std::string& name);
/// `set.train` finds `set.*`. nullptr: unknown.
[[nodiscard]] const Key* find_key(const Section& section, const std::string& name);
/// What may stand at one level of a section: below "match" users, groups, …
[[nodiscard]] std::vector<std::string> known_below(const Section& section, const std::string& prefix);

/// A value as TOML: `"4GiB"`, `true`, `["a", "b"]`.
[[nodiscard]] std::string as_toml(const TomlValue& value);
/// A text as TOML, in quotes.
[[nodiscard]] std::string quoted(const std::string& text);

}  // namespace ration::config
