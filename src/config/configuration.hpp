// The whole configuration of a node (ration.toml): how much each tenant may use, when, and how the daemon acts on it.
// Used by the daemon, by `ration config`, and through settings.hpp by `ration run`. Promises: every value has the place
// where it was written; a file with any problem is rejected as a whole, and every problem has its line and column;
// nothing here reads the clock, the driver or the network.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/toml_document.hpp"
#include "config/alerts.hpp"
#include "config/values.hpp"

namespace ration::config {

/// The place where a value was written; a default has no file.
struct Origin {
  std::string file;
  FilePlace place;

  [[nodiscard]] bool is_default() const { return file.empty(); }
  /// Returns `default`, or the place: `/etc/ration/ration.toml:31`, without the line if there is none.
  [[nodiscard]] std::string text() const {
    return is_default() ? "default" : place.line == 0 ? file : file + ":" + std::to_string(place.line);
  }
};

template <typename Value>
struct Sourced {
  Value value{};
  Origin origin;
};

struct Daemon {
  Sourced<std::string> socket, listen, token_file, state;
  Sourced<std::chrono::nanoseconds> sample, sample_idle;
  Sourced<bool> metrics_processes;
};

// The enumerators below have the order of their choices in keys.cpp.
enum class Ungoverned { kReport, kWarn, kTerminate };
enum class Per { kWorkload, kUser, kAll };
enum class IdleAction { kReport, kTrim, kSuspend };
enum class Anonymous { kTotals, kAll };
enum class Basis { kUsed, kLimit, kUsedOrGuarantee, kPeak };
enum class ShareIdle { kNone, kEven, kWeighted };

struct Defaults {
  Sourced<Amount> limit, host_limit, guarantee;
  Sourced<std::string> gpu, on_deny, account, managed, tenant, summary;
  Sourced<bool> growth, framework_hints, require_enforced;
  Sourced<Ungoverned> ungoverned;
  Sourced<std::chrono::nanoseconds> grace;
};

struct DeviceRule {
  Sourced<std::string> match;  ///< index, UUID or name
  Sourced<Amount> keep_free;
  Sourced<std::vector<std::string>> slices;  ///< shares as parse_shares() of slices.hpp reads them
};

/// The workloads that a tenant or policy applies to. A kind of pattern, such as `users`, fits if one of its patterns
/// fits. All kinds that are given must fit or, with `any`, at least one of them.
struct Match {
  Sourced<std::vector<std::string>> users, groups, cgroup, service, image;
  std::map<std::string, Sourced<std::vector<std::string>>> labels;
  Sourced<bool> any;
};

struct Tenant {
  Sourced<std::string> name;
  Match match;
  Sourced<Amount> guarantee, limit;
  Sourced<std::optional<double>> soft;  ///< percent of the limit
  Sourced<std::int64_t> priority;
  Sourced<std::optional<Price>> price;
};

struct Idle {
  Sourced<std::optional<std::chrono::nanoseconds>> after;  ///< absent for never
  Sourced<double> below;                                   ///< percent of activity
  Sourced<IdleAction> action;
  Sourced<std::optional<std::chrono::nanoseconds>> suspend_after;  ///< absent for never, unless the action is suspend
};

struct Policy {
  Match match;
  Sourced<Per> per;
  Sourced<Amount> limit;
  Sourced<Amount> host_limit;  ///< limit of pinned host memory for each workload
  Sourced<bool> record;        ///< true to keep a recording of each run
  Idle idle;
};

struct Schedule {
  Sourced<Hours> when;
  Sourced<Days> days;
  std::map<std::string, Sourced<Amount>> set;  ///< tenants' limits
};

struct AlertSettings {
  Sourced<std::vector<AlertRule>> rules;
  Sourced<std::string> webhook;
};

struct Report {
  Sourced<Basis> basis;
  Sourced<std::string> currency;
  Sourced<ShareIdle> share_idle;
  Sourced<std::chrono::nanoseconds> retention;
  Sourced<std::optional<Price>> price;
};

/// One value and its place, for commands that show all values.
struct Row {
  std::string section;  ///< such as "tenant"
  std::string item;     ///< such as "nlp"; "1", "2" for policies and schedules; otherwise empty
  std::string key;      ///< such as "match.users"
  std::string text;     ///< such as "16GiB"
  std::string value;    ///< as in a file: "\"16GiB\""
  Origin origin;
};

struct Http {
  Sourced<Anonymous> anonymous;
};

struct Containers {
  Sourced<std::string> cdi;  ///< a folder, `auto` or `none`
};

struct Recordings {
  Sourced<Amount> keep;  ///< most bytes of each user's kept recordings; a percentage is a share of their file system
};

struct Configuration {
  Daemon daemon;
  Http http;
  Containers containers;
  Defaults defaults;
  std::vector<DeviceRule> devices;
  std::vector<Tenant> tenants;
  std::vector<Policy> policies;
  std::vector<Schedule> schedules;
  AlertSettings alerts;
  Report report;
  Recordings recordings;
  Sourced<bool> compat_hami;

  std::vector<Row> rows;  ///< every value including defaults, section by section
};

struct Section;
using Table = std::vector<Section>;
/// Returns the keys that a file may contain, from keys.cpp.
[[nodiscard]] const Table& sections();

/// One file: its name for messages, and its content.
struct Layer {
  std::string name, text;
};

struct Reading {
  Configuration configuration;        ///< valid only if there are no problems
  std::vector<FileProblem> problems;  ///< problems of single values by file and line, followed by contradictions
};

/// Reads the defaults and applies each layer to the result of the layers before it. A single key replaces the same key;
/// items with the same identity (a tenant's name, a device's match) are merged; new tenants, devices, policies and
/// schedules come before those of earlier layers, so that the last layer's items match first; lists are replaced as a
/// whole.
[[nodiscard]] Reading parse_configuration(const std::vector<Layer>& layers, const Table& table = sections());

/// Returns the first problem as E1601, `file:line:column: what`, with the number of further problems, and with the
/// person who can correct the file if it is not this user.
[[nodiscard]] Error rejected(const std::vector<FileProblem>& problems);

/// Returns the default folder for the state of this user's daemon.
[[nodiscard]] std::string default_state_folder();

/// A configuration file, whether it exists or not.
struct ConfigurationFile {
  std::string path;
  bool required = false;  ///< true for the file that RATION_CONFIG names
};
/// Returns the places of the files: /etc/ration/ration.toml, then $XDG_CONFIG_HOME/ration/ration.toml (or
/// RATION_CONFIG).
[[nodiscard]] std::vector<ConfigurationFile> configuration_files();

/// Reads the existing files. Fails with E1601 if a required one cannot be read.
[[nodiscard]] Result<std::vector<Layer>> read_layers(const std::vector<ConfigurationFile>& files);

/// Reads the whole configuration. Fails with E1601.
[[nodiscard]] Result<Configuration> read_configuration();

}  // namespace ration::config
