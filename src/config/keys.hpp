// The table of every key that a configuration file may have. The reader uses this table to check and convert values,
// and to suggest keys. `ration config init` and `print`, ration.toml(5), `ration help config` and the JSON schema are
// made from it, so that they agree. A new key is one row of the table in keys.cpp and its field in configuration.hpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/configuration.hpp"

namespace ration::config {

struct Key;
using Problems = std::vector<FileProblem>;

/// The form of a key's value; shapes.hpp lists all forms.
struct Shape {
  const char* name;      ///< for people
  TomlValue::Kind kind;  ///< its TOML type
};

/// The field of the configuration that a key sets, and the shape by which its value is read; field<> of shapes.hpp
/// makes one.
struct Field {
  const Shape* shape;
  /// Adds the problems of a value and leaves their `file` empty.
  void (*check)(const Key& key, const TomlValue& value, Problems& problems);
  /// Sets the field and its origin; a wrong value sets the origin only. In a section that is written several times,
  /// sets the field of the last item.
  void (*store)(const Key& key, const TomlValue& value, const Origin& origin, Configuration& all);
};

struct Key {
  const char* name;  ///< its name in the section: `limit`, `match.users`; `set.*` stands for any name after `set.`
  Field field;
  const char* standard;  ///< its default without quotes; "" if none
  const char* meaning;
  const char* example;  ///< its value as in a file; a test reads every example
  std::vector<std::string> choices = {};

  [[nodiscard]] bool any_names() const { return name[std::char_traits<char>::length(name) - 1] == '*'; }
};

struct Section {
  const char* name;
  const char* identity;         ///< the key that identifies an item across files; nullptr if none
  void (*add)(Configuration&);  ///< begins an item of a section written several times; nullptr if written once
  const char* meaning;
  std::vector<Key> keys;

  [[nodiscard]] bool several() const { return add != nullptr; }
};

// The table, sections(), is declared in configuration.hpp.

/// Returns the section; nullptr if there is none of that name.
[[nodiscard]] const Section* find_section(const Table& table, const std::string& name);
/// Returns the key; nullptr if there is none of that name. `set.train` finds `set.*`.
[[nodiscard]] const Key* find_key(const Section& section, const std::string& name);
/// Returns the keys at one level of a section: for "match" users, groups, …
[[nodiscard]] std::vector<std::string> known_below(const Section& section, const std::string& prefix);

/// Formats a value as TOML: `"4GiB"`, `true`, `["a", "b"]`.
[[nodiscard]] std::string as_toml(const TomlValue& value);
/// Formats a text as TOML, in quotes.
[[nodiscard]] std::string quoted(const std::string& text);

}  // namespace ration::config
