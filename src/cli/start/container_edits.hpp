// The files that a container gets so that its limit holds, whichever engine starts it: the guard, the file by which the
// dynamic linker loads it, and a place for its book. Used by the daemon's CDI specifications, `ration inject` and
// `ration snippet`, so that all of them give a container the same files.
#pragma once

#include <map>
#include <string>

#include "adapters/containers/cdi.hpp"
#include "cli/session/session.hpp"
#include "cli/start/run_options.hpp"

namespace ration::cli {

// Classes of devices, as in ration.sh/tenant=nlp.
inline constexpr const char* kSliceDevice = "gpu";
inline constexpr const char* kTenantDevice = "tenant";
inline constexpr const char* kLimitDevice = "limit";
inline constexpr const char* kClaimDevice = "claim";
inline constexpr const char* kOnGpu = "-gpu";  ///< separator of limit and GPU, as in limit=4GiB-gpu0

/// Returns the folder that every container mounts read-only, and makes it if it is missing. Fails with E1405.
[[nodiscard]] Result<std::string> containers_folder(const book::Store& store);

/// Returns the mounts, variables and hooks of a container, and writes the files that are mounted from the runtime
/// folder, unless --dry-run was given. Fails with E1406 if the guard is incomplete, with E1405 if a file cannot be
/// written.
[[nodiscard]] Result<adapters::cdi::Edits> container_edits(const Session& session, const book::Store& store);

/// Returns, for each path in a container, the file of this system that must lie there for the limit to hold.
[[nodiscard]] Result<std::map<std::string, std::string>> container_guards(const book::Store& store);

/// Returns the folder where engines look for specifications. specification_file() returns the name of a device's file
/// there.
[[nodiscard]] Result<std::string> specification_folder();
[[nodiscard]] std::string specification_file(const adapters::cdi::Device& device);

/// Returns the device for a limit on one GPU, a slice or a tenant. Fails with E1707 if the options name none of the
/// three, or two of them.
[[nodiscard]] Result<adapters::cdi::Device> container_device(const Session& session, const RunOptions& typed,
                                                             const book::Store& store);

}  // namespace ration::cli
