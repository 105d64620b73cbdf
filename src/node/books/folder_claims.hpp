// Decides which daemon governs a folder of books. If the folder is a daemon's own, that daemon does; otherwise the
// first daemon that learnt of the folder does. A daemon of root governs it in any case, unless another daemon of root
// does.
// Promises: at most one daemon governs a folder; a daemon that ends in any way releases its folders.
#pragma once

#include <map>
#include <string>

#include "base/file_lock.hpp"
#include "base/result.hpp"

namespace ration::node {

class FolderClaims {
 public:
  /// Claims the daemon's own folder for the lifetime of this object. Fails with E1504, which names
  /// the pid of the daemon that has the folder.
  [[nodiscard]] Result<void> claim(const std::string& folder);
  /// Returns true while the lock file is in place. If the file was removed, the folder must be claimed again.
  [[nodiscard]] bool is_claimed() const { return own_.in_place(); }

  [[nodiscard]] bool is_own(const std::string& folder) const { return folder == own_folder_; }
  /// Returns true if another daemon governs the folder; otherwise claims the folder if it is writable.
  [[nodiscard]] bool is_governed_elsewhere(const std::string& folder);
  /// Returns the pid of the daemon that governs the folder, as text.
  [[nodiscard]] static std::string governor_of(const std::string& folder);

 private:
  std::string own_folder_;
  FileLock own_;
  std::map<std::string, FileLock> adopted_;
};

}  // namespace ration::node
