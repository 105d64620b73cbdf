// Writes the configuration as text for people: a file to start from, the values with their places, the changes of a
// reload, and the reference. Everything is made from the table of keys.
#pragma once

#include <string>
#include <vector>

#include "config/configuration.hpp"

namespace ration::config {

/// Returns a file that explains every key and sets none.
[[nodiscard]] std::string initial_configuration(const Table& table = sections());

/// Returns every value as in a file, each followed by the place where it was written.
[[nodiscard]] std::string printed(const Configuration& configuration, const Table& table = sections());

/// Returns the changes of a reload, one per line: `tenant nlp: limit 16GiB → 20GiB (/etc/ration/ration.toml:31)`.
[[nodiscard]] std::vector<std::string> difference(const Configuration& before, const Configuration& after);

/// Returns a key as written in a file: `match.label."app.io/team"`.
[[nodiscard]] std::string written_key(const std::string& section, const std::string& key,
                                      const Table& table = sections());

/// One key for the manual: the form of its value, and its default.
struct KeyText {
  std::string name, form, standard, meaning, example;
};
struct SectionText {
  std::string header, meaning;  ///< such as `[[tenant]]`
  std::vector<KeyText> keys;
};
[[nodiscard]] std::vector<SectionText> reference(const Table& table = sections());
/// Return texts that explain how several files make one configuration, and which measures rules can watch.
[[nodiscard]] std::string layers_text();
[[nodiscard]] std::string rules_text();

}  // namespace ration::config
