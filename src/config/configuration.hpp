// The whole configuration of a node (ration.toml): how much each tenant may use, when, and what the daemon does about
// it. Used by the daemon, by `ration config`, and through settings.hpp by `ration run`. Promises: every value has the
// place where it was written; a file with any problem is rejected as a whole, with every problem's line and column;
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

/// The place where a value was written; without a file it is the default.
struct Origin {
  std::string file;
  FilePlace place;

  [[nodiscard]] bool is_default() const { return file.empty(); }
  /// Returns `/etc/ration/ration.toml:31` or `default`, without the line if there is none.
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

// The enumerators below are in the order of their choices in keys.cpp.
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
  Sourced<std::vector<std::string>> slices;  ///< sizes in the form that parse_sizes() of slices.hpp reads
};

/// The workloads that a tenant or policy applies to. Of each kind of pattern that is written one has to fit; all kinds,
/// or with `any` one.
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
  Sourced<std::optional<std::chrono::nanoseconds>> after;  ///< not set: never
  Sourced<double> below;                                   ///< percent of activity
  Sourced<IdleAction> action;
  Sourced<std::optional<std::chrono::nanoseconds>> suspend_after;  ///< not set: never, unless action says so
};

struct Policy {
  Match match;
  Sourced<Per> per;
  Sourced<Amount> limit;
  Sourced<Amount> host_limit;  ///< of pinned host memory, for each workload
  Idle idle;
};

struct Schedule {
  Sourced<Hours> when;
  Sourced<Days> days;
  std::map<std::string, Sourced<Amount>> set;  ///< limits of tenants
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

/// One value, for commands that show all of them.
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
  Sourced<std::string> cdi;  ///< a folder; `auto`; `none`
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
  Sourced<bool> compat_hami;

  std::vector<Row> rows;  ///< every value that is set, defaults included, section by section
};

struct Section;
using Table = std::vector<Section>;
/// Returns the keys that a file may contain: the table of keys.cpp.
[[nodiscard]] const Table& sections();

/// One file: its name for messages, and its content.
struct Layer {
  std::string name, text;
};

struct Reading {
  Configuration configuration;        ///< valid only if there are no problems
  std::vector<FileProblem> problems;  ///< file by file in the order of the lines; then the contradictions
};

/// Reads the defaults and puts each layer over the ones before it. Single keys replace single keys; items with the same
/// identity (a tenant's name, a device's match) are merged; new tenants, devices, policies and schedules come before
/// those of earlier layers, so that the last layer's match first; lists are replaced as a whole.
[[nodiscard]] Reading parse_configuration(const std::vector<Layer>& layers, const Table& table = sections());

/// Returns the first problem as E1601: `file:line:column: what (nothing was applied)`, and how many more there are.
[[nodiscard]] Error rejected(const std::vector<FileProblem>& problems);

/// Returns the default folder for the state of this user's daemon.
[[nodiscard]] std::string default_state_folder();

/// A configuration file, whether it exists or not.
struct ConfigurationFile {
  std::string path;
  bool required = false;  ///< named by RATION_CONFIG
};
/// Returns /etc/ration/ration.toml, then $XDG_CONFIG_HOME/ration/ration.toml (or RATION_CONFIG).
[[nodiscard]] std::vector<ConfigurationFile> configuration_files();

/// Reads the existing files. E1601 if a required one cannot be read.
[[nodiscard]] Result<std::vector<Layer>> read_layers(const std::vector<ConfigurationFile>& files);

/// Reads the whole configuration. E1601.
[[nodiscard]] Result<Configuration> read_configuration();

}  // namespace ration::config
