// Serves a folder of files as pages: exactly those that exist when the folder is opened. Used for the documentation.
// Promise: no path of a request leads out of the folder.
#pragma once

#include <map>
#include <string>

#include "http/message.hpp"

namespace ration::http {

class StaticFolder {
 public:
  /// Lists the files of the folder. A missing folder counts as empty.
  explicit StaticFolder(const std::string& folder);

  [[nodiscard]] bool empty() const noexcept { return files_.empty(); }
  /// Reads and serves a file of the folder; `path` is relative, as in `scenarios/ray.html`. Answers 404 (E1511) if
  /// there is none.
  [[nodiscard]] Response serve(const std::string& path, const Request& request) const;

 private:
  std::map<std::string, std::string> files_;  // path of each file
};

}  // namespace ration::http
