// Serves a folder of files as pages: those that exist when it is opened, and no others. Used for the documentation.
// Promise: no path of a request leads out of the folder.
#pragma once

#include <map>
#include <string>

#include "http/message.hpp"

namespace ration::http {

class StaticFolder {
 public:
  /// A missing folder has no files.
  explicit StaticFolder(const std::string& folder);

  [[nodiscard]] bool empty() const noexcept { return files_.empty(); }
  /// Serves a file of the folder; `path` is relative, as in `scenarios/ray.html`. 404 (E1511) if there is none. Reads
  /// the file.
  [[nodiscard]] Response serve(const std::string& path, const Request& request) const;

 private:
  std::map<std::string, std::string> files_;  // their paths
};

}  // namespace ration::http
