// Which daemon governs a folder of books: the one whose own folder it is, else the first that was told of it. Used by
// Node, which leaves the books of another daemon alone.
// Promises: of two daemons at most one governs a folder; a daemon that ends, however it does, gives up what it had.
#pragma once

#include <map>
#include <string>

#include "base/file_lock.hpp"
#include "base/result.hpp"

namespace ration::node {

class FolderClaims {
 public:
  /// The daemon's own folder, for as long as this lives. E1504: it is another daemon's, with its pid.
  [[nodiscard]] Result<void> own(const std::string& folder);
  /// Whether the own folder is still claimed; it has to be claimed again after somebody removed it.
  [[nodiscard]] bool holds_own() const { return own_.in_place(); }

  [[nodiscard]] bool is_own(const std::string& folder) const { return folder == own_folder_; }
  /// Whether another daemon governs the folder; if not, this one does from then on, where it can say so.
  [[nodiscard]] bool is_anothers(const std::string& folder);
  /// The pid of that daemon, for people.
  [[nodiscard]] static std::string governor_of(const std::string& folder);

 private:
  std::string own_folder_;
  FileLock own_;
  std::map<std::string, FileLock> adopted_;
};

}  // namespace ration::node
