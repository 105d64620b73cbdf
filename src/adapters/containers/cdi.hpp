// Specifications of the Container Device Interface (CNCF CDI 0.5.0: read by Docker 25 and newer, Podman 4, containerd
// 1.7, CRI-O). With such a specification, an engine's own option `--device ration.sh/tenant=nlp` puts a container under
// a limit. Used by the daemon, which writes specifications for its tenants and its slices, and by `ration inject`.
// Promises: a specification is complete or absent; only files whose names begin with `ration-` are replaced or removed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace ration::adapters::cdi {

inline constexpr const char* kVendor = "ration.sh";
inline constexpr const char* kFolder = "/var/run/cdi";  ///< engines look here for specifications that change

/// A file or folder of this machine that is mounted in the container.
struct Mount {
  std::string from, to;
  bool writable = false;
};

/// The changes that put any container under a limit.
struct Edits {
  std::string guard{};  ///< folder of the guard on this system
  std::vector<Mount> mounts;
  std::map<std::string, std::string> variables;
  /// The command of the hook: the program, its first arguments, and its environment variables.
  std::string hook;
  std::vector<std::string> hook_words;
  std::map<std::string, std::string> hook_variables;
};

/// A device of containers, `ration.sh/CLASS=NAME`.
struct Device {
  std::string kind;  ///< class: gpu, tenant, limit
  std::string name;

  [[nodiscard]] std::string qualified() const { return std::string(kVendor) + "/" + kind + "=" + name; }
};

/// The verb of ration that the hook runs.
inline constexpr const char* kHookVerb = "container-hook";

/// The hook that a runtime runs on this machine after it has made a container and before the container's program
/// starts. No hook runs at the container's end: a runtime takes 5 to 10 ms for each hook, and the daemon notices the
/// end without a hook.
struct Hook {
  std::string when;  ///< createRuntime
  std::string path;
  std::vector<std::string> words;      ///< begins with the program's own name
  std::vector<std::string> variables;  ///< NAME=VALUE
};
[[nodiscard]] Hook hook_of(const Device& device, const Edits& edits);
[[nodiscard]] std::vector<std::string> mount_options(const Mount& mount);
/// Returns `NAME=VALUE` for each variable.
[[nodiscard]] std::vector<std::string> assignments(const std::map<std::string, std::string>& variables);

/// Returns true if CDI accepts the name: letters, digits and `_-.:`, with a letter or digit at both ends.
[[nodiscard]] bool is_device_name(const std::string& name);

/// Returns the specification of one class as JSON, without the names that CDI does not accept.
[[nodiscard]] std::string specification(const std::string& kind, const std::vector<std::string>& names,
                                        const Edits& edits);

/// Writes `ration-FILE.json` in `folder`, and makes the folder if it is missing. Fails with E1704 if the file cannot be
/// written.
[[nodiscard]] Result<void> write(const std::string& folder, const std::string& file, const std::string& specification);
/// Removes `ration-FILE.json`; does nothing if it is missing.
void remove(const std::string& folder, const std::string& file);

/// Notes that `ration-FILE.json` is in use, so that remove_oldest() removes it last; does nothing if it is missing.
void note_use(const std::string& folder, const std::string& file);
/// Removes the files whose names begin with `ration-BEGINNING`, except the `kept` files that were written or used last.
void remove_oldest(const std::string& folder, const std::string& beginning, std::size_t kept);

/// Fails with E1705 if a file other than `ration-FILE.json` specifies the same device, because engines reject a device
/// that two files specify.
[[nodiscard]] Result<void> check_unique(const std::vector<std::string>& folders, const std::string& file,
                                        const Device& device);

}  // namespace ration::adapters::cdi
