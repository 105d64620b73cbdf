// Folders that nobody but this user can change, also below /tmp, where everybody can take a name first. Used by the
// store of the books, the simulated GPU and the command line. Promises: nobody else's folder and no symbolic link is
// used.
#pragma once

#include <sys/types.h>

#include <string>

namespace ration {

/// Returns what the path is: absolute, without `..`, links and doubled slashes, so that two spellings of one place are
/// equal. Parts that do not exist stay as they are spelled.
[[nodiscard]] std::string real_path(const std::string& path);

/// Returns the description of a simulated node (`--sim`) with the real path of the file in it: a TOML file that
/// describes the node, or the driver's profile, as in `T4:16GiB,driver=profile.toml`.
[[nodiscard]] std::string with_real_path(const std::string& description);

/// Makes the folder where it is not there, with that mode whatever the umask is. Empty: it can be used; else why not.
/// What somebody else put there is left alone: who owns a folder can exchange every file in it.
[[nodiscard]] std::string make_own_folder(const std::string& folder, mode_t mode);

/// `/tmp/PREFIX-UID`, or `/tmp/PREFIX-UID.XXXXXX` where somebody else has that or can write there; a later process of
/// this user finds the same. Made where it is not there; make_own_folder() says whether it can be used.
[[nodiscard]] std::string own_folder_in_tmp(const std::string& prefix);

/// $XDG_RUNTIME_DIR where it is this user's, as the XDG specification demands; `sudo -E` hands on another's. Empty:
/// there is none.
[[nodiscard]] std::string own_runtime_folder();

/// The folder of one simulated node.
struct SimulatedNodeFolder {
  std::string path;
  std::string problem;  ///< empty: it can be used
};

/// In which the folders of this user's simulated nodes lie, as real_path() has it; nothing is made.
[[nodiscard]] std::string simulated_nodes_folder();

/// Where the processes of the node that RATION_SIM describes meet: in RATION_SIM_DIR, which is trusted as it is, else
/// in a folder of this user. Made where it is not there. The UUIDs of the simulated GPUs follow from its path, so that
/// every spelling of RATION_SIM_DIR and of a TOML file gives the same.
[[nodiscard]] SimulatedNodeFolder simulated_node_folder(const std::string& description);

}  // namespace ration
