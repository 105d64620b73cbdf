// Reads the defaults that a user or an administrator configured: [defaults] of the configuration, as texts. Used by
// `ration run` and by commands that plan. Promise: a problem in any part of the configuration is never ignored, but is
// an error with line and column.
#pragma once

#include <map>
#include <string>

#include "base/result.hpp"

namespace ration::config {

/// The value of a setting and the place where it was written.
struct Setting {
  std::string value;
  std::string source;  ///< `/etc/ration/ration.toml:4`
};

/// The keys of [defaults] that are set, with their values as texts: limit, guarantee, gpu, on_deny, …
using Settings = std::map<std::string, Setting>;

/// Reads the settings from all configuration files and, with [compat] hami, from the variable by which HAMi limits a
/// container. Fails with E1601.
[[nodiscard]] Result<Settings> read_settings();

}  // namespace ration::config
