// What a container gets so that its limit holds, whichever engine starts it: the guard, the file that has the dynamic
// linker load it, and a place for its book. Used by the daemon's CDI specifications, `ration inject` and `ration
// snippet`, so that they cannot differ.
#pragma once

#include <map>
#include <string>

#include "adapters/containers/cdi.hpp"
#include "cli/start/run_options.hpp"

namespace ration::cli {

// Classes of devices, as in ration.sh/tenant=nlp.
inline constexpr const char* kSliceDevice = "gpu";
inline constexpr const char* kTenantDevice = "tenant";
inline constexpr const char* kLimitDevice = "limit";
inline constexpr const char* kClaimDevice = "claim";
inline constexpr const char* kOnGpu = "-gpu";  ///< limit=4GiB-gpu0

/// The folder that every container mounts and none may write, made where it is not there. E1405.
[[nodiscard]] Result<std::string> containers_folder(const book::Store& store);

/// Writes into the runtime folder what is mounted from there, unless --dry-run was typed. E1406: the guard's files are
/// not whole; E1405.
[[nodiscard]] Result<adapters::cdi::Edits> container_edits(const Session& session, const book::Store& store);

/// By the path in a container, the file of this system that has to lie there for its limit to hold.
[[nodiscard]] Result<std::map<std::string, std::string>> container_guards(const book::Store& store);

/// Where engines look for specifications, and how that of a device is called there.
[[nodiscard]] Result<std::string> specification_folder();
[[nodiscard]] std::string specification_file(const adapters::cdi::Device& device);

/// The device that means what was typed: a limit on one GPU, a slice or a tenant. E1707: together they mean none.
[[nodiscard]] Result<adapters::cdi::Device> container_device(const Session& session, const RunOptions& typed,
                                                             const book::Store& store);

}  // namespace ration::cli
