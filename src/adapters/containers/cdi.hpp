// Specifications of the Container Device Interface (CNCF CDI 0.5.0: read by Docker 25 and newer, Podman 4, containerd
// 1.7, CRI-O), through which an engine's own `--device ration.sh/tenant=nlp` puts a container under a limit. Used by
// the daemon, which writes those of its tenants and slices, and by `ration inject`. Promises: a specification is there
// whole or not at all; only files that begin with ration- are replaced or removed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace ration::adapters::cdi {

inline constexpr const char* kVendor = "ration.sh";
inline constexpr const char* kFolder = "/var/run/cdi";  ///< where engines look for what changes while they run

/// A file or folder of this system that the container gets at the same path.
struct Mount {
  std::string from, to;
  bool writable = false;
};

/// What every container under a limit gets.
struct Edits {
  std::string guard{};  ///< folder of the guard on this system
  std::vector<Mount> mounts;
  std::map<std::string, std::string> variables;
  /// How the hook is started: the program, its words before what it is to do, and its variables.
  std::string hook;
  std::vector<std::string> hook_words;
  std::map<std::string, std::string> hook_variables;
};

/// `ration.sh/CLASS=NAME`.
struct Device {
  std::string kind;  ///< class: gpu, tenant, limit
  std::string name;

  [[nodiscard]] std::string qualified() const { return std::string(kVendor) + "/" + kind + "=" + name; }
};

/// The word by which the hook asks ration for its work.
inline constexpr const char* kHookVerb = "container-hook";

/// What a runtime runs on this system once a container is made, before its program starts. None when it has ended: the
/// daemon sees that by itself, and a runtime takes 5 to 10 ms for each hook.
struct Hook {
  std::string when;  ///< createRuntime
  std::string path;
  std::vector<std::string> words;      ///< with the program's own name in front
  std::vector<std::string> variables;  ///< NAME=VALUE
};
[[nodiscard]] Hook hook_of(const Device& device, const Edits& edits);
[[nodiscard]] std::vector<std::string> mount_options(const Mount& mount);
/// NAME=VALUE of each.
[[nodiscard]] std::vector<std::string> assignments(const std::map<std::string, std::string>& variables);

/// Whether CDI takes the name: letters, digits and `_-.:`, a letter or digit at both ends.
[[nodiscard]] bool is_device_name(const std::string& name);

/// The specification of one class as JSON. A name that CDI does not take is left out.
[[nodiscard]] std::string specification(const std::string& kind, const std::vector<std::string>& names,
                                        const Edits& edits);

/// Writes `ration-FILE.json` in `folder`, which is made where it is not there. E1704: it cannot be written.
[[nodiscard]] Result<void> write(const std::string& folder, const std::string& file, const std::string& specification);
/// Removes it; fine where it is not there.
void remove(const std::string& folder, const std::string& file);

/// It is in use: the last of its kind that remove_oldest() would remove. Fine where it is not there.
void note_use(const std::string& folder, const std::string& file);
/// Of the files whose names begin with ration-BEGINNING, those that were written or used last are kept.
void remove_oldest(const std::string& folder, const std::string& beginning, std::size_t kept);

/// E1705 where a file that is not `ration-FILE.json` specifies the same device: engines refuse it then.
[[nodiscard]] Result<void> check_unique(const std::vector<std::string>& folders, const std::string& file,
                                        const Device& device);

}  // namespace ration::adapters::cdi
