// A configuration between its files and its types: sections with their keys, checked one by one, each value with the
// place it came from. Used only by the files of this folder.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/configuration.hpp"
#include "config/keys.hpp"

namespace ration::config {

struct Leaf {
  const Key* key = nullptr;
  TomlValue value;
  Origin origin;
};

/// One `[daemon]`, or one `[[tenant]]`.
struct Item {
  const Section* section = nullptr;
  std::string identity;  ///< the value of its section's identity key
  Origin origin;
  std::map<std::string, Leaf> leaves;  ///< by name: "limit", "match.users", "set.train"
};

/// Reads the items of a document. All problems with single keys and values are added to `problems`.
[[nodiscard]] std::vector<Item> read_items(const Table& table, const TomlValue& document, const std::string& file,
                                           Problems& problems);

/// Puts a later layer over the items.
void merge(std::vector<Item>& items, std::vector<Item> later);

/// Checks that items have their required keys. Defaults do not count: call it before add_defaults().
void check_items(const std::vector<Item>& items, Problems& problems);

/// Adds the values that no file sets.
void add_defaults(const Table& table, std::vector<Item>& items);

/// Converts the items to their types. Values that did not pass the check are left out.
[[nodiscard]] Configuration to_configuration(const Table& table, const std::vector<Item>& items);

/// Reports values that contradict each other.
void check_consistency(const Configuration& configuration, Problems& problems);

}  // namespace ration::config
