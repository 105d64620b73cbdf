// Reads the defaults that a user or an administrator configured: [defaults] of the configuration, as texts. Used by
// `ration run` and by commands that plan. Promise: a problem in any part of the configuration is never ignored, but is
// an error with line and column, or, in the machine's file while its daemon holds accepted values, a doubt.
#pragma once

#include <map>
#include <string>

#include "base/result.hpp"
#include "config/configuration.hpp"

namespace ration::config {

/// The value of a setting and the place where it was written.
struct Setting {
  std::string value;
  std::string source;  ///< `/etc/ration/ration.toml:4`
};

/// What applies to every run that does not say otherwise.
struct Settings {
  std::map<std::string, Setting> values;  ///< keys of [defaults] that are set: limit, guarantee, gpu, on_deny, …
  std::string doubt;                      ///< mistake in the machine's file; empty if the file is good
};

/// Keeps the defaults of the machine's file (/etc/ration/ration.toml) for read_settings(), which then does not depend
/// on a later mistake in that file. Called by the daemon of the machine for each configuration that it accepts.
void keep_accepted(const Configuration& accepted);

/// Reads the settings from all configuration files and, with [compat] hami, from the variable by which HAMi limits a
/// container. If the machine's file has a mistake, takes what its daemon accepted before. Fails with E1601.
[[nodiscard]] Result<Settings> read_settings();

}  // namespace ration::config
