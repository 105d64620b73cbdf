// The configuration for people: a file to begin with, what holds and where it was written, what changed, and the
// reference. All from the table of keys.
#pragma once

#include <string>
#include <vector>

#include "config/configuration.hpp"

namespace ration::config {

/// A file in which everything is explained and nothing is set.
[[nodiscard]] std::string initial_configuration(const Table& table = sections());

/// Every value that holds, as a file, with the place it came from behind it.
[[nodiscard]] std::string printed(const Configuration& configuration, const Table& table = sections());

/// What a reload changes, a line each: `tenant nlp: limit 16GiB → 20GiB (/etc/ration/ration.toml:31)`.
[[nodiscard]] std::vector<std::string> difference(const Configuration& before, const Configuration& after);

/// A key as a file has it: `match.label."app.io/team"`.
[[nodiscard]] std::string written_key(const std::string& section, const std::string& key,
                                      const Table& table = sections());

/// One key for the manual: what its value looks like, and its default.
struct KeyText {
  std::string name, form, standard, meaning, example;
};
struct SectionText {
  std::string header, meaning;  ///< `[[tenant]]`
  std::vector<KeyText> keys;
};
[[nodiscard]] std::vector<SectionText> reference(const Table& table = sections());
/// How several files make one configuration, and what rules can watch.
[[nodiscard]] std::string layers_text();
[[nodiscard]] std::string rules_text();

}  // namespace ration::config
