// Defaults that a person or an administrator wrote down (ration.toml). Used by `ration run` and everything that plans.
// Promise: an unknown or mistyped key is an error with line and column, never silently ignored.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace ration::policy {

/// Value of a setting and the place it came from.
struct Setting {
  std::string value;
  std::string source;  ///< `/etc/ration/ration.toml:4`, or "default"
};

/// Keys of [defaults], with their values as text: limit, guarantee, gpu, on_deny, account, tenant, summary, growth,
/// framework_hints, require_enforced.
using Settings = std::map<std::string, Setting>;

/// Reads one document. E1601 with `name:line:column`.
[[nodiscard]] Result<Settings> parse_settings(std::string_view document, const std::string& name);

/// /etc/ration/ration.toml, then $XDG_CONFIG_HOME/ration/ration.toml (or RATION_CONFIG) over it.
[[nodiscard]] Result<Settings> read_settings();

}  // namespace ration::policy
