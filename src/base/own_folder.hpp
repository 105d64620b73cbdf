// Folders that only this user can change, even below /tmp, where any user can take a name first. Used by the store of
// the books, the simulated GPU and the command line. Promise: another user's folder or a symbolic link is never used.
#pragma once

#include <sys/types.h>

#include <string>

namespace ration {

/// The folder of the machine's daemon. Every user finds the daemon's socket in it; the books in it belong to root.
inline constexpr const char* kMachineFolder = "/run/ration";

/// Resolves a path: the result is absolute, without `..`, links and doubled slashes, so that two spellings of one place
/// are equal. Parts that do not exist stay as they are spelled.
[[nodiscard]] std::string real_path(const std::string& path);

/// Returns the description of a simulated node (`--sim`) with the real path in place of a file that it names: the TOML
/// file that describes the node, or the driver's profile, as in `T4:16GiB,driver=profile.toml`.
[[nodiscard]] std::string with_real_path(const std::string& description);

/// Makes the folder if it is missing, with that mode whatever the umask is. Returns an empty text if the folder can be
/// used, or the reason why it cannot. Rejects another user's folder, because its owner could exchange every file in it.
[[nodiscard]] std::string make_own_folder(const std::string& folder, mode_t mode);

/// Returns `/tmp/PREFIX-UID`, or `/tmp/PREFIX-UID.XXXXXX` if another user owns or can write the first. Every process of
/// this user gets the same folder. Makes the folder if it is missing; make_own_folder() reports whether it can be used.
[[nodiscard]] std::string own_folder_in_tmp(const std::string& prefix);

/// Returns $XDG_RUNTIME_DIR if it belongs to this user, as the XDG specification demands (`sudo -E` passes on another
/// user's); otherwise empty.
[[nodiscard]] std::string own_runtime_folder();

/// The folder of one simulated node.
struct SimulatedNodeFolder {
  std::string path;
  std::string problem;  ///< the reason why it cannot be used; empty if it can
};

/// Returns the parent folder of this user's simulated nodes, as resolved by real_path(). Does not make it.
[[nodiscard]] std::string simulated_nodes_folder();

/// Returns the folder that all processes of a simulated node share; RATION_SIM describes the node. The folder lies
/// below RATION_SIM_DIR, whose owner is not checked, or, if that is not set, below a folder of this user. Makes the
/// folder if it is missing; users who may write into RATION_SIM_DIR share its nodes. The UUIDs of the simulated GPUs
/// follow from the folder's real path, so every spelling of RATION_SIM_DIR and of a TOML file gives the same UUIDs.
[[nodiscard]] SimulatedNodeFolder simulated_node_folder(const std::string& description);

}  // namespace ration
