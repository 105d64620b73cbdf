// The form of a configuration after its files are read and before its values get their types: sections with their keys,
// each checked by itself, and each value with the place where it was written. Used only by the files of this folder.
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

/// A section as it is written once, `[daemon]`, or one item of a section that is written several times, `[[tenant]]`.
struct Item {
  const Section* section = nullptr;
  std::string identity;  ///< the value of its section's identity key
  Origin origin;
  std::map<std::string, Leaf> leaves;  ///< by key: "limit", "match.users", "set.train"
};

/// Reads the items of a document. Adds all problems of single keys and values to `problems`.
[[nodiscard]] std::vector<Item> read_items(const Table& table, const TomlValue& document, const std::string& file,
                                           Problems& problems);

/// Applies a later layer to the items.
void merge(std::vector<Item>& items, std::vector<Item> later);

/// Checks that items have their required keys. Must be called before add_defaults(), since a default does not count.
void check_items(const std::vector<Item>& items, Problems& problems);

/// Adds the values that no file sets.
void add_defaults(const Table& table, std::vector<Item>& items);

/// Converts the items to their types. Values that did not pass the check are left out.
[[nodiscard]] Configuration to_configuration(const Table& table, const std::vector<Item>& items);

/// Reports values that contradict each other.
void check_consistency(const Configuration& configuration, Problems& problems);

}  // namespace ration::config
