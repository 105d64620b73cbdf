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

/// Keeps what the machine's file (/etc/ration/ration.toml) says about the start of programs and containers, so that a
/// later mistake in that file does not stop them. Called by the daemon of the machine for each configuration that it
/// accepts.
void keep_accepted(const Configuration& accepted);

/// The configuration for the start of a program or a container.
struct Accepted {
  Configuration configuration;
  std::string doubt;  ///< mistake in the machine's file, in place of which the accepted values are; else empty
};
/// Reads all configuration files. If the machine's file has a mistake, takes what its daemon accepted before. Fails
/// with E1601.
[[nodiscard]] Result<Accepted> read_accepted();

/// Reads the settings as read_accepted() does and, with [compat] hami, from the variable by which HAMi limits a
/// container. Fails with E1601.
[[nodiscard]] Result<Settings> read_settings();

}  // namespace ration::config
